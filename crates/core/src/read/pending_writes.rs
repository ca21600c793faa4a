//! Writes in flight to a source. They are registered so that an older value never replaces a newer
//! one in the tier.
use super::watch_registry::WatchRegistry;
use larder_config::Coherence;
use larder_engine::{Attributes, Cache, Change, Condition, Expiry, Key, Millis, Stored, Write};
use larder_source::{FillPolicy, Mirror};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};
use tokio::sync::Semaphore;

/// Enough that writers of different keys seldom share one, even if each waits for the disk.
pub(super) const STRIPES: usize = 1024;

/// The locks of a group's keys ([`KeyGuard`](super::KeyGuard)), by key hash. Built at first use.
#[derive(Debug, Default)]
pub(super) struct LockStripes(OnceLock<Box<[Semaphore]>>);
impl LockStripes {
    pub(super) fn stripes(&self) -> &[Semaphore] {
        self.0.get_or_init(|| (0..STRIPES).map(|_| Semaphore::new(1)).collect())
    }
}

/// The writes of a group in flight to its source, by key hash; shared by all cores.
///
/// If two keys share a hash, a write may forget its key where it could have stored it. That is
/// harmless.
#[derive(Debug, Default)]
pub struct PendingWrites {
    slots: [Mutex<HashMap<u64, InFlightWrites>>; SLOTS],
    /// Used for sources on this machine.
    pub(super) locks: LockStripes,
    pub(super) watched: WatchRegistry,
    /// Hears of each write that the source may have accepted.
    mirror: Option<Arc<Mirror>>,
}
/// Enough that two cores seldom contend; a write costs a round trip anyway.
const SLOTS: usize = 16;

/// Writes of one key hash.
#[derive(Debug, Default)]
struct InFlightWrites {
    count: u32,
    /// Two were in flight at the same time; stays set until none is.
    overlapped: bool,
}

impl PendingWrites {
    /// Of a source with this mirror.
    pub fn of_mirrored(mirror: Option<Arc<Mirror>>) -> PendingWrites {
        PendingWrites { mirror, ..PendingWrites::default() }
    }
    /// The source may have a new entry of the key.
    pub(super) fn note_changed(&self, key: &[u8]) {
        if let Some(mirror) = &self.mirror {
            mirror.note(key);
        }
    }
    /// The source may have new entries of any key.
    pub(super) fn note_all_changed(&self) {
        if let Some(mirror) = &self.mirror {
            mirror.note_all();
        }
    }
    /// The source is another one, with the same entries. All keys are locked.
    pub(crate) fn source_changed(&self) {
        // The revisions that watches have are those of the other source.
        self.watched.all_changed();
    }
    fn slot(&self, hash: u64) -> MutexGuard<'_, HashMap<u64, InFlightWrites>> {
        // Any bits of the hash will do: the locks are held briefly.
        self.slots[(hash >> 32) as usize % SLOTS].lock()
    }
    pub(super) fn begin(&self, hash: u64) {
        let mut slot = self.slot(hash);
        let key = slot.entry(hash).or_default();
        key.count += 1;
        key.overlapped |= key.count > 1;
    }
    /// The source changed in an unknown order relative to the writes in flight.
    pub(super) fn overlap_all(&self) {
        for slot in &self.slots {
            let mut keys = slot.lock();
            keys.values_mut().for_each(|key| key.overlapped = true);
        }
    }
    /// Like `overlap_all`, for one key: another node has written it.
    pub(super) fn overlap(&self, hash: u64) {
        if let Some(key) = self.slot(hash).get_mut(&hash) {
            key.overlapped = true;
        }
    }
    /// Ends a write: `settle(overlapped)` runs with the slot locked, so that no other write of the
    /// key can begin, be answered and settle between the decision and the change. Lock order:
    /// slot, then the engine's shard.
    fn end<R>(&self, hash: u64, settle: impl FnOnce(bool) -> R) -> R {
        let mut slot = self.slot(hash);
        let key = slot.entry(hash).or_default();
        let answer = settle(key.overlapped);
        key.count = key.count.saturating_sub(1);
        if key.count == 0 {
            slot.remove(&hash);
        }
        answer
    }
}

/// A write in flight to the source. Create it before sending; end it with the source's answer. If
/// it is dropped instead, the write may have been applied, so the key is forgotten.
#[derive(Debug)]
pub struct PendingWrite<'g> {
    writes: &'g PendingWrites,
    cache: &'g Cache,
    policy: &'g FillPolicy,
    key: Key<'g>,
    ended: bool,
}
impl<'g> PendingWrite<'g> {
    /// A write of `key` that is registered or needs no registration.
    pub(super) fn of(
        writes: &'g PendingWrites,
        cache: &'g Cache,
        policy: &'g FillPolicy,
        key: Key<'g>,
    ) -> PendingWrite<'g> {
        PendingWrite { writes, cache, policy, key, ended: false }
    }
    /// Whether a written value is stored as a copy: only if nothing but lifetimes bounds the age of
    /// copies.
    pub(super) fn stores(&self) -> bool {
        self.policy.coherence == Coherence::Ttl
    }
    /// The source accepted the value, which expires at `expiry`. The tier keeps a copy for at most
    /// the group's lifetime. Returns the copy's version, or 0 without a copy (too large, writes
    /// overlapped, or not in mode `ttl`: the source announces changes of values that were read,
    /// not of values that were written).
    pub fn put(self, value: &[u8], expiry: Option<Millis>, now: Millis) -> u64 {
        if !self.stores() {
            self.forget();
            return 0;
        }
        self.settle(|this| {
            if this.policy.denies(this.key.bytes()) {
                return None;
            }
            let end = this.policy.cap(this.key.bytes(), expiry, now);
            let metadata = this.policy.metadata_of_write(end, expiry, now);
            let attributes = Attributes { tags: &[], metadata: &metadata };
            let write = Write { value, expiry: end, attributes, condition: Condition::Always };
            match this.cache.tier().set(this.key, write, now) {
                Ok(Stored::Created(version) | Stored::Replaced(version)) => Some(version),
                Ok(Stored::Unmet) | Err(_) => None,
            }
        })
        .unwrap_or(0)
    }

    /// The source accepted a new expiry of an existing key. The copy's life is shortened to it, but
    /// never lengthened, because it counts from the fetch.
    pub fn expire(self, expiry: Option<Millis>, now: Millis) {
        if !self.stores() {
            return self.forget();
        }
        let longest_stale = self.policy.longest_stale();
        self.settle(|this| {
            this.cache
                .tier()
                .update(this.key, now, |entry, _| match (entry, expiry) {
                    // A fetch in flight may carry the old expiry: `None` below fences it.
                    (None, _) => (Change::Keep, None),
                    (Some(_), None) => (Change::Keep, Some(())),
                    (Some(entry), Some(at)) => match entry.end() {
                        // The copy could be served stale after `at`. `None` forgets it.
                        Some(end) if end.is_soft && (end.at..end.at.saturating_add(longest_stale)).contains(&at) => {
                            (Change::Keep, None)
                        }
                        Some(end) if end.at <= at => (Change::Keep, Some(())),
                        Some(_) | None => (Change::Expire(Expiry::At(at)), Some(())),
                    },
                })
                .ok()
                .flatten()
        });
    }

    /// The source accepted a deletion, or a write with a result that the tier does not know. The
    /// key is forgotten.
    pub fn forget(self) {
        // Like every write that is dropped: see `drop`.
    }

    /// Leaves the write registered. The caller later continues it with
    /// [`Group::resume`](super::Group::resume).
    pub fn detach(mut self) {
        self.ended = true;
    }

    /// The source refused the write, or it was never sent: nothing changed.
    pub fn refused(mut self) {
        self.ended = true;
        if self.stores() {
            self.writes.end(self.key.hash(), |_| ());
        }
    }

    /// Ends the write with `change`; if that changes nothing, or writes of the key overlapped, the
    /// key is forgotten.
    fn settle<R>(mut self, change: impl FnOnce(&Self) -> Option<R>) -> Option<R> {
        self.ended = true;
        self.writes.note_changed(self.key.bytes());
        self.writes.end(self.key.hash(), |overlapped| {
            let changed = if overlapped { None } else { change(&self) };
            if changed.is_none() {
                self.cache.invalidate(self.key);
            }
            changed
        })
    }
}
impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.writes.note_changed(self.key.bytes());
        match self.stores() {
            true => self.writes.end(self.key.hash(), |_| self.cache.invalidate(self.key)),
            false => self.cache.invalidate(self.key),
        }
    }
}
