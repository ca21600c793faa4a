//! Writes on their way to a source, so that never an older value takes a newer one's place in the tier.
use super::{lock_stripes::LockStripes, watch_registry::WatchRegistry};
use crate::{config::Coherence, source::Policy};
use larder_engine::{Cache, Change, Condition, Expiry, Key, Millis, Stored, Write};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;

/// The writes of a group that are on their way to its source, by key hash; shared by all cores.
///
/// Two keys of one hash only make a write forget its key where it could have stored it.
#[derive(Debug, Default)]
pub struct PendingWrites {
    slots: [Mutex<HashMap<u64, InFlightWrites>>; SLOTS],
    /// For sources that keep their entries on this machine.
    pub(super) locks: LockStripes,
    pub(super) watched: WatchRegistry,
}
/// Enough that two cores seldom meet; a write costs a round trip anyway.
const SLOTS: usize = 16;

/// Writes of one key hash.
#[derive(Debug, Default)]
struct InFlightWrites {
    count: u32,
    /// Two were under way at once; stays set until none is.
    overlapped: bool,
}

impl PendingWrites {
    fn slot(&self, hash: u64) -> MutexGuard<'_, HashMap<u64, InFlightWrites>> {
        // The engine takes shard and slot from other bits; which ones we take matters little, the locks are held briefly.
        self.slots[(hash >> 32) as usize % SLOTS].lock()
    }
    pub(super) fn begin(&self, hash: u64) {
        let mut slot = self.slot(hash);
        let key = slot.entry(hash).or_default();
        key.count += 1;
        key.overlapped |= key.count > 1;
    }
    /// Something happened at the source that may have come before or after the writes that are under way.
    pub(super) fn overlap_all(&self) {
        for slot in &self.slots {
            let mut keys = slot.lock();
            keys.values_mut().for_each(|key| key.overlapped = true);
        }
    }
    /// Ends a write: `settle(overlapped)` runs with the slot locked, so that no other write of the key can begin, be
    /// answered and settle between the decision and the change. Lock order: slot, then the engine's shard.
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

/// A write on its way to the source. Made before it is sent, ended by what the source said; dropped without that, the
/// write may have been applied and the key is forgotten.
#[derive(Debug)]
pub struct PendingWrite<'g> {
    writes: &'g PendingWrites,
    cache: &'g Cache,
    policy: Policy,
    key: Key<'g>,
    ended: bool,
}
impl<'g> PendingWrite<'g> {
    /// A write of `key` that has been registered, or need not be.
    pub(super) fn of(writes: &'g PendingWrites, cache: &'g Cache, policy: Policy, key: Key<'g>) -> PendingWrite<'g> {
        PendingWrite { writes, cache, policy, key, ended: false }
    }
    /// Only lifetimes bound the age of copies: then what was written is one.
    pub(super) fn stores(&self) -> bool {
        self.policy.coherence == Coherence::Ttl
    }
    /// The source took the value, which expires at `expiry`: the tier keeps a copy for at most the group's lifetime.
    /// The copy's version, or 0 if it keeps none (too large for the bound, writes overlapped, or not in mode `ttl`:
    /// the source announces changes of what was read from it after the write, not of what was written).
    pub fn put(self, value: &[u8], expiry: Option<Millis>, now: Millis) -> u64 {
        if !self.stores() {
            self.forget();
            return 0;
        }
        self.settle(|this| {
            let write = Write { value, expiry: this.policy.cap(expiry, now), flags: 0, condition: Condition::Always };
            match this.cache.tier().set(this.key, write, now) {
                Ok(Stored::Created(version) | Stored::Replaced(version)) => Some(version),
                Ok(Stored::Unmet) | Err(_) => None,
            }
        })
        .unwrap_or(0)
    }

    /// The source took a new expiry for a key that exists: the copy's life is shortened to it, never lengthened, for
    /// what counts for the copy is when it was fetched.
    pub fn expire(self, expiry: Option<Millis>, now: Millis) {
        if !self.stores() {
            return self.forget();
        }
        self.settle(|this| {
            this.cache
                .tier()
                .update(this.key, now, |entry, _| match (entry, expiry) {
                    // A fetch in flight may carry the old expiry: `None` below fences it.
                    (None, _) => (Change::Keep, None),
                    (Some(_), None) => (Change::Keep, Some(())),
                    (Some(entry), Some(at)) if entry.expiry().is_some_and(|old| old <= at) => (Change::Keep, Some(())),
                    (Some(_), Some(at)) => (Change::Expire(Expiry::At(at)), Some(())),
                })
                .ok()
                .flatten()
        });
    }

    /// The source took a deletion, or any write of which the tier does not know the result: the key is forgotten.
    pub fn forget(self) {
        // As every write that ends without its own word: see `drop`.
    }

    /// Leaves the write registered; whoever learns what became of it goes on with [`Group::resume`](super::Group::resume).
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

    /// Ends the write with `change`; if that changes nothing, or writes of the key overlapped, the key is forgotten.
    fn settle<R>(mut self, change: impl FnOnce(&Self) -> Option<R>) -> Option<R> {
        self.ended = true;
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
        match self.ended {
            true => {}
            false if self.stores() => self.writes.end(self.key.hash(), |_| self.cache.invalidate(self.key)),
            false => self.cache.invalidate(self.key),
        }
    }
}
