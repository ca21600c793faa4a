//! The service manager's watchdog: the process sends keep-alives while every worker and the control
//! thread run their tasks. If a worker hangs, the keep-alives end and the manager restarts the
//! process.
use super::service_manager;
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::time::{MissedTickBehavior, interval, sleep};

/// The value of a worker that has ended.
const ENDED: u64 = u64::MAX;

/// When each worker has last run a task of its own.
#[derive(Debug)]
pub struct Watchdog {
    /// Within this time the manager wants a keep-alive.
    period: Duration,
    start: Instant,
    /// Milliseconds since `start`, for each worker.
    beats: Box<[AtomicU64]>,
}

impl Watchdog {
    /// The watchdog of the manager that started the process. `None`: it has none.
    pub fn of_service_manager(workers: usize) -> Option<Watchdog> {
        service_manager::watchdog_period().map(|period| Watchdog::new(period, workers, Instant::now()))
    }

    fn new(period: Duration, workers: usize, start: Instant) -> Watchdog {
        Watchdog { period, start, beats: (0..workers).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Notes that `worker` runs, four times in each period. A task of that worker.
    pub async fn keep_beating(&self, worker: usize) {
        loop {
            self.beat(worker, Instant::now());
            sleep(self.period / 4).await;
        }
    }

    /// `worker` has ended on purpose: no beats are expected of it.
    pub fn worker_ends(&self, worker: usize) {
        self.beats[worker].store(ENDED, Relaxed);
    }

    /// Sends the signs of life. A task of the control thread, from the moment when the process is
    /// ready.
    pub async fn watch(&self) {
        let mut quarter = interval(self.period / 4);
        quarter.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut missed = None;
        loop {
            quarter.tick().await;
            let silent = self.silent_worker(Instant::now());
            match silent {
                None => service_manager::alive(),
                Some(worker) if missed != silent => {
                    tracing::error!(worker, "a worker hangs: the watchdog gets no signs of life until it runs again");
                }
                Some(_) => {}
            }
            missed = silent;
        }
    }

    fn beat(&self, worker: usize, now: Instant) {
        self.beats[worker].store(self.millis(now), Relaxed);
    }

    /// A worker that has run none of its tasks for half of the period.
    fn silent_worker(&self, now: Instant) -> Option<usize> {
        let oldest = self.millis(now).saturating_sub((self.period / 2).as_millis() as u64);
        self.beats.iter().position(|beat| beat.load(Relaxed) < oldest)
    }

    fn millis(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_hangs_is_found_and_one_that_ended_is_not() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let watchdog = Watchdog::new(Duration::from_secs(1), 3, start);
        assert_eq!(watchdog.silent_worker(after(400)), None);
        for worker in 0..3 {
            watchdog.beat(worker, after(400));
        }
        watchdog.beat(0, after(800));
        watchdog.worker_ends(1);
        assert_eq!(watchdog.silent_worker(after(900)), None);
        assert_eq!(watchdog.silent_worker(after(950)), Some(2));
        watchdog.beat(2, after(950));
        assert_eq!(watchdog.silent_worker(after(1200)), None);
        assert_eq!(watchdog.silent_worker(after(1301)), Some(0));
    }
}
