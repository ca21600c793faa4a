//! The operations on each key, while a client records them (`POST /v1/record` on the admin
//! listener, `larder-bench record`).
//!
//! Off, it costs a request one read of a number that does not change. On, each worker notes the
//! operations of a sample of the keys in a bounded buffer of its own, which the next request takes.
//! Keys are noted as hashes under a secret of this process. When no client has
//! asked for [`PATIENCE`], recording ends.
use crate::special::Switch;
use parking_lot::Mutex;
use std::{
    hash::{BuildHasher, RandomState},
    mem,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Recording ends when no client has asked for this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Operations that a worker notes between two requests (6 MiB); more are counted and lost.
const MOST: usize = 1 << 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedOperation {
    /// The key was read.
    Get,
    /// The key was written, with so many bytes.
    Set(usize),
    /// The key was removed.
    Del,
}

/// See the module.
#[derive(Debug)]
pub struct Recorder {
    /// Keys whose hash is at most this are noted; 0: nothing is.
    threshold: AtomicU64,
    /// On while operations are noted.
    pub is_on: Switch,
    secret: RandomState,
    origin: Instant,
    /// When a client asked last, microseconds since the origin.
    asked: AtomicU64,
    workers: Vec<Mutex<Noted>>,
}

#[derive(Debug, Default)]
struct Noted {
    records: Vec<u8>,
    lost: u64,
}

/// Bytes of a record: time in microseconds (8), hash of the key (8), bytes written (4), kind (1: 0
/// get, 1 set, 2 del), zeros (3); little-endian.
const RECORD: usize = 24;

impl Recorder {
    /// For so many workers; off.
    pub fn new(workers: usize) -> Recorder {
        Recorder {
            threshold: AtomicU64::new(0),
            is_on: Switch::default(),
            secret: RandomState::new(),
            origin: Instant::now(),
            asked: AtomicU64::new(0),
            workers: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    /// Notes an operation while recording is on.
    #[inline]
    pub fn note(&self, worker: usize, operation: RecordedOperation, key: &[u8]) {
        if self.is_on() {
            self.record(worker, operation, key);
        }
    }

    /// Whether recording is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.is_on()
    }

    #[cold]
    fn record(&self, worker: usize, operation: RecordedOperation, key: &[u8]) {
        let hash = self.secret.hash_one(key);
        if hash > self.threshold.load(Relaxed) {
            return;
        }
        let now = self.micros();
        if now.saturating_sub(self.asked.load(Relaxed)) > PATIENCE.as_micros() as u64 {
            self.threshold.store(0, Relaxed);
            self.is_on.set(false);
            self.workers.iter().for_each(|worker| *worker.lock() = Noted::default());
            return;
        }
        let mut noted = self.workers[worker].lock();
        if noted.records.len() >= MOST * RECORD {
            noted.lost += 1;
            return;
        }
        let (kind, size) = match operation {
            RecordedOperation::Get => (0, 0),
            RecordedOperation::Set(size) => (1, u32::try_from(size).unwrap_or(u32::MAX)),
            RecordedOperation::Del => (2, 0),
        };
        noted.records.extend_from_slice(&now.to_le_bytes());
        noted.records.extend_from_slice(&hash.to_le_bytes());
        noted.records.extend_from_slice(&size.to_le_bytes());
        noted.records.extend_from_slice(&[kind, 0, 0, 0]);
    }

    fn micros(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }

    /// What was noted since the last time: the number of operations that were lost (8 bytes,
    /// little-endian), then records, worker by worker. From now on this share of the keys is
    /// noted: above 0, up to 1.
    pub fn take(&self, share: f64) -> Vec<u8> {
        self.asked.store(self.micros(), Relaxed);
        self.threshold.store(((share * u64::MAX as f64) as u64).max(1), Relaxed);
        self.is_on.set(true);
        let mut taken = vec![0; 8];
        let mut lost = 0;
        for worker in &self.workers {
            let noted = mem::take(&mut *worker.lock());
            lost += noted.lost;
            taken.extend_from_slice(&noted.records);
        }
        taken[..8].copy_from_slice(&lost.to_le_bytes());
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(taken: &[u8]) -> Vec<(u8, u32)> {
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four"));
        taken[8..].chunks_exact(RECORD).map(|record| (record[20], number(&record[16..20]))).collect()
    }

    #[test]
    fn nothing_is_noted_until_somebody_asks() {
        let recorder = Recorder::new(2);
        recorder.note(0, RecordedOperation::Get, b"a");
        assert!(!recorder.is_on());
        assert_eq!(recorder.take(1.0), [0; 8]);
        recorder.note(1, RecordedOperation::Set(7), b"a");
        recorder.note(0, RecordedOperation::Get, b"a");
        recorder.note(1, RecordedOperation::Del, b"b");
        let taken = recorder.take(1.0);
        assert_eq!(kinds(&taken), [(0, 0), (1, 7), (2, 0)]);
        let hash = |record: usize| &taken[8 + record * RECORD + 8..][..8];
        assert!(hash(0) == hash(1) && hash(1) != hash(2));
        assert_eq!(recorder.take(1.0).len(), 8);
    }

    #[test]
    fn a_sample_is_of_keys_not_of_operations() {
        let recorder = Recorder::new(1);
        recorder.take(0.1);
        for _ in 0..2 {
            (0..10_000u32).for_each(|key| recorder.note(0, RecordedOperation::Get, &key.to_le_bytes()));
        }
        let taken = recorder.take(0.1);
        let hashes: Vec<&[u8]> = taken[8..].chunks_exact(RECORD).map(|record| &record[8..16]).collect();
        assert!((1600..2400).contains(&hashes.len()), "{}", hashes.len());
        assert_eq!(hashes[..hashes.len() / 2], hashes[hashes.len() / 2..]);
    }

    #[test]
    fn a_buffer_has_its_bound() {
        let recorder = Recorder::new(1);
        recorder.take(1.0);
        (0..MOST + 5).for_each(|_| recorder.note(0, RecordedOperation::Get, b"a"));
        let taken = recorder.take(1.0);
        assert_eq!(taken.len(), 8 + MOST * RECORD);
        assert_eq!(taken[..8], 5u64.to_le_bytes());
    }

    #[test]
    fn recording_ends_when_nobody_asks() {
        let mut recorder = Recorder::new(1);
        recorder.take(1.0);
        recorder.note(0, RecordedOperation::Get, b"a");
        recorder.origin -= PATIENCE + Duration::from_secs(1);
        recorder.note(0, RecordedOperation::Get, b"a");
        assert!(!recorder.is_on());
        assert_eq!(recorder.take(1.0).len(), 8, "what was noted is given back");
    }
}
