//! The one place that reads the wall clock; everything below takes the time as an argument.
use larder_engine::Millis;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch. A clock set before 1970 reads as 0.
///
/// Expiries are moments on this clock, as in Redis: a clock that is set forward expires entries
/// early.
pub fn now() -> Millis {
    #[cfg(feature = "simulated-clock")]
    if let Some(simulated) = simulated::NOW.get() {
        return simulated;
    }
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX))
}

/// For simulations, which tests alone switch on: this thread's clock stands at a moment until it is
/// set again; `None`: it is the system's.
#[cfg(feature = "simulated-clock")]
pub fn stand_at(now: Option<Millis>) {
    simulated::NOW.set(now);
}

#[cfg(feature = "simulated-clock")]
mod simulated {
    use larder_engine::Millis;
    use std::cell::Cell;

    thread_local! {
        pub(super) static NOW: Cell<Option<Millis>> = const { Cell::new(None) };
    }
}
