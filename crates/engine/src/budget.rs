//! The bound, shared by the shards of a cache: bytes and keys in use against what is allowed.
//!
//! A bound that is lowered is reached in steps ([`crate::shrink`]). Until then the cache may hold as
//! much as it did, and never more again: what it may hold follows its use down to the new bound.

use crate::sync::{Mutex, lock};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of an entry that counts as small.
const SMALL: usize = 128;

/// The counters publish no other data, so relaxed order is enough everywhere.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The bound on bytes, as it was set last.
    wanted: AtomicUsize,
    /// Room that is made for large writes to come ([`Reservation`](crate::Reservation)): for now the
    /// bound is lower by this.
    reserved: AtomicUsize,
    /// The bytes that may be held now: more than the bound while the cache shrinks, and never less.
    holding: AtomicUsize,
    /// Held while these two change. The innermost lock: it is taken under that of a shard.
    bound_changes: Mutex<()>,
    max_keys: Option<usize>,
    bytes: AtomicUsize,
    #[cfg(test)]
    most_bytes: AtomicUsize,
    /// Kept only where `max_keys` is set: a line that all cores write is not free.
    keys: AtomicUsize,
}

/// What one shard has on the account.
#[derive(Debug, Default)]
pub(crate) struct Charged {
    bytes: usize,
    keys: usize,
}

impl Budget {
    pub(crate) fn new(max_bytes: usize, max_keys: Option<usize>) -> Budget {
        Budget {
            wanted: max_bytes.into(),
            reserved: 0.into(),
            holding: max_bytes.into(),
            bound_changes: Mutex::new(()),
            max_keys,
            bytes: 0.into(),
            #[cfg(test)]
            most_bytes: 0.into(),
            keys: 0.into(),
        }
    }

    /// The bound on bytes, which a cache that shrinks has not reached yet.
    pub(crate) fn max_bytes(&self) -> usize {
        self.wanted.load(Relaxed)
    }

    /// The bytes to which a cache shrinks: its bound, but for what is reserved.
    fn goal(&self) -> usize {
        self.max_bytes().saturating_sub(self.reserved.load(Relaxed))
    }

    /// The bytes that may be held now.
    pub(crate) fn holding(&self) -> usize {
        self.holding.load(Relaxed)
    }

    /// A higher bound holds at once. To a lower one the cache shrinks.
    pub(crate) fn set_max_bytes(&self, bytes: usize) {
        let _changes = lock(&self.bound_changes);
        self.wanted.store(bytes, Relaxed);
        self.follow();
    }

    /// Reserves so many bytes more.
    pub(crate) fn reserve(&self, bytes: usize) {
        let _changes = lock(&self.bound_changes);
        self.reserved.fetch_add(bytes, Relaxed);
        self.follow();
    }

    /// Takes a reservation back: all of the bound may be used again.
    pub(crate) fn release(&self, bytes: usize) {
        let _changes = lock(&self.bound_changes);
        self.reserved.fetch_sub(bytes, Relaxed);
        self.follow();
    }

    /// What may be held is what is held, but not less than the goal. Under `bound_changes`.
    fn follow(&self) {
        let held = self.holding().min(self.bytes());
        self.holding.store(held.max(self.goal()), Relaxed);
    }

    /// Bytes by which what may be held is above the bound; 0 unless the cache shrinks.
    pub(crate) fn to_shrink(&self) -> usize {
        // A change may come between the two.
        self.holding().saturating_sub(self.goal())
    }

    /// Lowers what may be held to what is held, but not below the bound.
    #[cold]
    pub(crate) fn follow_down(&self) {
        let _changes = lock(&self.bound_changes);
        self.follow();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The most that was ever on the account.
    #[cfg(test)]
    pub(crate) fn most_bytes(&self) -> usize {
        self.most_bytes.load(Relaxed)
    }

    /// About how many entries one of so many shards can hold, all of them small.
    pub(crate) fn entries(&self, shards: usize) -> usize {
        (self.max_bytes() / SMALL).min(self.max_keys.unwrap_or(usize::MAX)) / shards
    }

    pub(crate) fn max_keys(&self) -> Option<usize> {
        self.max_keys
    }

    /// Brings a shard's account to what it now holds.
    pub(crate) fn settle(&self, charged: &mut Charged, bytes: usize, keys: usize) {
        if bytes != charged.bytes {
            // Wrapping addition of the difference is subtraction where it is negative.
            self.bytes.fetch_add(bytes.wrapping_sub(charged.bytes), Relaxed);
            #[cfg(test)]
            self.most_bytes.fetch_max(self.bytes(), Relaxed);
            let is_less = bytes < charged.bytes;
            charged.bytes = bytes;
            if is_less && self.to_shrink() > 0 {
                self.follow_down();
            }
        }
        if self.max_keys.is_some() && keys != charged.keys {
            self.keys.fetch_add(keys.wrapping_sub(charged.keys), Relaxed);
            charged.keys = keys;
        }
    }

    /// Is more held than may be?
    pub(crate) fn is_over(&self) -> bool {
        self.bytes() > self.holding() || self.max_keys.is_some_and(|max| self.keys.load(Relaxed) > max)
    }

    /// Is the cache still filling?
    pub(crate) fn has_room(&self) -> bool {
        let max = self.max_bytes();
        self.bytes() < max - max / 32 && self.max_keys.is_none_or(|max| self.keys.load(Relaxed) < max)
    }

    /// Are more bytes held than the bound allows, be it that the cache still shrinks to it?
    pub(crate) fn bytes_over(&self) -> bool {
        self.bytes() > self.goal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget of 100 bytes of which 80 are in use.
    fn budget() -> (Budget, Charged) {
        let (budget, mut charged) = (Budget::new(100, None), Charged::default());
        budget.settle(&mut charged, 80, 1);
        (budget, charged)
    }

    #[test]
    fn what_may_be_held_follows_the_use_down_and_never_rises() {
        let (budget, mut charged) = budget();
        budget.set_max_bytes(20);
        assert_eq!((budget.holding(), budget.to_shrink(), budget.is_over()), (80, 60, false));
        for (used, holding) in [(50, 50), (60, 50), (45, 45), (10, 20), (30, 20)] {
            budget.settle(&mut charged, used, 1);
            assert_eq!(budget.holding(), holding, "{used} used");
        }
        assert!(budget.is_over() && budget.to_shrink() == 0);
    }

    #[test]
    fn a_bound_above_the_use_holds_at_once() {
        let (budget, _) = budget();
        budget.set_max_bytes(90);
        assert_eq!((budget.holding(), budget.to_shrink()), (90, 0));
        budget.set_max_bytes(20);
        budget.set_max_bytes(60);
        assert_eq!((budget.holding(), budget.to_shrink()), (80, 20), "still above");
        budget.set_max_bytes(300);
        assert_eq!((budget.holding(), budget.to_shrink()), (300, 0), "a rise ends it");
    }
}
