//! What replies are right: the state of the source as the workers must know it, and what a
//! connection knows of its own keys.
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Keys that are only read.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyFamily {
    name: &'static str,
    pub(super) keys: u64,
}

/// Read all the time: in memory always.
pub(super) const HOT: KeyFamily = KeyFamily { name: "hot", keys: 200 };
/// Read now and then: too many for the memory.
pub(super) const COLD: KeyFamily = KeyFamily { name: "cold", keys: 100_000 };
/// Each read once, to see the source through larder.
pub(super) const PROBE: KeyFamily = KeyFamily { name: "probe", keys: 10_000 };

impl KeyFamily {
    pub(super) fn key(self, number: u64) -> Vec<u8> {
        format!("{}:{number}", self.name).into_bytes()
    }
}

/// Where the source is in its comings and goings; shared by all threads.
pub(super) struct SoakSource {
    recovery: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    up: bool,
    /// When it last came back.
    since: Option<Instant>,
    /// How often it went.
    outages: u64,
    ended: bool,
    hot_reads: u64,
    hot_answered: u64,
}

/// The source as seen at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourceView {
    /// Larder may answer that the source is unavailable.
    pub(super) excused: bool,
    /// The source is down.
    pub(super) down: bool,
    /// How often it went: what it was given before may be lost.
    pub(super) outages: u64,
}

impl SoakSource {
    /// A source that is up and has always been.
    pub(super) fn new(recovery: Duration) -> SoakSource {
        SoakSource {
            recovery,
            state: Mutex::new(State { up: true, since: None, outages: 0, ended: false, hot_reads: 0, hot_answered: 0 }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is about to be killed.
    pub(super) fn goes(&self) {
        let mut state = self.state();
        (state.up, state.hot_reads, state.hot_answered) = (false, 0, 0);
    }

    /// It is dead: what it was given until now is lost. (Counted before, a write that it took
    /// between the count and its death would seem to be one that it must still have.)
    pub(super) fn has_gone(&self) {
        self.state().outages += 1;
    }

    /// It answers again.
    pub(super) fn is_back(&self) {
        let mut state = self.state();
        (state.up, state.since) = (true, Some(Instant::now()));
    }

    /// The workers shall end.
    pub(super) fn end(&self) {
        self.state().ended = true;
    }

    /// The source now, or nothing at the end.
    pub(super) fn view(&self) -> Option<SourceView> {
        let state = self.state();
        let recovering = state.since.is_some_and(|since| since.elapsed() < self.recovery);
        (!state.ended).then_some(SourceView {
            excused: !state.up || recovering,
            down: !state.up,
            outages: state.outages,
        })
    }

    /// A hot key was read, all of it while the source was down.
    pub(super) fn hot_read(&self, answered: bool) {
        let mut state = self.state();
        state.hot_reads += 1;
        state.hot_answered += u64::from(answered);
    }

    /// Reads of hot keys in the last outage, and how many were answered.
    pub(super) fn hot_reads(&self) -> (u64, u64) {
        let state = self.state();
        (state.hot_reads, state.hot_answered)
    }
}

/// What the workers counted.
#[derive(Debug, Default)]
pub(super) struct SoakTally {
    pub(super) requests: u64,
    pub(super) values: u64,
    pub(super) absent: u64,
    pub(super) writes: u64,
    /// Errors of the allowed form at an allowed time, by their first words.
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) slowest_ms: u64,
    pub(super) wrong: u64,
    pub(super) first_wrong: Vec<String>,
}

impl SoakTally {
    /// Failures that are shown.
    pub(super) const SHOWN: usize = 10;

    /// Notes a reply that must not be.
    pub(super) fn wrong(&mut self, what: String) {
        self.wrong += 1;
        if self.first_wrong.len() < SoakTally::SHOWN {
            self.first_wrong.push(what);
        }
    }

    /// Adds another worker's.
    pub(super) fn add(&mut self, other: SoakTally) {
        self.requests += other.requests;
        self.values += other.values;
        self.absent += other.absent;
        self.writes += other.writes;
        self.slowest_ms = self.slowest_ms.max(other.slowest_ms);
        self.wrong += other.wrong;
        self.first_wrong.extend(other.first_wrong);
        for (kind, count) in other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
    }
}

/// What the one connection that writes a key knows of it. Sets and deletes are numbered from 1.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnedKey {
    /// The last write that was acknowledged: nothing older may be read.
    acknowledged: u64,
    /// Whether it was a delete (or nothing was written yet).
    deleted: bool,
    /// How often the source had gone by then: if it has gone since, it has lost that write.
    outages: u64,
    /// The last write that was tried: nothing newer may be read.
    tried: u64,
    /// Whether a delete failed since: it may have been done.
    delete_failed: bool,
}

impl OwnedKey {
    /// A key that was never written.
    pub(super) fn new() -> OwnedKey {
        OwnedKey { deleted: true, ..OwnedKey::default() }
    }

    /// The number of the next write.
    pub(super) fn try_write(&mut self) -> u64 {
        self.tried += 1;
        self.tried
    }

    /// The write tried last was acknowledged; the source was in `view` before it.
    pub(super) fn acknowledge(&mut self, delete: bool, view: SourceView) {
        *self = OwnedKey {
            acknowledged: self.tried,
            deleted: delete,
            outages: view.outages,
            tried: self.tried,
            delete_failed: false,
        };
    }

    /// The write tried last failed.
    pub(super) fn refuse(&mut self, delete: bool) {
        self.delete_failed |= delete;
    }

    /// May a value with this sequence number be read?
    pub(super) fn may_be(&self, sequence: u64) -> bool {
        let oldest = self.acknowledged + u64::from(self.deleted);
        (oldest..=self.tried).contains(&sequence)
    }

    /// May the key be absent, if the source is in `view` after the read?
    pub(super) fn may_be_absent(&self, view: SourceView) -> bool {
        self.deleted || self.delete_failed || view.outages != self.outages
    }
}
