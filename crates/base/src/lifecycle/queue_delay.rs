//! Overload by delay: how long work waits for a core, and what is refused so that the rest is still
//! answered in time.
//!
//! A core serves what is ready in rounds, first come, first served. A task of this file stands in
//! that line like any connection, again and again, and takes the time: that is the delay of what is
//! served now. No command is timed.
//!
//! The rule is that of CoDel (Nichols and Jacobson 2012), in the form that suits requests (Maurer,
//! "Fail at scale", 2015): a line that is short now and then is a burst, and may be long for
//! [`INTERVAL`]. A line that was never short for an interval is standing: it will not
//! empty, so what has waited longer than the limit is refused. Refusing is cheap and shortens
//! the line, so that what is served next is served in time. The core has to be free in [`CALM`]
//! intervals in a row before a line counts as a burst again: a pause of the clients does not end an
//! overload.
use std::{
    cell::Cell,
    time::{Duration, Instant},
};
use tokio::{task::yield_now, time::sleep};

/// A line that was short within this time is no standing one.
const INTERVAL: Duration = Duration::from_millis(100);
/// Intervals in a row in which the core was free, after which an overload is over.
const CALM: u32 = 10;
/// A line of this length is none: the core has looked for work and found next to nothing.
const EMPTY: Duration = Duration::from_micros(50);
/// Between two looks at a line that is short.
const REST: Duration = Duration::from_millis(5);
/// A free core ends a rest within this time: the runtime's timer counts whole milliseconds.
const RESTED: Duration = Duration::from_millis(7);
/// A core that is free for this part of an interval (1/n) has no standing line.
const FREE: u32 = 50;

/// What refused clients are told.
pub const OVERLOADED: &str = "overloaded: requests wait longer than max-queue-delay";

/// What a core takes on at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Everything.
    All,
    /// What the memory tier can answer; what would need the source is refused.
    HitsOnly,
    /// No requests for entries.
    Nothing,
}

/// The line in front of one core.
#[derive(Debug, Default)]
pub struct QueueDelay {
    /// `max-queue-delay`; `None`: it is not looked at.
    limit: Option<Duration>,
    /// Since when the watch stands in the line. While it rests: when a free core would have ended
    /// the rest.
    queued: Cell<Option<Instant>>,
    /// How long it stood there the last time.
    last: Cell<Duration>,
    /// Intervals that must be calm before a long line counts as a burst; 0: there is no overload.
    restless: Cell<u32>,
}

impl QueueDelay {
    /// Nothing is refused without a limit.
    pub fn new(limit: Option<Duration>) -> QueueDelay {
        QueueDelay { limit, ..QueueDelay::default() }
    }

    /// Whether there is a limit.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.limit.is_some()
    }

    /// What is taken on now.
    #[inline]
    pub fn admission(&self) -> Admission {
        match self.limit {
            None => Admission::All,
            Some(limit) => self.judge(limit, Instant::now()),
        }
    }

    fn judge(&self, limit: Duration, now: Instant) -> Admission {
        let so_far = self.queued.get().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let waited = self.last.get().max(so_far);
        match self.is_standing() {
            false if waited > INTERVAL.max(limit) => Admission::Nothing,
            false => Admission::All,
            true if waited > limit => Admission::Nothing,
            true if waited > limit / 2 => Admission::HitsOnly,
            true => Admission::All,
        }
    }

    /// Whether there is an overload.
    fn is_standing(&self) -> bool {
        self.restless.get() > 0
    }

    /// The delay of what is served now, as far as it is known.
    pub fn delay(&self) -> Duration {
        self.last.get()
    }

    /// Stands in the line and takes the time, for ever. The task of the core that the line is in
    /// front of.
    pub async fn watch(&self) {
        let Some(limit) = self.limit else { return };
        let mut since = Instant::now();
        let mut interval = WatchInterval::new(since);
        loop {
            self.queued.set(Some(since));
            // Behind all that is ready once the runtime has looked for events.
            yield_now().await;
            let now = Instant::now();
            if self.passed(limit, &mut interval, now) {
                sleep(REST).await;
                since = Instant::now().min(now + RESTED);
            } else {
                since = now;
            }
        }
    }

    /// Notes that the watch is through the line. Whether it rests now.
    fn passed(&self, limit: Duration, interval: &mut WatchInterval, now: Instant) -> bool {
        let delay = self.queued.get().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.last.set(delay);
        if let Some(is_standing) = interval.note(delay, now) {
            self.restless.set(if is_standing { CALM } else { self.restless.get().saturating_sub(1) });
        }
        let rests = !self.is_standing() && delay < limit / 4;
        if rests {
            *interval = WatchInterval::new(now);
            // The timer wakes the watch after the core has served what was ready. That time counts too.
            self.queued.set(Some(now + RESTED));
        }
        rests
    }
}

/// What an interval has shown of the line. A new one begins whenever the line was short.
struct WatchInterval {
    since: Instant,
    /// How long the core has been free.
    free: Duration,
}
impl WatchInterval {
    fn new(since: Instant) -> WatchInterval {
        WatchInterval { since, free: Duration::ZERO }
    }
    /// Notes a delay. At the end of an interval: whether the line is a standing one.
    fn note(&mut self, delay: Duration, now: Instant) -> Option<bool> {
        if delay < EMPTY {
            self.free += delay;
        }
        let lasted = now.saturating_duration_since(self.since);
        if lasted < INTERVAL {
            return None;
        }
        let is_standing = self.free < lasted / FREE;
        *self = WatchInterval::new(now);
        Some(is_standing)
    }
}

#[cfg(test)]
mod tests;
