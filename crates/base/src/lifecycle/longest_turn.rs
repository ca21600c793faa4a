//! The longest turn of a worker, in CPU time: while a task has its turn, no other client of the
//! worker is answered.
//!
//! The clock of a thread's CPU time is a system call, so it is not read for each turn. A turn of a
//! client reads the wall clock in any case. If the last look was [`LOOK`] ago by that clock, the
//! CPU time since then is looked at. So what is taken for one turn may include up to [`LOOK`] of
//! shorter ones before it. The time for which other processes had the core does not count.
use super::ticks::Ticks;
use crate::telemetry::Maximum;
use larder_engine::Millis;
use rustix::time::{ClockId, clock_gettime};
use std::{cell::Cell, time::Duration};

/// The least time between two looks of clients.
const LOOK: Millis = 10;

/// Measures the turns of one worker.
#[derive(Debug, Default)]
pub struct LongestTurn {
    /// When a client's turn last looked.
    looked: Cell<Millis>,
    /// A client has had a turn since the last look.
    is_begun: Cell<bool>,
    /// The CPU time that the last look saw.
    seen: Cell<Duration>,
}

impl LongestTurn {
    /// A client's turn begins, so the turn before it is over.
    #[inline]
    pub fn begin(&self, now: Millis, longest: &Maximum) {
        if now.abs_diff(self.looked.get()) >= LOOK {
            self.looked.set(now);
            self.look(longest);
        }
        self.is_begun.set(true);
    }

    /// Looks at each tick, too: the turn of a client may be the last for long.
    pub async fn watch(&self, ticks: &Ticks, longest: &Maximum) {
        loop {
            ticks.next().await;
            self.look(longest);
        }
    }

    /// Takes the CPU time since the last look for that of one turn, if a client had one.
    #[cold]
    fn look(&self, longest: &Maximum) {
        let now = thread_cpu();
        let before = self.seen.replace(now);
        if self.is_begun.replace(false) {
            longest.note(now.saturating_sub(before).as_micros() as u64);
        }
    }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses this much CPU time of the thread.
    fn work(millis: u64) {
        let end = thread_cpu() + Duration::from_millis(millis);
        while thread_cpu() < end {}
    }

    #[test]
    fn a_long_turn_is_seen_when_the_next_begins() {
        let (turns, longest) = (LongestTurn::default(), Maximum::default());
        turns.begin(1_000, &longest);
        work(30);
        turns.begin(1_000 + LOOK - 1, &longest);
        assert_eq!(longest.get(), 0, "no clock is read yet");
        turns.begin(1_000 + LOOK, &longest);
        assert!((30_000..60_000).contains(&longest.get()), "{longest:?}");
        work(10);
        turns.begin(1_000, &longest);
        assert!(longest.get() < 60_000, "{longest:?}");
        longest.reset();
        assert_eq!(longest.get(), 0);
    }

    #[tokio::test]
    async fn the_last_turn_is_seen_at_a_tick_and_other_work_is_none() {
        let (turns, longest, ticks) = (LongestTurn::default(), Maximum::default(), Ticks::default());
        let looked = async || {
            ticks.tick();
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            longest.get()
        };
        let pieces = async {
            tokio::task::yield_now().await;
            turns.begin(1_000, &longest);
            work(20);
            let last = looked().await;
            assert!((20_000..50_000).contains(&last), "{last}");
            work(60);
            assert_eq!(looked().await, last);
        };
        tokio::select! {
            () = turns.watch(&ticks, &longest) => unreachable!("it never ends"),
            () = pieces => {}
        }
    }
}
