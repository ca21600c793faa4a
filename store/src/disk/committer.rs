//! The thread that writes: takes all that waits, writes it as one batch with one sync, and answers everybody.
use super::{
    Durability, MAX_KEY, Replies, Shared,
    format::Encoder,
    pressure::Brake,
    replies::{Reply, Sender, answer},
    stats::Counts,
};
use bytes::Bytes;
use larder_engine::Millis;
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// What to write.
#[derive(Debug)]
pub enum Change {
    /// Stores, or with `None` deletes, all of these or none.
    Apply(Vec<Entry>),
    /// Deletes everything.
    Clear,
}
/// A change, and who waits for its answer.
pub type Written = (Change, Sender);
/// A key, with its value and expiry or (to delete it) nothing.
pub type Entry = (Bytes, Option<(Bytes, Option<Millis>)>);

impl Change {
    fn entries(&self) -> &[Entry] {
        match self {
            Change::Apply(entries) => entries,
            Change::Clear => &[],
        }
    }
    /// About what it needs in memory and on disk.
    fn bytes(&self) -> usize {
        const EACH: usize = 64;
        let value = |to: &Option<(Bytes, Option<Millis>)>| to.as_ref().map_or(0, |(value, _)| value.len());
        self.entries().iter().map(|(key, to)| key.len() + value(to) + EACH).sum()
    }
}

/// Why a write was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteError {
    /// Nothing was changed, and trying again may help.
    Refused(Arc<str>),
    /// Nothing was changed, and the same would be refused again.
    Invalid(Arc<str>),
    /// It may be on disk, or be there after a restart.
    Lost(Arc<str>),
}

/// What waits for the committer.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}
#[derive(Default)]
struct State {
    ops: VecDeque<Op>,
    bytes: usize,
    stopped: bool,
}
struct Op {
    change: Change,
    bytes: usize,
    reply: Reply,
}
impl State {
    fn refusal(&self, change: &Change, bytes: usize, max_bytes: usize) -> Option<WriteError> {
        if let Some((key, _)) = change.entries().iter().find(|(key, _)| key.len() > MAX_KEY) {
            let text = format!("ERR a key of {} bytes is longer than a disk store takes ({MAX_KEY})", key.len());
            return Some(WriteError::Invalid(text.into()));
        }
        if self.bytes > 0 && self.bytes + bytes > max_bytes {
            let text = format!("more than {max_bytes} bytes of writes wait for the disk (store-max-waiting)");
            return Some(WriteError::Refused(text.into()));
        }
        self.stopped.then(|| WriteError::Refused("the disk store has been closed".into()))
    }
}

/// A batch ends with the write that brings it to this size: larger ones would make those behind wait for little gain.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_OPS: usize = 4096;

impl Queue {
    /// Takes changes over, or answers those that it cannot take.
    pub(super) fn push(&self, changes: impl IntoIterator<Item = Written>, to: &Arc<Replies>, max_bytes: usize) {
        let mut state = self.state.lock();
        for (change, sender) in changes {
            let bytes = change.bytes();
            match state.refusal(&change, bytes, max_bytes) {
                None => {
                    state.bytes += bytes;
                    state.ops.push_back(Op { change, bytes, reply: Reply { sender, to: to.clone() } });
                }
                // Nobody may be waiting any more.
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
    /// Waits for the next batch; false: stopped. A clear is a batch by itself.
    fn take(&self, batch: &mut Vec<Op>) -> bool {
        let mut state = self.state.lock();
        while state.ops.is_empty() {
            if state.stopped {
                return false;
            }
            self.changed.wait(&mut state);
        }
        let mut bytes = 0;
        while bytes < BATCH_BYTES && batch.len() < BATCH_OPS {
            let is_clear = matches!(state.ops.front(), Some(Op { change: Change::Clear, .. }));
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
        true
    }
    /// A batch has been answered: there is room for others.
    fn release(&self, bytes: usize) {
        self.state.lock().bytes -= bytes;
    }
}

pub(super) fn run(shared: &Shared) {
    let died = Died(shared);
    let sync = shared.settings.durability == Durability::Always;
    let mut brake = Brake::default();
    let mut encoder = Encoder::default();
    let mut ops = Vec::new();
    while shared.writes.take(&mut ops) {
        let bytes = ops.iter().map(|op| op.bytes).sum();
        let held = brake.slow(shared, bytes);
        if !held.is_zero() {
            Counts::add(&shared.counts.stalls, 1);
            Counts::add(&shared.counts.stalled_micros, held.as_micros() as u64);
        }
        Counts::add(&shared.counts.batches, 1);
        Counts::add(&shared.counts.writes, ops.len() as u64);
        Counts::add(&shared.counts.bytes, bytes as u64);
        if sync {
            Counts::add(&shared.counts.syncs, 1);
        }
        commit(shared, &mut ops, &mut encoder, sync);
        shared.writes.release(bytes);
    }
    std::mem::forget(died);
}

/// The committer has panicked: nobody would answer any more.
struct Died<'a>(&'a Shared);
impl Drop for Died<'_> {
    fn drop(&mut self) {
        self.0.poison.set(self.0.dir.path(), "the thread that writes has ended");
        // Dropping the replies tells those who wait.
        self.0.writes.state.lock().ops.clear();
    }
}

fn commit(shared: &Shared, ops: &mut Vec<Op>, encoder: &mut Encoder, sync: bool) {
    if let Some(reason) = shared.poison.reason() {
        return answer(ops.drain(..).map(|op| (op.reply, Err(WriteError::Refused(reason.clone())))));
    }
    let is_clear = matches!(ops.as_slice(), [Op { change: Change::Clear, .. }]);
    // The latest change of a key counts: all of a batch have one sequence number in fjall.
    let mut writes = HashMap::with_capacity(ops.len());
    for (key, to) in ops.iter().flat_map(|op| op.change.entries()) {
        let entry = to.as_ref().map(|(value, expiry)| encoder.entry(value, *expiry));
        writes.insert(encoder.key(key), entry);
    }
    let written = match (is_clear, writes.is_empty()) {
        (true, _) => shared.tree.clear(),
        (false, true) => Ok(()),
        (false, false) => shared.tree.commit(writes, sync),
    };
    let written = written.map_err(|error| WriteError::Lost(shared.poison.set(shared.dir.path(), &error)));
    answer(ops.drain(..).map(|op| (op.reply, written.clone())));
}
