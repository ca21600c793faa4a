//! The budget of retries of one source, as pure code: a token bucket that fetches fill.
use std::time::Duration;

/// Retries for each fetch, in thousandths: at most a tenth of the fetches are sent twice.
const PER_FETCH: u64 = 100;
/// Retries for each millisecond, in thousandths: ten a second. Without them a source that is asked
/// once a minute, and closes idle connections, would use up its budget.
const PER_MILLISECOND: u64 = 10;
const RETRY: u64 = 1000;

/// The budget. Times are durations since some start and do not go back.
#[derive(Debug)]
pub(super) struct RetryBudget {
    /// Thousandths of a retry.
    tokens: u64,
    /// Most tokens: what may be sent again at once.
    reserve: u64,
    seen: (Duration, u64),
}
impl RetryBudget {
    /// A full budget for a source with at most `max_in_flight` fetches in flight. The loss of a
    /// connection that carries a quarter of them is made good at once.
    pub(super) fn new(max_in_flight: usize) -> RetryBudget {
        let reserve = (max_in_flight as u64 / 4).max(10).saturating_mul(RETRY);
        RetryBudget { tokens: reserve, reserve, seen: (Duration::ZERO, 0) }
    }
    /// Whether one more fetch may be sent again. `fetches` counts all fetches since the start.
    pub(super) fn take(&mut self, now: Duration, fetches: u64) -> bool {
        let (before, counted) = std::mem::replace(&mut self.seen, (now, fetches));
        let millis = u64::try_from(now.saturating_sub(before).as_millis()).unwrap_or(u64::MAX);
        if millis == 0 {
            // Parts of a millisecond add up.
            self.seen.0 = before;
        }
        let earned = fetches
            .saturating_sub(counted)
            .saturating_mul(PER_FETCH)
            .saturating_add(millis.saturating_mul(PER_MILLISECOND));
        self.tokens = self.tokens.saturating_add(earned).min(self.reserve);
        let enough = self.tokens >= RETRY;
        if enough {
            self.tokens -= RETRY;
        }
        enough
    }
}
