//! The changes that wait for the committer, and how many of them make a batch.
use super::{
    change::{StoreChange, WriteError},
    commit_replies::{CommitReplies, CommitReply, Sender},
    format::{MAX_KEY, fits},
};
use parking_lot::{Condvar, Mutex};
use std::{collections::VecDeque, sync::Arc};

/// A change, and who waits for its answer.
pub type Written = (StoreChange, Sender);

/// What waits for the committer.
#[derive(Default)]
pub(super) struct WriteQueue {
    state: Mutex<State>,
    changed: Condvar,
}
#[derive(Default)]
struct State {
    ops: VecDeque<Op>,
    bytes: usize,
    stopped: bool,
}
/// A change on its way to the disk.
pub(super) struct Op {
    pub(super) change: StoreChange,
    pub(super) bytes: usize,
    pub(super) reply: CommitReply,
}
impl State {
    fn refusal(&self, change: &StoreChange, bytes: usize, max_bytes: usize) -> Option<WriteError> {
        if let Some((key, _)) = change.entries().iter().find(|(key, _)| !fits(key)) {
            let text = format!("ERR a key of {} bytes is longer than a disk store takes ({MAX_KEY})", key.len());
            return Some(WriteError::Invalid(text.into()));
        }
        if self.bytes > 0 && self.bytes + bytes > max_bytes {
            let text = format!("more than {max_bytes} bytes of writes wait for the disk");
            return Some(WriteError::Refused(text.into()));
        }
        self.stopped.then(|| WriteError::Refused("the disk store has been closed".into()))
    }
}

/// A batch ends with the write that brings it to this size: larger ones would make those behind
/// wait for little gain.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_OPS: usize = 4096;

impl WriteQueue {
    /// Takes changes over, or answers those that it cannot take.
    pub(super) fn push(&self, changes: impl IntoIterator<Item = Written>, to: &Arc<CommitReplies>, max_bytes: usize) {
        let mut state = self.state.lock();
        for (change, sender) in changes {
            let bytes = change.bytes();
            match state.refusal(&change, bytes, max_bytes) {
                None => {
                    state.bytes += bytes;
                    state.ops.push_back(Op { change, bytes, reply: CommitReply { sender, to: to.clone() } });
                }
                // The receiver may be gone.
                Some(refusal) => drop(sender.send(Err(refusal))),
            }
        }
        drop(state);
        self.changed.notify_one();
    }
    /// What waits is still written.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }
    /// Does nothing wait?
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().ops.is_empty()
    }
    /// Waits until there is something to take; false: stopped.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.ops.is_empty() {
            if state.stopped {
                return false;
            }
            self.changed.wait(&mut state);
        }
        true
    }
    /// Takes the next batch. A clear is a batch by itself.
    pub(super) fn take(&self, batch: &mut Vec<Op>) {
        let mut state = self.state.lock();
        let mut bytes = 0;
        while bytes < BATCH_BYTES && batch.len() < BATCH_OPS {
            let is_clear = matches!(state.ops.front(), Some(Op { change: StoreChange::Clear, .. }));
            if is_clear && !batch.is_empty() {
                break;
            }
            let Some(op) = state.ops.pop_front() else {
                break;
            };
            bytes += op.bytes;
            batch.push(op);
            if is_clear {
                break;
            }
        }
    }
    /// A batch has been answered: there is room for others.
    pub(super) fn release(&self, bytes: usize) {
        self.state.lock().bytes -= bytes;
    }
    /// Drops what waits, which tells those who wait for it.
    pub(super) fn drop_all(&self) {
        self.state.lock().ops.clear();
    }
}
