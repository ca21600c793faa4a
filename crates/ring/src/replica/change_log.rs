//! Which keys of a group have changed, in an order that a reader can follow. Values are not kept.
//!
//! A key always goes to the same stripe, so its changes stay in order, and cores that write
//! different keys seldom meet. A clear goes to all stripes at once, under the locks of all shards:
//! it stands between the same changes in each of them.
use super::{
    change_ring::{ChangeRing, Forgotten, RingCursor},
    frames,
    wake::Wake,
};
use larder_engine::{Clear, Key, Listener};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Stripes of a log.
pub(super) const STRIPES: usize = 32;

/// One to a pair of cache lines, so that cores do not write each other's locks.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe(Mutex<ChangeRing>);

#[derive(Debug)]
pub(super) struct ChangeLog {
    stripes: [Stripe; STRIPES],
    wake: Arc<Wake>,
}

pub(super) type LogCursor = [RingCursor; STRIPES];

impl ChangeLog {
    /// Keeps at most `max` bytes; `wake` wakes those who wait for changes.
    pub(super) fn new(max: usize, wake: Arc<Wake>) -> ChangeLog {
        let stripe = |_| Stripe(Mutex::new(ChangeRing::new(max / STRIPES)));
        ChangeLog { stripes: std::array::from_fn(stripe), wake }
    }

    /// Locks all stripes, in the one order in which several may be locked.
    pub(super) fn lock(&self) -> LockedLog<'_> {
        LockedLog(std::array::from_fn(|stripe| self.stripes[stripe].0.lock()))
    }

    /// Forgets all changes and gives the memory back.
    pub(super) fn forget(&self) {
        self.lock().0.iter_mut().for_each(|ring| ring.forget());
    }

    /// Bytes of memory.
    pub(super) fn capacity(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.0.lock().capacity()).sum()
    }

    /// See [`ChangeRing::read_keys`].
    pub(super) fn read_keys(
        &self,
        stripe: usize,
        cursor: &mut RingCursor,
        until: u64,
        enough: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Forgotten> {
        self.stripes[stripe].0.lock().read_keys(cursor, until, enough, out)
    }

    /// See [`ChangeRing::read_clear`].
    pub(super) fn read_clear(
        &self,
        stripe: usize,
        cursor: &mut RingCursor,
        out: &mut Vec<u8>,
    ) -> Result<(), Forgotten> {
        self.stripes[stripe].0.lock().read_clear(cursor, out)
    }

    /// The places before these records; `None` if one of them is forgotten.
    pub(super) fn find(&self, records: &[u64; STRIPES]) -> Option<LogCursor> {
        let mut cursors = [RingCursor::default(); STRIPES];
        for (stripe, cursor) in cursors.iter_mut().enumerate() {
            *cursor = self.stripes[stripe].0.lock().find(records[stripe])?;
        }
        Some(cursors)
    }
}

/// A log of which no stripe changes.
pub(super) struct LockedLog<'l>([MutexGuard<'l, ChangeRing>; STRIPES]);

impl LockedLog<'_> {
    /// The place after all changes.
    pub(super) fn end(&self) -> LogCursor {
        std::array::from_fn(|stripe| self.0[stripe].end())
    }

    /// Like `end`, for a reader that begins there.
    pub(super) fn begin_at_end(&mut self) -> LogCursor {
        std::array::from_fn(|stripe| self.0[stripe].begin_at_end())
    }
}

/// Changes before a place.
pub(super) fn changes_before(cursor: &LogCursor) -> u64 {
    cursor.iter().map(|cursor| cursor.record).sum()
}

impl Listener for ChangeLog {
    fn changed(&self, key: Key<'_>, _by: u64) {
        // The bits that choose the shard: a stripe's lock is mostly taken under one shard's lock.
        let stripe = (key.hash() >> 32) as usize % STRIPES;
        self.stripes[stripe].0.lock().append_key(key.hash(), key.bytes());
        self.wake.note();
    }

    fn tagged(&self, key: Key<'_>) {
        self.changed(key, 0);
    }

    fn clearing(&self, what: Clear<'_>) {
        let mut clear = Vec::new();
        frames::write_clear(what, &mut clear);
        self.lock().0.iter_mut().for_each(|ring| ring.append_clear(&clear));
        self.wake.note();
    }

    fn settled(&self) {
        self.wake.wake();
    }
}
