//! The limit on fetches in flight at one server, as pure code: it follows the server's latency.
//!
//! Each window of 100 ms has a mean latency. It is compared with the best mean of the last minute:
//! - Above the bound (twice the best and a slack), the limit becomes what was in flight times the
//!   gradient (bound / mean, at least a half).
//! - Else it grows: by its square root, and after an outage it doubles (slow start).
//!
//! A server can also become slow for reasons that have nothing to do with the number of fetches. If
//! it is still slow after five seconds at the lowest limit, its latency becomes the new best, and
//! the limit grows again.
use std::time::Duration;

/// The lowest limit, and the limit at which a slow start begins.
pub(super) const MIN_LIMIT: usize = 16;
/// How long latencies are collected before the limit changes.
pub(super) const WINDOW: Duration = Duration::from_millis(100);
/// A mean latency up to this many times the best is normal.
const TOLERANCE: u32 = 2;
/// Added to the bound: fetches that wait for Larder's own cores look slow, too, and to a server
/// that answers this fast fewer fetches are no help.
const SLACK: Duration = Duration::from_millis(20);
/// The best latency is that of the last one to two of these.
const BEST_AGE: Duration = Duration::from_secs(30);
/// After this long at the lowest limit, the latency is the server's own.
pub(super) const FLOOR_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
pub(super) struct LatencyWindow {
    /// Mean latency of the fetches that ended.
    pub(super) mean: Duration,
    /// Most fetches in flight.
    pub(super) peak: usize,
}

/// The limit. Times are durations since some start and do not go back.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    limit: usize,
    max: usize,
    /// Whether latency lowers the limit (not with `source-max-in-flight = "fixed:N"`).
    adaptive: bool,
    /// Whether the limit doubles: after an outage, until the server becomes slow or the limit is at
    /// its maximum.
    doubling: bool,
    best: BestLatency,
    at_floor_since: Option<Duration>,
}
impl ConcurrencyLimit {
    /// Starts at `max`: before the first answer nothing is known about the server.
    pub(super) fn new(max: usize, adaptive: bool) -> ConcurrencyLimit {
        ConcurrencyLimit {
            limit: max,
            max,
            adaptive,
            doubling: false,
            best: BestLatency::default(),
            at_floor_since: None,
        }
    }
    pub(super) fn limit(&self) -> usize {
        self.limit
    }
    fn floor(&self) -> usize {
        MIN_LIMIT.min(self.max)
    }
    /// Slow start: the server is back after an outage.
    pub(super) fn restart(&mut self) {
        self.limit = self.floor();
        self.doubling = true;
        self.at_floor_since = None;
    }
    /// A window has ended in which at least one fetch ended.
    pub(super) fn end_window(&mut self, now: Duration, window: LatencyWindow) {
        let bound = self.best.get().map(|best| best * TOLERANCE + SLACK);
        self.best.note(now, window.mean);
        match bound.filter(|bound| self.adaptive && window.mean > *bound) {
            Some(bound) => self.shrink(now, window, bound),
            None => self.grow(),
        }
    }
    fn shrink(&mut self, now: Duration, window: LatencyWindow, bound: Duration) {
        self.doubling = false;
        let gradient = (bound.as_secs_f64() / window.mean.as_secs_f64()).max(0.5);
        // What was in flight, not the limit: the limit may be far above it, and lowering it would then
        // change nothing.
        let used = self.limit.min(window.peak);
        self.limit = ((used as f64 * gradient) as usize).max(self.floor()).min(self.limit);
        if self.limit > self.floor() {
            self.at_floor_since = None;
        } else if now - *self.at_floor_since.get_or_insert(now) >= FLOOR_PATIENCE {
            self.best = BestLatency::default();
            self.best.note(now, window.mean);
            self.at_floor_since = None;
        }
    }
    fn grow(&mut self) {
        self.at_floor_since = None;
        let step = if self.doubling { self.limit } else { self.limit.isqrt().max(1) };
        self.limit = self.limit.saturating_add(step).min(self.max);
        self.doubling &= self.limit < self.max;
    }
}

/// The lowest mean latency of the last one to two periods.
#[derive(Debug, Default)]
struct BestLatency {
    begun: Duration,
    this: Option<Duration>,
    previous: Option<Duration>,
}
impl BestLatency {
    fn get(&self) -> Option<Duration> {
        self.this.into_iter().chain(self.previous).min()
    }
    fn note(&mut self, now: Duration, mean: Duration) {
        if now.saturating_sub(self.begun) >= BEST_AGE {
            self.begun = now;
            self.previous = self.this.take();
        }
        self.this = Some(self.this.map_or(mean, |best| best.min(mean)));
    }
}
