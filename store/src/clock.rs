//! The one place that reads the wall clock; everything below takes the time as an argument.
use larder_engine::Millis;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch. A clock set before 1970 reads as 0.
///
/// Expiries are moments on this clock, as in Redis: a clock that is set forward expires entries early.
pub fn now() -> Millis {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX))
}
