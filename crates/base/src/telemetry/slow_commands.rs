//! Commands that took long: their thresholds, the slow log and the latency events.
//!
//! A command that did not take long costs a comparison with one number. Locks are taken only for
//! those that did.
use super::{
    latency_events::{LatencyEvents, LatencySummary},
    slow_log::{SlowEntry, SlowLog},
};
use crate::buffers::TableShare;
use crate::special::Switch;
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

/// Below this threshold commands are timed one by one, not in runs.
const EACH: Duration = Duration::from_millis(1);
const OFF: u64 = u64::MAX;

/// Entries of the slow log until `CONFIG SET slowlog-max-len`: Redis's default.
const MAX_LEN: usize = 128;

/// The thresholds, and what exceeded them.
#[derive(Debug)]
pub struct SlowCommands {
    /// The lower of the two thresholds, nanoseconds.
    from: AtomicU64,
    /// On while commands must be timed one by one.
    pub times_each: Switch,
    /// Of the log, nanoseconds.
    log_from: AtomicU64,
    /// Of the events, nanoseconds.
    events_from: AtomicU64,
    max_len: AtomicUsize,
    log: Mutex<SlowLog>,
    events: Mutex<LatencyEvents>,
}

impl Default for SlowCommands {
    fn default() -> Self {
        SlowCommands {
            from: AtomicU64::new(OFF),
            times_each: Switch::default(),
            log_from: AtomicU64::new(OFF),
            events_from: AtomicU64::new(OFF),
            max_len: AtomicUsize::new(MAX_LEN),
            log: Mutex::default(),
            events: Mutex::default(),
        }
    }
}

fn nanos(time: Option<Duration>) -> u64 {
    time.map_or(OFF, |time| u64::try_from(time.as_nanos()).unwrap_or(OFF))
}
fn duration(nanos: u64) -> Option<Duration> {
    (nanos != OFF).then(|| Duration::from_nanos(nanos))
}

impl SlowCommands {
    /// The log occupies this share of the buffers at most.
    pub fn bound(&self, share: TableShare) {
        self.log.lock().share = Some(share);
    }
    /// Sets `slowlog-log-slower-than`; `None`: nothing is logged.
    pub fn log_from(&self, from: Option<Duration>) {
        self.log_from.store(nanos(from), Relaxed);
        self.note_thresholds();
    }
    /// Sets `latency-monitor-threshold`; `None`: there are no events.
    pub fn watch_from(&self, from: Option<Duration>) {
        self.events_from.store(nanos(from), Relaxed);
        self.note_thresholds();
    }
    fn note_thresholds(&self) {
        let from = self.log_from.load(Relaxed).min(self.events_from.load(Relaxed));
        self.from.store(from, Relaxed);
        self.times_each.set(from < EACH.as_nanos() as u64);
    }
    /// Sets `slowlog-max-len`.
    pub fn set_max_len(&self, max_len: usize) {
        self.max_len.store(max_len, Relaxed);
        self.log.lock().truncate(max_len);
    }
    /// `slowlog-log-slower-than`.
    pub fn logs_from(&self) -> Option<Duration> {
        duration(self.log_from.load(Relaxed))
    }
    /// `latency-monitor-threshold`.
    pub fn watches_from(&self) -> Option<Duration> {
        duration(self.events_from.load(Relaxed))
    }
    /// `slowlog-max-len`.
    pub fn max_len(&self) -> usize {
        self.max_len.load(Relaxed)
    }

    /// Whether a command that took so long must be passed to [`note`](Self::note).
    #[inline]
    pub fn is_slow(&self, took: Duration) -> bool {
        // Most commands take less than the 18 seconds for which this is exact.
        took.as_nanos() as u64 >= self.from.load(Relaxed)
    }
    /// Whether any command may be noted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.from.load(Relaxed) != OFF
    }
    /// Whether the threshold is so low that commands must be timed one by one.
    #[inline]
    pub fn times_each(&self) -> bool {
        self.times_each.is_on()
    }

    /// Notes a command that took long. `event` is the name of its event.
    #[cold]
    pub fn note(&self, entry: SlowEntry, event: &'static str) {
        if self.watches_from().is_some_and(|from| entry.took >= from) {
            self.events.lock().add(event, entry.at, entry.took);
        }
        if self.logs_from().is_some_and(|from| entry.took >= from) {
            self.log.lock().add(entry, self.max_len());
        }
    }

    /// The latest entries of the log, the latest first.
    pub fn latest(&self, count: usize) -> Vec<SlowEntry> {
        self.log.lock().latest(count)
    }
    /// How many entries the log has.
    pub fn len(&self) -> usize {
        self.log.lock().len()
    }
    /// Whether the log has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// SLOWLOG RESET.
    pub fn reset(&self) {
        self.log.lock().truncate(0);
    }
    pub fn events(&self) -> Vec<LatencySummary> {
        self.events.lock().latest()
    }
    /// The samples of one event: second since the Unix epoch and milliseconds, the oldest first.
    pub fn event_samples(&self, name: &[u8]) -> Vec<(u64, u64)> {
        self.events.lock().samples(name)
    }
    /// LATENCY RESET: forgets the events with these names. Returns how many there were.
    pub fn reset_events(&self, is_named: impl Fn(&str) -> bool) -> usize {
        self.events.lock().reset(is_named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threshold_has_its_list() {
        let slow = SlowCommands::default();
        assert!(!slow.is_on() && !slow.is_slow(Duration::from_secs(100)) && !slow.times_each());
        let entry = |millis| SlowEntry {
            id: 0,
            at: Duration::from_secs(1),
            took: Duration::from_millis(millis),
            args: std::sync::Arc::default(),
            client: ([127, 0, 0, 1], 1).into(),
            name: "".into(),
        };
        slow.log_from(Some(Duration::from_millis(10)));
        slow.set_max_len(2);
        assert!(slow.is_slow(Duration::from_millis(10)) && !slow.is_slow(Duration::from_micros(9_999)));
        slow.watch_from(Some(Duration::from_millis(5)));
        assert!(slow.is_slow(Duration::from_millis(5)) && !slow.times_each());
        slow.note(entry(7), "command");
        assert_eq!((slow.len(), slow.events().len()), (0, 1));
        (0..3).for_each(|_| slow.note(entry(20), "command"));
        assert_eq!((slow.len(), slow.event_samples(b"command")), (2, vec![(1, 20)]));
        slow.set_max_len(1);
        assert_eq!((slow.len(), slow.latest(9)[0].id), (1, 2));
        slow.log_from(Some(Duration::ZERO));
        assert!(slow.is_slow(Duration::ZERO) && slow.times_each());
        slow.log_from(None);
        assert!(!slow.is_slow(Duration::from_millis(4)) && slow.is_on());
        slow.reset();
        assert!(slow.is_empty());
    }
}
