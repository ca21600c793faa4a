//! The circuit breaker of one source, as pure code.
//!
//! ```text
//!     enough fetches failed, or all for a while          the pause is over, or the source was reconnected
//!  ( closed ) ───────────────────────► ( open ) ─────────────────────────────► ( half-open: a few probes )
//!      ▲                                   ▲                                          │        │
//!      │                                   └──────────── a probe failed ──────────────┘        │
//!      └─────────────────────────────── all probes were answered ──────────────────────────────┘
//! ```
use crate::source_limits::BreakerPolicy;
use std::time::Duration;

/// What the breaker lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// All fetches.
    Closed,
    /// No fetch.
    Open,
    /// A few fetches, the probes.
    HalfOpen,
}
impl BreakerState {
    pub const ALL: [BreakerState; 3] = [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen];
    /// Its name in metrics and `INFO`.
    pub fn name(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half-open",
        }
    }
}

/// Fewer failures than this within the window say too little to open the circuit.
pub(super) const MIN_FAILURES: u64 = 10;
/// Probes that must all be answered before the circuit closes.
pub(super) const PROBES: u32 = 3;
/// First and longest pause before the source is probed. A Redis source reconnects at the latest
/// after the same time.
pub(super) const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));
/// Probes that have not ended after this long are given up, and others are sent: the first ones may
/// have been dropped.
pub(super) const PROBE_PATIENCE: Duration = Duration::from_secs(10);
/// Parts of the window.
const BUCKETS: usize = 10;

#[derive(Debug, Clone, Copy)]
enum State {
    Closed,
    Open { until: Duration },
    HalfOpen { since: Duration, left: u32, answered: u32 },
}

/// A circuit breaker. Times are durations since some start and do not go back.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    policy: BreakerPolicy,
    state: State,
    /// How long the next opening lasts.
    pause: Duration,
    window: OutcomeWindow,
    /// The failures since the latest answer.
    run: FailureRun,
}

/// Failures without an answer in between.
#[derive(Debug, Default)]
struct FailureRun {
    length: u64,
    since: Duration,
}
impl CircuitBreaker {
    pub(super) fn new(policy: BreakerPolicy) -> CircuitBreaker {
        let bucket = (policy.window / BUCKETS as u32).max(Duration::from_millis(1));
        let window = OutcomeWindow { bucket, newest: 0, buckets: [Outcomes::default(); BUCKETS] };
        CircuitBreaker { policy, state: State::Closed, pause: PAUSE.0, window, run: FailureRun::default() }
    }
    pub(super) fn state(&self) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }
    /// While it is open: until when no fetch is tried.
    pub(super) fn open_until(&self) -> Option<Duration> {
        if let State::Open { until } = self.state { Some(until) } else { None }
    }
    /// When the window's newest part ends. What was answered since then must be counted before.
    pub(super) fn bucket_end(&self) -> Duration {
        self.window.bucket.saturating_mul(u32::try_from(self.window.newest + 1).unwrap_or(u32::MAX))
    }
    /// Fetches that ended, and those of them that failed, within the window.
    pub(super) fn outcomes(&self) -> (u64, u64) {
        let sum = |of: fn(&Outcomes) -> u64| self.window.buckets.iter().map(of).sum::<u64>();
        (sum(|bucket| bucket.answered) + sum(|bucket| bucket.failed), sum(|bucket| bucket.failed))
    }

    /// Failures since the latest answer.
    pub(super) fn failed_in_a_row(&self) -> u64 {
        self.run.length
    }

    /// Counts answered fetches that ended before the end of the newest bucket.
    pub(super) fn count_answered(&mut self, count: u64) {
        self.window.newest().answered += count;
        if count > 0 {
            self.run.length = 0;
        }
    }
    /// Moves the window on.
    pub(super) fn advance(&mut self, now: Duration) {
        self.window.advance(now);
    }
    /// A fetch that was sent at `begun` has ended now.
    pub(super) fn ended(&mut self, now: Duration, begun: Duration, failed: bool) {
        self.advance(now);
        match &mut self.state {
            State::Closed if failed => {
                self.window.newest().failed += 1;
                if self.run.length == 0 {
                    self.run.since = now;
                }
                self.run.length += 1;
                let (ended, failures) = self.outcomes();
                let is_share = failures * 100 >= ended * u64::from(self.policy.share);
                // A source that answers nothing is cut off without waiting until its earlier answers have left the
                // window. A burst of failures is not enough: one lost connection fails all that
                // were sent on it.
                let is_dead =
                    self.run.length >= MIN_FAILURES && now.saturating_sub(self.run.since) >= self.window.bucket;
                if failures >= MIN_FAILURES && (is_share || is_dead) {
                    self.open(now);
                }
            }
            State::Closed => self.count_answered(1),
            // Sent before the probes: it says how the source was, not how it is.
            State::HalfOpen { since, .. } if begun < *since => {}
            State::HalfOpen { .. } if failed => {
                self.pause = (self.pause * 2).min(PAUSE.1);
                self.open(now);
            }
            State::HalfOpen { answered, .. } => {
                *answered += 1;
                if *answered == PROBES {
                    self.state = State::Closed;
                    self.pause = PAUSE.0;
                    self.window.clear();
                    self.run.length = 0;
                }
            }
            State::Open { .. } => {}
        }
    }
    fn open(&mut self, now: Duration) {
        self.state = State::Open { until: now + self.pause };
    }

    /// How many of `count` fetches may be sent now.
    pub(super) fn admit(&mut self, now: Duration, count: usize) -> usize {
        match &mut self.state {
            State::Closed => count,
            State::Open { until } if now < *until => 0,
            State::Open { .. } => {
                self.half_open(now);
                self.admit(now, count)
            }
            State::HalfOpen { since, left, .. } => {
                if *left == 0 && now.saturating_sub(*since) >= PROBE_PATIENCE {
                    self.half_open(now);
                    return self.admit(now, count);
                }
                let probes = count.min(*left as usize);
                *left -= probes as u32;
                probes
            }
        }
    }
    /// Fetches that were admitted at `begun` were not sent after all, or were given up.
    pub(super) fn give_back(&mut self, count: usize, begun: Duration) {
        if let State::HalfOpen { since, left, answered } = &mut self.state
            // Those from before are no probes.
            && begun >= *since
        {
            *left = left.saturating_add(u32::try_from(count).unwrap_or(PROBES)).min(PROBES - *answered);
        }
    }
    /// A connection to the source was made: it is probed now, not when the pause is over.
    pub(super) fn connected(&mut self, now: Duration) {
        if matches!(self.state, State::Open { .. }) {
            self.half_open(now);
        }
    }
    fn half_open(&mut self, now: Duration) {
        self.state = State::HalfOpen { since: now, left: PROBES, answered: 0 };
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Outcomes {
    answered: u64,
    failed: u64,
}

/// How the latest fetches ended: a ring of buckets, each for a part of the window.
#[derive(Debug)]
struct OutcomeWindow {
    bucket: Duration,
    /// The number of the newest bucket, counted from the start of time.
    newest: u64,
    buckets: [Outcomes; BUCKETS],
}
impl OutcomeWindow {
    fn newest(&mut self) -> &mut Outcomes {
        &mut self.buckets[(self.newest % BUCKETS as u64) as usize]
    }
    fn advance(&mut self, now: Duration) {
        let number = (now.as_nanos() / self.bucket.as_nanos()) as u64;
        if number >= self.newest + BUCKETS as u64 {
            self.clear();
            self.newest = number;
        }
        while self.newest < number {
            self.newest += 1;
            *self.newest() = Outcomes::default();
        }
    }
    fn clear(&mut self) {
        self.buckets = Default::default();
    }
}
