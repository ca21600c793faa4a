//! The mirror of a group's source: a second source that is made equal to the first while clients
//! write, so that it can take its place.
//!
//! ```text
//! a write ended ── name of its key ──► ChangedKeys ──┐
//!                                                     ├─► MirrorTask: read both, write what differs, read both again
//! walk over the source's keys, then the mirror's ────┘
//! ```
//!
//! Invariants:
//! - Only names wait. The value that is copied is the one that the source has when its turn comes, so
//!   no order of writes can be lost, and no value can be made up.
//! - A key leaves the task only when both sources agree on it, or when the mirror cannot keep it. A
//!   key that was changed meanwhile, also by another Larder, is copied again.
//! - A write is never delayed by its mirror, and never fails because of it. If names had to be
//!   forgotten, everything is walked again.
//! - The mirror is not read for clients.
//! - The two trade places only while no writer may begin, and once nothing waits ([`Mirror::drain`]).
//!   So the first write to the new source finds there what the last one to the old source left.
mod changed_keys;
pub(crate) mod mirror_task;
mod paired_redis;
pub(crate) mod source_pair;

use changed_keys::ChangedKeys;
use larder_base::telemetry::MirrorSnapshot;
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{
        AtomicBool, AtomicU8, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};
use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, oneshot, watch};

/// How far the mirror is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MirrorState {
    /// It has entries that the source has not: it may be another one's store.
    Refused,
    /// Keys are walked over.
    Filling,
    /// One of the two sources gave an error at the last attempt.
    Failing,
    /// Every key was compared. Only changes since then wait.
    InStep,
}
impl MirrorState {
    const ALL: [MirrorState; 4] =
        [MirrorState::Refused, MirrorState::Filling, MirrorState::Failing, MirrorState::InStep];
    fn name(self) -> &'static str {
        ["refused", "filling", "failing", "in-step"][self as usize]
    }
}

/// What a group's writes and the task of its mirror share.
#[derive(Debug)]
pub struct Mirror {
    changed: Mutex<ChangedKeys>,
    /// There are names where there were none, or the task ends.
    wake: Notify,
    /// The task copies the changes that wait, and ends.
    ending: watch::Sender<bool>,
    /// The mirror of the start is the source now.
    is_swapped: AtomicBool,
    /// Nothing is mirrored any more.
    is_dropped: AtomicBool,
    /// Commands at a Redis server are on the way, or clients have connections of their own there.
    gate: Arc<RwLock<()>>,
    /// Who waits until nothing is left to copy.
    drain: Mutex<Option<oneshot::Sender<DrainedMirror>>>,
    state: AtomicU8,
    /// Entries that were left out since all keys were compared last.
    left_out_now: AtomicU64,
    counts: MirrorCounts,
}

#[derive(Debug, Default)]
struct MirrorCounts {
    scanned: AtomicU64,
    copied: AtomicU64,
    different: AtomicU64,
    left_out: AtomicU64,
    errors: AtomicU64,
}

impl Default for Mirror {
    fn default() -> Mirror {
        Mirror {
            changed: Mutex::default(),
            wake: Notify::new(),
            ending: watch::Sender::new(false),
            is_swapped: AtomicBool::new(false),
            is_dropped: AtomicBool::new(false),
            gate: Arc::default(),
            drain: Mutex::default(),
            state: AtomicU8::new(MirrorState::Filling as u8),
            left_out_now: AtomicU64::new(0),
            counts: MirrorCounts::default(),
        }
    }
}

/// Nothing is left to copy. The task of the mirror waits until this is dropped.
#[derive(Debug)]
pub struct DrainedMirror(
    /// Its receiver is the task's.
    #[expect(dead_code, reason = "dropping it is the message")]
    oneshot::Sender<()>,
);

impl Mirror {
    /// A key of the source may have changed.
    pub fn note(&self, key: &[u8]) {
        if !self.is_dropped() && self.changed.lock().push(key) {
            self.wake.notify_one();
        }
    }

    /// Any key of the source may have changed.
    pub fn note_all(&self) {
        self.changed.lock().walk_again();
        self.wake.notify_one();
    }

    /// No more changes will come: the task ends when it has copied those that are noted.
    pub fn end(&self) {
        self.ending.send_replace(true);
        self.wake.notify_one();
    }

    /// Whether it has all entries of the source.
    pub fn is_in_step(&self) -> bool {
        self.state() == MirrorState::InStep && self.changed.lock().is_settled()
    }

    /// Why the two cannot trade places now; `None`: they can once writers have paused. If entries
    /// are left out, all keys are compared again: the entries may have been deleted or replaced.
    pub fn swap_problem(&self) -> Option<String> {
        let (state, left_out) = (self.state(), self.left_out_now.load(Relaxed));
        match state {
            MirrorState::InStep if left_out > 0 => {
                self.note_all();
                Some(format!(
                    "the mirror cannot keep {left_out} entries (larder_mirror_left_out_total): delete them, and \
                     reload again when it is in step"
                ))
            }
            MirrorState::InStep => None,
            _ => Some(format!("the mirror is not in step (larder_mirror_state: {})", state.name())),
        }
    }

    /// Has new commands at a Redis server wait until the answer is dropped. Resolves once those before
    /// have ended, and their changes are noted.
    pub async fn close(&self) -> OwnedRwLockWriteGuard<()> {
        self.gate.clone().write_owned().await
    }

    async fn enter(&self) -> OwnedRwLockReadGuard<()> {
        self.gate.clone().read_owned().await
    }

    fn try_enter(&self) -> Option<OwnedRwLockReadGuard<()>> {
        self.gate.clone().try_read_owned().ok()
    }

    /// Resolves once nothing is left to copy. No writer may begin meanwhile, and until the answer is
    /// dropped. `None`: the task of the mirror has ended.
    pub async fn drain(&self) -> Option<DrainedMirror> {
        let (reply, drained) = oneshot::channel();
        *self.drain.lock() = Some(reply);
        self.wake.notify_one();
        drained.await.ok()
    }

    /// From now on the mirror is the source, and the source is the mirror.
    pub fn swap(&self, _drained: &DrainedMirror) {
        self.is_swapped.fetch_xor(true, SeqCst);
    }

    /// Ends mirroring until the next start of the process.
    pub fn drop_mirror(&self) {
        self.is_dropped.store(true, SeqCst);
        self.end();
        self.changed.lock().take(usize::MAX);
    }

    /// Asked on each read.
    #[inline]
    fn is_swapped(&self) -> bool {
        self.is_swapped.load(SeqCst)
    }

    #[inline]
    fn is_dropped(&self) -> bool {
        self.is_dropped.load(SeqCst)
    }

    fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    fn state(&self) -> MirrorState {
        MirrorState::ALL[usize::from(self.state.load(SeqCst))]
    }

    fn set_state(&self, state: MirrorState) -> MirrorState {
        MirrorState::ALL[usize::from(self.state.swap(state as u8, SeqCst))]
    }

    pub fn snapshot(&self) -> MirrorSnapshot {
        let changed = self.changed.lock();
        let (queued, forgotten) = changed.numbers();
        let now = match self.state() {
            // The task waits for an answer, and does not know yet.
            MirrorState::InStep if !changed.has_few() => MirrorState::Filling,
            state => state,
        };
        drop(changed);
        let MirrorCounts { scanned, copied, different, left_out, errors } = &self.counts;
        MirrorSnapshot {
            states: MirrorState::ALL.map(|state| (state.name(), state == now)),
            queued,
            forgotten,
            scanned: scanned.load(Relaxed),
            copied: copied.load(Relaxed),
            different: different.load(Relaxed),
            left_out: left_out.load(Relaxed),
            errors: errors.load(Relaxed),
        }
    }
}
