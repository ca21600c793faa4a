//! Overload by delay: how long work waits for a core, and what is refused so that the rest is still
//! answered in time.
//!
//! A core serves what is ready in rounds, first come, first served. A task of this file stands in
//! that line like any connection, again and again, and takes the time: that is the delay of what is
//! served now. No command is timed.
//!
//! The rule is that of CoDel (Nichols and Jacobson 2012), in the form that suits requests (Maurer,
//! "Fail at scale", 2015): a line that is short now and then is a burst, and may be long for
//! [`INTERVAL`]. A line that was never short for an interval is standing: no rest is to be
//! expected, so what has waited longer than the limit is refused. Refusing is cheap and shortens
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
    /// Since when the watch stands in the line.
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
        let mut interval = WatchInterval::new(Instant::now());
        loop {
            let since = Instant::now();
            self.queued.set(Some(since));
            // Behind all that is ready once the runtime has looked for events.
            yield_now().await;
            let now = Instant::now();
            self.queued.set(None);
            self.last.set(now - since);
            if let Some(is_standing) = interval.note(now - since, now) {
                self.restless.set(if is_standing { CALM } else { self.restless.get().saturating_sub(1) });
            }
            if !self.is_standing() && self.last.get() < limit / 4 {
                interval.was_short = true;
                sleep(REST).await;
            }
        }
    }
}

/// What an interval has shown of the line.
struct WatchInterval {
    since: Instant,
    /// How long the core has been free.
    free: Duration,
    was_short: bool,
}
impl WatchInterval {
    fn new(since: Instant) -> WatchInterval {
        WatchInterval { since, free: Duration::ZERO, was_short: false }
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
        let is_standing = !self.was_short && self.free < lasted / FREE;
        *self = WatchInterval::new(now);
        Some(is_standing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::poll_fn, mem, task::Poll};

    const LIMIT: Duration = Duration::from_millis(10);
    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }
    fn after(is_standing: bool, last: Duration) -> Admission {
        let line = QueueDelay::new(Some(LIMIT));
        line.restless.set(u32::from(is_standing));
        line.last.set(last);
        line.admission()
    }

    #[test]
    fn a_burst_may_wait_longer_than_a_standing_line() {
        assert_eq!(after(false, ms(90)), Admission::All);
        assert_eq!(after(false, ms(101)), Admission::Nothing);
        assert_eq!(after(true, ms(4)), Admission::All);
        assert_eq!(after(true, ms(6)), Admission::HitsOnly, "hits before misses");
        assert_eq!(after(true, ms(11)), Admission::Nothing);
        assert_eq!(QueueDelay::new(None).admission(), Admission::All);
    }

    #[test]
    fn what_stands_in_the_line_now_counts() {
        let line = QueueDelay::new(Some(LIMIT));
        let now = Instant::now();
        line.restless.set(CALM);
        line.queued.set(Some(now));
        assert_eq!(line.judge(LIMIT, now + ms(1)), Admission::All);
        assert_eq!(line.judge(LIMIT, now + ms(6)), Admission::HitsOnly);
        assert_eq!(line.judge(LIMIT, now + ms(11)), Admission::Nothing);
    }

    /// Whether delays that follow each other make a standing line.
    fn standing(delays: impl IntoIterator<Item = Duration>, rests: bool) -> Option<bool> {
        let start = Instant::now();
        let mut interval = WatchInterval::new(start);
        let (mut now, mut found) = (start, None);
        for delay in delays {
            now += delay;
            found = found.or(interval.note(delay, now));
            interval.was_short |= rests;
        }
        found
    }

    #[test]
    fn a_line_stands_if_it_was_never_short_for_an_interval() {
        assert_eq!(standing(vec![ms(9); 5], false), None, "too early to say");
        assert_eq!(standing(vec![ms(9); 20], false), Some(true));
        assert_eq!(standing(vec![ms(9); 20], true), Some(false));
        // Long and short rounds in turn, as while commands are refused: the core is never free.
        let rounds = (0..40).flat_map(|_| [ms(10), Duration::from_micros(300)]);
        assert_eq!(standing(rounds, false), Some(true));
        // A core that spins has nothing to do.
        assert_eq!(standing(vec![Duration::from_micros(4); 40_000], false), Some(false));
    }

    /// Goes to the end of the line, as a connection whose socket is ready again. The runtime turns
    /// the order of tasks that yield around.
    async fn ready_again() {
        let mut was_polled = false;
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if mem::replace(&mut was_polled, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    #[test]
    fn a_busy_core_is_seen_and_a_free_one_too() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        runtime.expect("a runtime").block_on(async {
            let line = std::rc::Rc::new(QueueDelay::new(Some(ms(2))));
            let watched = line.clone();
            tokio::task::spawn_local(async move { watched.watch().await });
            // Eight connections, each of which keeps the core for a millisecond at a time.
            let busy = std::rc::Rc::new(Cell::new(true));
            for _ in 0..8 {
                let busy = busy.clone();
                tokio::task::spawn_local(async move {
                    while busy.get() {
                        let start = Instant::now();
                        while start.elapsed() < ms(1) {
                            std::hint::spin_loop();
                        }
                        ready_again().await;
                    }
                });
            }
            while line.admission() != Admission::Nothing || line.delay() < ms(2) {
                sleep(ms(1)).await;
            }
            busy.set(false);
            while line.admission() != Admission::All || line.is_standing() {
                sleep(ms(1)).await;
            }
        });
    }
}
