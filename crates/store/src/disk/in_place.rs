//! Writes that a core makes itself, without the committer: waking the committer and being woken by
//! it costs more than a write, also when many writes share the wake-ups.
//!
//! A core does so only if no other write is ahead, and while nothing is under way that holds
//! writers up. The write then copies a few kilobytes into the page cache and the memtable, which
//! takes microseconds. What holds writers up for as long as the disk takes:
//!
//! - a sync of the journal: the file system may let no one write to a file that it is committing;
//! - the change to a new memtable: fjall looks after its journals meanwhile;
//! - writers that have to be slowed, because flushes or compactions fall behind;
//! - the end of a flush or compaction: fjall syncs its list of tables while it holds a lock that
//!   each write needs. It does not say when;
//! - other programs' work on the same disk, which is not known here.
//!
//! The gate ([`write_gate`](super::write_gate)) is shut for the first three. For the rest there are
//! bounds. After a write that took longer than 1 ms, the gate is shut for 50 times as long, or 10 s.
//! A core thus spends at most a fiftieth of its time on waiting for the disk, unless single writes
//! take longer than 0.2 s. After a write that took longer than 10 ms during a flush or compaction,
//! the gate is shut during these for ten minutes.
use super::{
    batch_writer::BatchWriter,
    change::{StoreChange, bytes_of},
    commit_replies::Answer,
    format::fits,
    settings::Durability,
    shared::Shared,
    stats::Counts,
};
use crate::StoredValue;

/// Bytes of one write. Beyond this the committer's own core is worth its wake-up.
const MOST_BYTES: usize = 16 << 10;

/// Writes a change. The answer is `None` if nothing is written, because this is for the committer.
pub(super) fn write(shared: &Shared, change: &StoreChange) -> Option<Answer> {
    match change {
        StoreChange::Clear => None,
        StoreChange::Apply(entries) => match &entries[..] {
            [(key, to)] => write_entry(shared, key, to.as_ref()),
            _ if entries.iter().any(|(key, _)| !fits(key)) => None,
            _ => as_writer(shared, change.bytes(), |writer| {
                writer.commit(shared.to_write(), [change].into_iter(), false)
            }),
        },
    }
}

/// Stores, or with `None` deletes, one entry; otherwise as [`write()`].
pub(super) fn write_entry(shared: &Shared, key: &[u8], to: Option<&StoredValue>) -> Option<Answer> {
    if !fits(key) {
        return None;
    }
    as_writer(shared, bytes_of(key, to), |writer| writer.commit_one(shared.to_write(), key, to))
}

/// Has this core write a change of so many bytes, if it may.
fn as_writer(shared: &Shared, bytes: usize, write: impl FnOnce(&mut BatchWriter) -> Answer) -> Option<Answer> {
    if bytes > MOST_BYTES || shared.settings.durability == Durability::Always {
        return None;
    }
    let mut writer = shared.writer.try_lock()?;
    // The committer takes from the queue only while it is the writer, so no write is ahead of this one.
    if !shared.writes.is_empty() {
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
    Counts::add(&shared.counts.in_place, 1);
    shared.counts.add_batch(1, bytes, false);
    Some(answer)
}

/// What a write that panics has left on disk is not known.
struct Panicked<'a>(&'a Shared);
impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        self.0.poison.set(self.0.dir.path(), "a write has panicked");
    }
}
