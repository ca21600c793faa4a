//! When requests are due. Arithmetic only: time is an argument.
//!
//! ```text
//!              notice(now)                 take(now)
//! not due yet ------------> due, waiting ------------> on a connection
//!                           (numbers only: a queue of any length costs nothing)
//! ```
//! No request is skipped and none is moved: one that waits for a connection keeps the time it was
//! meant for.
use super::{
    ops::DrawnOperation,
    users::{Turn, Users},
};
use std::{collections::VecDeque, time::Duration};

/// An operation with the nanosecond since the start at which it is due.
pub(crate) type Timed = (u64, DrawnOperation);

/// How a thread paces its requests.
pub(crate) enum Pace {
    /// As fast as replies come.
    Closed {
        /// No more from this time on, ns since the start.
        until: u64,
        /// Nor after so many requests from the end of the warm-up on.
        requests: u64,
        /// The end of the warm-up.
        warm_up: u64,
        /// Users with think time; then a request belongs to one of them
        /// ([`Schedule::take_turn`]).
        users: Option<Users>,
    },
    /// Evenly in time.
    Open {
        /// Nanoseconds between two requests of all threads.
        interval: f64,
        /// The number of this thread's first request among all, and the distance to its next.
        first: u64,
        step: u64,
        /// This thread's number of requests.
        count: u64,
    },
    /// As a trace says.
    Replay(Replay),
}

/// The operations of a trace: those that are due and wait, the next one, the others.
pub(crate) struct Replay {
    waiting: VecDeque<Timed>,
    next: Option<Timed>,
    rest: Box<dyn Iterator<Item = Timed> + Send>,
}

impl Replay {
    /// Plays these, which are in order of time.
    pub(crate) fn new(mut operations: Box<dyn Iterator<Item = Timed> + Send>) -> Replay {
        Replay { waiting: VecDeque::new(), next: operations.next(), rest: operations }
    }
}

/// A thread's share of the schedule.
pub(crate) struct Schedule {
    pace: Pace,
    noticed: u64,
    taken: u64,
}

/// A request to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// When it was meant to start, ns since the start of the run.
    pub(crate) intended: u64,
    /// What it is, if the schedule says so.
    pub(crate) op: Option<DrawnOperation>,
}

impl Schedule {
    /// A schedule from its beginning.
    pub(crate) fn new(pace: Pace) -> Schedule {
        Schedule { pace, noticed: 0, taken: 0 }
    }

    /// The share of thread `thread` of `threads` in `rate` requests a second over all of `length`.
    pub(crate) fn open(rate: f64, length: Duration, thread: usize, threads: usize) -> Schedule {
        let all = (length.as_secs_f64() * rate).round() as u64;
        let (first, step) = (thread as u64, threads as u64);
        let count = all.saturating_sub(first).div_ceil(step);
        Schedule::new(Pace::Open { interval: 1e9 / rate, first, step, count })
    }

    /// When the request with this number is due.
    fn time(&self, number: u64) -> Option<u64> {
        match &self.pace {
            Pace::Open { interval, first, step, count } if number < *count => {
                Some(((first + number * step) as f64 * interval) as u64)
            }
            _ => None,
        }
    }

    /// The next time at which a request becomes due; absent if that depends on replies, or if there
    /// is none.
    pub(crate) fn next(&self) -> Option<u64> {
        match &self.pace {
            Pace::Replay(replay) => replay.next.map(|(time, _)| time),
            Pace::Closed { users, until, requests, .. } => {
                users.as_ref()?.next().filter(|next| next < until && self.taken < *requests)
            }
            Pace::Open { .. } => self.time(self.noticed),
        }
    }

    /// Makes requests due whose time has come; tells each one's time.
    pub(crate) fn notice(&mut self, now: u64, mut each: impl FnMut(u64)) {
        if self.is_closed() {
            return;
        }
        while let Some(time) = self.next().filter(|&time| time <= now) {
            self.noticed += 1;
            if let Pace::Replay(replay) = &mut self.pace {
                replay.waiting.extend(replay.next.take());
                replay.next = replay.rest.next();
            }
            each(time);
        }
    }

    /// The oldest request that is due.
    pub(crate) fn take(&mut self, now: u64) -> Option<Due> {
        match &mut self.pace {
            Pace::Closed { until, requests, warm_up, users } => {
                if users.is_some() || now >= *until || self.taken >= *requests {
                    return None;
                }
                self.taken += u64::from(now >= *warm_up);
                Some(Due { intended: now, op: None })
            }
            Pace::Open { .. } => {
                let intended = (self.taken < self.noticed).then(|| self.time(self.taken)).flatten()?;
                self.taken += 1;
                Some(Due { intended, op: None })
            }
            Pace::Replay(replay) => {
                let (intended, op) = replay.waiting.pop_front()?;
                self.taken += 1;
                Some(Due { intended, op: Some(op) })
            }
        }
    }

    /// A user whose think time is over. [`Schedule::sent`] or
    /// [`Schedule::postpone`] says the outcome.
    pub(crate) fn take_turn(&mut self, now: u64) -> Option<Turn> {
        match &mut self.pace {
            Pace::Closed { until, requests, users: Some(users), .. } if now < *until && self.taken < *requests => {
                users.take(now)
            }
            _ => None,
        }
    }

    /// The user of a turn has sent the request that it was meant to start at `intended`.
    pub(crate) fn sent(&mut self, intended: u64) {
        if let Pace::Closed { warm_up, .. } = &self.pace {
            self.taken += u64::from(intended >= *warm_up);
        }
    }

    /// The user of a turn cannot send before `until`.
    pub(crate) fn postpone(&mut self, until: u64, since: u64, user: usize) {
        if let Pace::Closed { users: Some(users), .. } = &mut self.pace {
            users.postpone(until, since, user);
        }
    }

    /// The request of this connection is over; if the connection is a user, the user thinks.
    pub(crate) fn think(&mut self, now: u64, user: usize) {
        if let Pace::Closed { users: Some(users), .. } = &mut self.pace {
            users.think(now, user);
        }
    }

    /// Will [`Schedule::take`] never give another?
    pub(crate) fn ended(&self, now: u64) -> bool {
        match &self.pace {
            Pace::Closed { until, requests, .. } => now >= *until || self.taken >= *requests,
            Pace::Open { count, .. } => self.taken == *count,
            Pace::Replay(replay) => replay.next.is_none() && replay.waiting.is_empty(),
        }
    }

    /// Ends it now: what is not due yet will not be.
    pub(crate) fn cut(&mut self, now: u64) {
        match &mut self.pace {
            Pace::Closed { until, .. } => *until = now.min(*until),
            Pace::Open { count, .. } => *count = self.noticed,
            Pace::Replay(replay) => (replay.next, replay.rest) = (None, Box::new(std::iter::empty())),
        }
    }

    /// Do replies decide when the next request is due?
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.pace, Pace::Closed { .. })
    }

    /// Has the last request's time come (or gone)?
    pub(crate) fn over(&self, now: u64) -> bool {
        match self.pace {
            Pace::Closed { .. } => self.ended(now),
            _ => self.next().is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_threads_share_an_even_schedule() {
        for (rate, threads) in [(1000.0, 1), (1000.0, 3), (333.3, 2), (200_000.0, 4)] {
            let mut times = Vec::new();
            for thread in 0..threads {
                let mut schedule = Schedule::open(rate, Duration::from_secs(2), thread, threads);
                schedule.notice(u64::MAX, |time| times.push(time));
                assert!(schedule.over(0) && !schedule.ended(0));
            }
            times.sort_unstable();
            assert_eq!(times.len(), (2.0 * rate).round() as usize);
            for (number, &time) in times.iter().enumerate() {
                assert!((time as f64 - number as f64 * 1e9 / rate).abs() <= 1.0, "{number} at {time}");
            }
        }
    }

    #[test]
    fn what_waits_keeps_its_time() {
        let mut schedule = Schedule::open(10.0, Duration::from_secs(1), 0, 1);
        let mut noticed = Vec::new();
        schedule.notice(350_000_000, |time| noticed.push(time));
        assert_eq!(noticed, [0, 100_000_000, 200_000_000, 300_000_000]);
        assert_eq!(schedule.next(), Some(400_000_000));
        // Taken late, in order, none skipped.
        for intended in noticed {
            assert_eq!(schedule.take(900_000_000), Some(Due { intended, op: None }));
        }
        assert_eq!(schedule.take(900_000_000), None);
        schedule.notice(5 * SECOND, |_| {});
        assert_eq!(std::iter::from_fn(|| schedule.take(5 * SECOND)).count(), 6);
        assert!(schedule.ended(5 * SECOND));
    }

    #[test]
    fn a_closed_loop_counts_from_the_end_of_the_warm_up() {
        let mut schedule = Schedule::new(Pace::Closed { until: u64::MAX, requests: 2, warm_up: 10, users: None });
        assert_eq!(schedule.next(), None);
        for now in [0, 9, 10, 11] {
            assert_eq!(schedule.take(now), Some(Due { intended: now, op: None }));
        }
        assert!(schedule.take(12).is_none() && schedule.ended(12));
        let mut timed = Schedule::new(Pace::Closed { until: 5, requests: u64::MAX, warm_up: 0, users: None });
        assert!(timed.take(4).is_some() && timed.take(5).is_none() && timed.over(5));
    }

    #[test]
    fn a_trace_is_played_in_its_time() {
        let op = |key| DrawnOperation { verb: 0, key, size: None };
        let mut schedule = Schedule::new(Pace::Replay(Replay::new(Box::new([(5, op(1)), (7, op(2))].into_iter()))));
        assert_eq!(schedule.next(), Some(5));
        schedule.notice(6, |_| {});
        assert_eq!(schedule.take(100), Some(Due { intended: 5, op: Some(op(1)) }));
        assert_eq!(schedule.take(100), None);
        schedule.notice(7, |_| {});
        assert!(schedule.over(7) && !schedule.ended(7));
        assert_eq!(schedule.take(100).map(|due| due.intended), Some(7));
        assert!(schedule.ended(7));
    }

    #[test]
    fn a_schedule_that_is_cut_keeps_what_was_due() {
        let mut open = Schedule::open(10.0, Duration::from_secs(10), 0, 1);
        open.notice(350_000_000, |_| {});
        open.cut(350_000_000);
        assert!(open.over(350_000_000) && !open.ended(350_000_000));
        assert_eq!(std::iter::from_fn(|| open.take(400_000_000)).count(), 4);
        assert!(open.ended(400_000_000));
        let mut closed = Schedule::new(Pace::Closed { until: u64::MAX, requests: 9, warm_up: 0, users: None });
        closed.cut(5);
        assert!(closed.over(5) && closed.ended(5) && closed.take(5).is_none());
        let op = DrawnOperation { verb: 0, key: 1, size: None };
        let trace = [(5, op), (7, op), (9, op)];
        let mut replay = Schedule::new(Pace::Replay(Replay::new(Box::new(trace.into_iter()))));
        replay.notice(6, |_| {});
        replay.cut(6);
        assert_eq!(replay.take(6).map(|due| due.intended), Some(5));
        assert!(replay.over(6) && replay.ended(6));
    }

    /// Latency from the intended start shows a stall as arithmetic says, whatever the number of
    /// connections: played with a fake clock.
    #[test]
    fn a_stall_shows_as_arithmetic_predicts() {
        // 1000 a second for 10 s, answered at once, but for 200 ms at second 3 nothing is.
        let stall = 3 * SECOND..3 * SECOND + SECOND / 5;
        for slots in [1, 8] {
            let mut schedule = Schedule::open(1000.0, Duration::from_secs(10), 0, 1);
            let (mut latencies, mut flying) = (Vec::new(), Vec::new());
            let mut now = 0;
            while !(schedule.ended(now) && flying.is_empty()) {
                schedule.notice(now, |_| {});
                loop {
                    while flying.len() < slots {
                        let Some(due) = schedule.take(now) else { break };
                        flying.push(due.intended);
                    }
                    if stall.contains(&now) || flying.is_empty() {
                        break;
                    }
                    latencies.extend(flying.drain(..).map(|intended| now - intended));
                }
                now += 1_000_000;
            }
            latencies.sort_unstable();
            assert_eq!(latencies.len(), 10_000);
            // The 200 requests due during the stall wait 1 to 200 ms; all others not at all.
            let expected: Vec<u64> = (0..10_000).map(|n: u64| n.saturating_sub(9_799) * 1_000_000).collect();
            assert_eq!(latencies, expected, "{slots} at a time");
        }
    }
}
