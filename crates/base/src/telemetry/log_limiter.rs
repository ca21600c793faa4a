//! Log lines that an attacker could ask for at will: at most one in a while.
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Lets one event in `period` be logged and counts the others.
#[derive(Debug)]
pub struct LogLimiter {
    period: Duration,
    state: Mutex<(Option<Instant>, u64)>,
}
impl LogLimiter {
    /// Once in so long.
    pub const fn new(period: Duration) -> LogLimiter {
        LogLimiter { period, state: Mutex::new((None, 0)) }
    }
    /// Notes an event at `now`. Returns the number of unlogged events since the last logged one if
    /// this one must be logged.
    pub fn due(&self, now: Instant) -> Option<u64> {
        let (last, left_out) = &mut *self.state.lock();
        if last.is_some_and(|last| now.saturating_duration_since(last) < self.period) {
            *left_out += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_period_with_the_number_of_the_others() {
        let seldom = LogLimiter::new(Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| seldom.due(start + Duration::from_secs(seconds));
        assert_eq!(
            [at(0), at(1), at(9), at(10), at(19), at(40), at(50)],
            [Some(0), None, None, Some(2), None, Some(1), Some(0)]
        );
    }
}
