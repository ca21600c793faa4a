//! What is known of the verification of restored copies, and how its batches get from the `restore`
//! thread to a worker.
use super::saved_state::VerificationStatus;
use bytes::Bytes;
use larder_engine::PolicyState;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc;

/// Batches that wait for the worker.
pub(super) const AHEAD: usize = 4;

/// Where the batches go.
pub(super) type BatchSender = mpsc::Sender<Batch>;

#[derive(Debug, Default)]
pub(super) struct Verification {
    /// Where the worker gets its batches; it takes this once.
    batches: Mutex<Option<mpsc::Receiver<Batch>>>,
    is_wanted: AtomicBool,
    pub(super) entries: AtomicU64,
    same: AtomicU64,
    changed: AtomicU64,
    gone: AtomicU64,
    pub(super) overtaken: AtomicU64,
    pub(super) is_done: AtomicBool,
    /// A save before its end has kept the file under another name.
    is_kept: AtomicBool,
}

/// Keys of one group.
#[derive(Debug)]
pub(super) struct Batch {
    /// The group's place among all.
    pub(super) group: usize,
    pub(super) keys: Vec<RestoredKey>,
}

/// What the file says of a key.
#[derive(Debug)]
pub(super) struct RestoredKey {
    pub(super) key: Bytes,
    pub(super) digest: u64,
    pub(super) policy: PolicyState,
}

/// What a look at the source found.
pub(super) enum Seen {
    Same,
    Changed,
    Gone,
    /// Nothing: the source did not answer.
    Unknown,
}

impl Verification {
    pub(super) fn status(&self) -> Option<VerificationStatus> {
        self.is_wanted.load(Relaxed).then(|| VerificationStatus {
            entries: self.entries.load(Relaxed),
            same: self.same.load(Relaxed),
            changed: self.changed.load(Relaxed),
            gone: self.gone.load(Relaxed),
            overtaken: self.overtaken.load(Relaxed),
            is_done: self.is_done.load(Relaxed),
        })
    }

    /// There is something to verify. Gives where the batches go; before the workers start.
    pub(super) fn begin(&self) -> BatchSender {
        let (sender, receiver) = mpsc::channel(AHEAD);
        *self.batches.lock() = Some(receiver);
        self.is_wanted.store(true, Relaxed);
        sender
    }

    /// Whether a save now would lack keys of the file that nothing else has.
    pub(super) fn is_unfinished(&self) -> bool {
        self.is_wanted.load(Relaxed) && !self.is_done.load(Relaxed) && !self.is_kept.load(Relaxed)
    }

    /// The file is kept.
    pub(super) fn kept(&self) {
        self.is_kept.store(true, Relaxed);
    }

    /// Gives the batches, once.
    pub(super) fn take(&self) -> Option<mpsc::Receiver<Batch>> {
        self.batches.lock().take()
    }

    pub(super) fn count(&self, seen: &Seen) {
        let counter = match seen {
            Seen::Same => &self.same,
            Seen::Changed => &self.changed,
            Seen::Gone => &self.gone,
            Seen::Unknown => return,
        };
        counter.fetch_add(1, Relaxed);
    }
}
