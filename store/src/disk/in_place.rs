//! Writes that a core makes itself, without the committer: for one request at a time, waking the
//! committer and being woken by it costs more than the write.
//!
//! A core does so only if no other write is ahead, and while nothing is under way that holds
//! writers up. The write then copies a few kilobytes into the page cache and the memtable, which
//! takes microseconds. What holds writers up for as long as the disk takes:
//!
//! - a sync of the journal: the file system may let no one write to a file that it is committing;
//! - a full memtable, until it is flushed, and a compaction: fjall syncs the journal and its lists
//!   of tables while it holds locks that each write needs;
//! - other programs' work on the same disk, which is not known here.
//!
//! The gate ([`write_gate`](super::write_gate)) is shut for the first two. For the rest there is a
//! bound. After a write that took longer than 1 ms, the gate is shut for 50 times as long, or 10 s.
//! A core thus spends at most a fiftieth of its time on waiting for the disk, unless single writes
//! take longer than 0.2 s.
use super::{
    batch_writer::BatchWriter,
    change::{StoreChange, bytes_of},
    commit_replies::Answer,
    format::MAX_KEY,
    settings::Durability,
    shared::Shared,
    stats::Counts,
    write_queue::Written,
};
use crate::StoredValue;

/// Changes and bytes of one write. Beyond this the committer's own core is worth its wake-up.
const MOST: usize = 16;
const MOST_BYTES: usize = 16 << 10;

/// Writes all of the changes as one and answers them, or gives them back: then they are for the
/// committer.
///
/// # Errors
/// The changes, none of which is written.
pub(super) fn write(shared: &Shared, changes: Vec<Written>) -> Result<(), Vec<Written>> {
    let answer = small(&changes).and_then(|bytes| {
        let all = changes.iter().map(|(change, _)| change);
        as_writer(shared, changes.len(), bytes, |writer| writer.commit(shared.to_write(), all, false))
    });
    match answer {
        None => Err(changes),
        Some(answer) => {
            for (_, sender) in changes {
                // The receiver may be gone.
                let _ = sender.send(answer.clone());
            }
            Ok(())
        }
    }
}

/// Stores, or with `None` deletes, one entry. The answer is `None` if nothing is written, because
/// this is for the committer.
pub(super) fn write_one(shared: &Shared, key: &[u8], to: Option<&StoredValue>) -> Option<Answer> {
    let bytes = bytes_of(key, to);
    if key.len() > MAX_KEY || bytes > MOST_BYTES {
        return None;
    }
    as_writer(shared, 1, bytes, |writer| writer.commit_one(shared.to_write(), key, to))
}

/// Has this core write so many changes of so many bytes, if it may.
fn as_writer(
    shared: &Shared,
    changes: usize,
    bytes: usize,
    write: impl FnOnce(&mut BatchWriter) -> Answer,
) -> Option<Answer> {
    if shared.settings.durability == Durability::Always {
        return None;
    }
    let mut writer = shared.writer.try_lock()?;
    // The committer takes from the queue only while it is the writer, so no write is ahead of these.
    if !shared.writes.is_empty() || shared.tree.is_compacting() {
        return None;
    }
    let pass = shared.gate.pass()?;
    let panicked = Panicked(shared);
    let answer = write(&mut writer);
    std::mem::forget(panicked);
    if pass.end() {
        Counts::add(&shared.counts.in_place_pauses, 1);
    }
    drop(writer);
    Counts::add(&shared.counts.in_place, changes as u64);
    shared.counts.add_batch(changes, bytes, false);
    Some(answer)
}

/// The bytes of the changes, if they are few and small, and such as the queue takes.
fn small(changes: &[Written]) -> Option<usize> {
    let is_small = |change: &StoreChange| {
        matches!(change, StoreChange::Apply(_)) && change.entries().iter().all(|(key, _)| key.len() <= MAX_KEY)
    };
    if changes.len() > MOST || !changes.iter().all(|(change, _)| is_small(change)) {
        return None;
    }
    let bytes = changes.iter().map(|(change, _)| change.bytes()).sum();
    (bytes <= MOST_BYTES).then_some(bytes)
}

/// What a write that panics has left on disk is not known.
struct Panicked<'a>(&'a Shared);
impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        self.0.poison.set(self.0.dir.path(), "a write has panicked");
    }
}
