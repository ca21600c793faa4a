//! A cache comes down to a bound that was lowered, in steps, each under one shard's lock.
//!
//! ```text
//!   bytes
//!     │──── old bound
//!     │▔▔▔╲        what may be held ([`Budget::holding`](crate::budget::Budget)): each fall of
//!     │    ▔▔╲     the use lowers it, nothing raises it but a higher bound
//!     │       ▔▔╲▁▁▁▁▁▁▁▁ new bound
//!     └──────────────────► steps
//! ```
//!
//! The same steps make room for a large write before it comes ([`Reservation`]): for that time the
//! bound is lower by the write's length.
//!
//! To evict all that is above the bound at once would hold up the caller, and everyone who waits for
//! a lock, for as long as that takes: half a second for a million entries.

use crate::{
    cache::Cache,
    key::Key,
    shard::Shard,
    shard_common::Rules,
    sync::{Arc, lock},
    time::Millis,
};
use std::sync::atomic::Ordering::Relaxed;

/// A step ends with the entry with which it has dropped or copied on so many: an entry that was read
/// goes round once more before it is dropped, and an eviction may copy on some ten of them.
const STEP_ENTRIES: u64 = 64;
/// A step ends with the entry that makes it free so much: to give large memory back takes time.
const STEP_BYTES: usize = 1 << 20;
/// Hints of the wheel that are looked at for each entry that is dropped. Else those of entries that
/// have left would take what the new bound allows: they wait for an expiry that may be far away.
const HINTS: usize = 8;

/// From this length on room is made before a value is stored, so that the cache never holds more
/// than its bound by as much.
pub(crate) const LARGE: usize = 1 << 20;

/// Room for a large write to come, until this is dropped: what the cache holds besides is within its
/// bound without it, once [`Cache::shrink`] has nothing left to do. Drop it right before the write.
#[derive(Debug)]
pub struct Reservation {
    cache: Arc<Cache>,
    bytes: usize,
}
impl Drop for Reservation {
    fn drop(&mut self) {
        self.cache.rules.budget.release(self.bytes);
    }
}

impl Cache {
    /// Reserves room for a write of so many bytes in all, which replaces the values of `keys`. `None`:
    /// little is needed, or the bytes can never be stored.
    pub fn reserve<'k>(
        self: &Arc<Cache>,
        keys: impl IntoIterator<Item = Key<'k>>,
        bytes: usize,
    ) -> Option<Reservation> {
        let bytes = self.needed(keys, bytes)?;
        self.rules.budget.reserve(bytes);
        Some(Reservation { cache: self.clone(), bytes })
    }

    /// Makes room for a value, of whatever length, that is about to be stored. Nothing may be locked.
    #[inline]
    pub(crate) fn make_room(&self, key: Key<'_>, value: usize, now: Millis) {
        if let Some(bytes) = self.needed([key], value) {
            self.rules.budget.reserve(bytes);
            while self.shrink(now).is_some() {}
            self.rules.budget.release(bytes);
        }
    }

    #[inline]
    fn needed<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>, bytes: usize) -> Option<usize> {
        if bytes < LARGE || bytes > self.max_memory().saturating_sub(self.rules.fixed) {
            return None;
        }
        let held = |key: Key<'k>| {
            let shard = lock(self.mutex(self.shard_of(key.hash)));
            shard.find(key).map_or(0, |(_, entry)| entry.value.as_bytes().len())
        };
        let held: usize = keys.into_iter().map(held).sum();
        Some(bytes.saturating_sub(held)).filter(|needed| *needed >= LARGE)
    }

    /// Changes the bound on bytes. A higher one holds at once. A lower one takes no time: the cache
    /// holds no more than it does now, and [`shrink`](Cache::shrink) brings it down.
    pub fn set_max_memory(&self, bytes: usize) {
        self.rules.budget.set_max_bytes(bytes);
    }

    /// Is more held than a bound that was lowered allows? Only until [`shrink`](Cache::shrink) is
    /// done.
    pub fn is_shrinking(&self) -> bool {
        self.rules.budget.to_shrink() > 0
    }

    /// A step towards a bound that was lowered: drops some entries of one shard, and gives their
    /// number (0: it has only moved some). `None`: the bound is reached, or nothing that is left
    /// can be dropped now.
    pub fn shrink(&self, now: Millis) -> Option<usize> {
        let Rules { budget, shrink_next, changes, .. } = &self.rules;
        // Once round: a shard may have nothing to give.
        for _ in 0..self.shards() {
            if budget.to_shrink() == 0 {
                return None;
            }
            let number = shrink_next.fetch_add(1, Relaxed) % self.shards();
            let dropped = lock(self.mutex(number)).shrink(&self.rules, now);
            changes.settled();
            // Also where a fall was not noticed, because it came with the change of the bound.
            budget.follow_down();
            if dropped.is_some() {
                return dropped;
            }
        }
        None
    }
}

impl Shard {
    /// Drops some entries; `None` if there was nothing to give.
    fn shrink(&mut self, rules: &Rules, now: Millis) -> Option<usize> {
        let (entries, moves, live) = (self.index.len(), self.log.moves(), self.log.live_bytes());
        let (mut has_given, mut looks) = (false, 0);
        while rules.budget.bytes_over() {
            let has_strays = self.has_stray_hints();
            if has_strays {
                self.sweep_hints(HINTS, false);
                looks += 1;
            }
            // It settles the account. Where all entries are gone, hints may still be there.
            if !self.relieve(rules, now) && !has_strays {
                break;
            }
            has_given = true;
            let work = looks.max((entries - self.index.len()) as u64 + self.log.moves() - moves);
            if work >= STEP_ENTRIES || live - self.log.live_bytes() >= STEP_BYTES {
                break;
            }
        }
        has_given.then(|| entries - self.index.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cache, Config, Eviction, Expiry, Write, sync::Arc};

    const FULL: usize = 8 << 20;

    /// A cache of four shards, filled up to its bound.
    fn full(eviction: Eviction) -> Arc<Cache> {
        let max_memory = if cfg!(miri) { FULL / 16 } else { FULL };
        let cache = Cache::new(Config { max_memory, shards: Some(4), seed: Some(5), eviction, ..Config::default() });
        fill(&cache, 0, max_memory / 150);
        cache
    }

    fn fill(cache: &Cache, from: usize, entries: usize) {
        for n in from..from + entries {
            cache.tier().set(cache.key(&n.to_le_bytes()), Write::new(&[7; 150]), 0).expect("it fits");
        }
    }

    fn shrink(cache: &Cache) -> usize {
        std::iter::from_fn(|| cache.shrink(0)).sum()
    }

    #[test]
    fn a_lower_bound_is_reached_in_steps_of_bounded_size() {
        for eviction in [Eviction::S3Fifo, Eviction::Sieve, Eviction::Lru] {
            let cache = full(eviction);
            let before = cache.stats();
            cache.set_max_memory(before.max_bytes as usize / 4);
            let set = cache.stats();
            assert_eq!((set.entries, set.used_bytes), (before.entries, before.used_bytes), "not in one go");
            assert!(cache.is_shrinking());
            assert_eq!(set.shrink_bytes, set.used_bytes - set.max_bytes);
            let (mut entries, mut steps) = (before.entries, 0);
            while let Some(dropped) = cache.shrink(0) {
                assert!(dropped as u64 <= super::STEP_ENTRIES);
                let now = cache.stats();
                assert_eq!(entries - now.entries, dropped as u64, "one step");
                entries = now.entries;
                steps += 1;
            }
            let after = cache.stats();
            assert!(after.used_bytes <= after.max_bytes && after.shrink_bytes == 0 && !cache.is_shrinking());
            assert!(steps > 10 && after.used_bytes > after.max_bytes / 2, "{steps} steps, {after:?}");
            assert_eq!(after.evictions - before.evictions, before.entries - after.entries);
        }
    }

    #[test]
    fn a_cache_that_shrinks_grows_no_more() {
        let cache = full(Eviction::S3Fifo);
        let full = cache.max_memory();
        cache.set_max_memory(full / 4);
        let mut held = cache.stats().used_bytes;
        for round in 0..20 {
            fill(&cache, full + round * 100, 100);
            cache.shrink(0);
            let now = cache.stats();
            assert!(now.used_bytes <= held, "{} after {held}", now.used_bytes);
            held = now.shrink_bytes + now.max_bytes;
        }
        shrink(&cache);
        fill(&cache, 3 * full, 1000);
        assert!(cache.stats().used_bytes <= full as u64 / 4);
    }

    /// What waits for its expiry in the wheel is memory, too, and of entries that have left it must
    /// not take what the bound allows.
    #[test]
    fn what_is_left_of_entries_that_would_expire_does_not_fill_the_bound() {
        let cache = Cache::new(Config { max_memory: FULL, shards: Some(4), ..Config::default() });
        for n in 0..FULL / 40 {
            let write = Write { expiry: Expiry::At(3_600_000), ..Write::new(b"v") };
            cache.tier().set(cache.key(&n.to_le_bytes()), write, 0).expect("it fits");
        }
        cache.set_max_memory(FULL / 16);
        shrink(&cache);
        let after = cache.stats();
        assert!(!cache.is_shrinking() && after.entries > 1000, "{after:?}");
        assert!(after.wheel_bytes < after.max_bytes / 4, "{after:?}");
    }

    #[test]
    fn a_higher_bound_ends_it() {
        let cache = full(Eviction::S3Fifo);
        let full = cache.max_memory();
        cache.set_max_memory(full / 4);
        cache.shrink(0);
        cache.set_max_memory(2 * full);
        assert!(!cache.is_shrinking() && cache.shrink(0).is_none());
        let before = cache.stats().entries;
        fill(&cache, full, 1000);
        assert_eq!(cache.stats().entries, before + 1000, "there is room again");
    }

    #[test]
    fn deletes_that_reach_the_bound_end_it() {
        let cache = full(Eviction::S3Fifo);
        let full = cache.max_memory();
        cache.set_max_memory(full / 2);
        let mut left = 0..full / 150;
        while cache.stats().used_bytes > full as u64 / 2 {
            let n = left.next().expect("the last delete leaves nothing");
            cache.tier().delete(cache.key(&n.to_le_bytes()), 0);
        }
        assert!(!cache.is_shrinking(), "without a step");
        fill(&cache, full, full / 150);
        assert!(cache.stats().used_bytes <= full as u64 / 2, "the old bound holds no more");
        cache.set_max_memory(full / 4);
        cache.tier().clear();
        assert!(!cache.is_shrinking());
    }

    #[test]
    fn a_bound_that_cannot_be_reached_ends_in_nothing_to_give() {
        let cache = full(Eviction::S3Fifo);
        cache.set_max_memory(1000);
        shrink(&cache);
        let least = cache.stats();
        assert_eq!((least.entries, cache.is_shrinking(), cache.shrink(0)), (0, true, None));
        assert!(least.used_bytes <= *cache.memory_limits().start() as u64, "{least:?}");
        cache.set_max_memory(*cache.memory_limits().start() + 400);
        assert!(!cache.is_shrinking());
        fill(&cache, 0, 10);
        assert!(cache.stats().entries > 0);
    }

    /// Of a write that takes half of a full cache, the cache holds no byte more than its bound, and
    /// nothing is evicted in vain.
    #[test]
    #[cfg_attr(miri, ignore = "the writes are too small there")]
    fn room_is_made_before_a_large_write_takes_it() {
        const LARGE: usize = FULL / 2;
        let cache = full(Eviction::S3Fifo);
        let before = cache.stats();
        let reservation = cache.reserve([cache.key(b"large")], LARGE).expect("it can be stored");
        assert!(cache.is_shrinking() && cache.stats().entries == before.entries);
        let mut steps = 0;
        while let Some(dropped) = cache.shrink(0) {
            assert!(dropped as u64 <= super::STEP_ENTRIES);
            steps += 1;
        }
        let ready = cache.stats();
        assert!(steps > 10 && !cache.is_shrinking());
        assert_eq!(ready.max_bytes, before.max_bytes, "the bound is what it was set to");
        assert!(ready.used_bytes as usize <= cache.max_memory() - LARGE, "{ready:?}");
        assert!(ready.used_bytes as usize > cache.max_memory() - LARGE - (1 << 20), "{ready:?}");
        // A writer in the meantime evicts for its own entry.
        fill(&cache, FULL, 1000);
        assert!(cache.stats().used_bytes as usize <= cache.max_memory() - LARGE);
        drop(reservation);
        let evictions = cache.stats().evictions;
        cache.tier().set(cache.key(b"large"), Write::new(&vec![7; LARGE - 10_000]), 0).expect("it fits");
        let after = cache.stats();
        assert!(after.used_bytes <= after.max_bytes);
        assert!(after.evictions - evictions < 100, "{} evictions", after.evictions - evictions);
        // Of what can never be stored, or is small, nothing is reserved.
        let key = || [cache.key(b"other")];
        assert!(cache.reserve(key(), FULL).is_none() && cache.reserve(key(), 1000).is_none());
        // A value that replaces one of its length needs none.
        assert!(cache.reserve([cache.key(b"large")], LARGE).is_none());
    }

    /// Like the test above, for a write without a reservation: what is held at most is counted.
    #[test]
    #[cfg_attr(miri, ignore = "the writes are too small there")]
    fn a_large_write_is_never_above_the_bound() {
        let cache = full(Eviction::S3Fifo);
        let bound = cache.max_memory();
        let most = |cache: &Cache| cache.rules.budget.most_bytes();
        assert!(most(&cache) <= bound + bound / 16, "{}", most(&cache));
        for n in 0..8_u8 {
            cache.tier().set(cache.key(&[n]), Write::new(&vec![7; bound / 3]), 0).expect("it fits");
        }
        assert!(most(&cache) <= bound + bound / 16, "{} of {bound}", most(&cache));
    }

    #[test]
    fn a_step_ends_once_it_has_freed_much() {
        let cache = Cache::new(Config { max_memory: 64 << 20, shards: Some(1), ..Config::default() });
        let value = vec![1; 900 << 10];
        for n in 0..60_u8 {
            cache.tier().set(cache.key(&[n]), Write::new(&value), 0).expect("it fits");
        }
        cache.set_max_memory(4 << 20);
        assert_eq!(cache.shrink(0), Some(2));
        shrink(&cache);
        assert!(!cache.is_shrinking() && cache.stats().entries > 0);
    }
}
