//! The one place that reads the wall clock; everything below takes the time as an argument.
use larder_engine::Millis;
use std::{
    sync::atomic::{AtomicI64, Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Milliseconds since the Unix epoch. A clock set before 1970 reads as 0.
///
/// Expiries are moments on this clock, as in Redis: a clock that is set forward expires entries
/// early.
pub fn now() -> Millis {
    #[cfg(feature = "simulated-clock")]
    if let Some(simulated) = simulated::NOW.get() {
        return simulated;
    }
    let system = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX));
    system.saturating_add_signed(SHIFT.load(Relaxed))
}

/// The same time to the microsecond, as Redis tells it.
pub fn since_epoch() -> Duration {
    let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let shift = SHIFT.load(Relaxed);
    let by = Duration::from_millis(shift.unsigned_abs());
    if shift < 0 { system.saturating_sub(by) } else { system.saturating_add(by) }
}

/// How far [`shift`] has moved the clock, ms. The one global of the program, like the clock itself:
/// whoever reads the one must see the other (decision 0078).
static SHIFT: AtomicI64 = AtomicI64::new(0);

/// Sets the clock forward by so many milliseconds, or back, for the whole process: for a rehearsal
/// of what a wrong clock does.
pub fn shift(by: i64) {
    SHIFT.fetch_add(by, Relaxed);
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
