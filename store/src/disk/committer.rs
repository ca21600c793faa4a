//! The thread that writes: takes all that waits, writes it as one batch with one sync, and answers
//! every caller.
use super::{
    change::{StoreChange, WriteError},
    commit_replies::answer,
    format::EntryEncoder,
    pressure::Brake,
    settings::Durability,
    shared::Shared,
    stats::Counts,
    write_queue::Op,
};
use std::collections::HashMap;

pub(super) fn run(shared: &Shared) {
    let died = Died(shared);
    let sync = shared.settings.durability == Durability::Always;
    let mut brake = Brake::default();
    let mut encoder = EntryEncoder::default();
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

/// The committer has panicked: no caller would get an answer.
struct Died<'a>(&'a Shared);
impl Drop for Died<'_> {
    fn drop(&mut self) {
        self.0.poison.set(self.0.dir.path(), "the thread that writes has ended");
        self.0.writes.drop_all();
    }
}

fn commit(shared: &Shared, ops: &mut Vec<Op>, encoder: &mut EntryEncoder, sync: bool) {
    if let Some(reason) = shared.poison.reason() {
        return answer(ops.drain(..).map(|op| (op.reply, Err(WriteError::Refused(reason.clone())))));
    }
    let is_clear = matches!(ops.as_slice(), [Op { change: StoreChange::Clear, .. }]);
    // The latest change of a key counts: all of a batch have one sequence number in fjall.
    let mut writes = HashMap::with_capacity(ops.len());
    for (key, to) in ops.iter().flat_map(|op| op.change.entries()) {
        let entry = to.as_ref().map(|stored| encoder.entry(stored));
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
