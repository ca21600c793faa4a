//! The operations, on one shard at a time or under locks already held.

use crate::{
    cache::Cache,
    change_listener::Clear,
    entry::{Change, Entry, Stored, TooLarge, Write},
    index::ScanAt,
    key::Key,
    shard::Shard,
    sync::{MutexGuard, lock, try_lock},
    time::Millis,
};
use smallvec::SmallVec;

/// So many shards are locked together without an allocation.
const FEW: usize = 8;
type Held<'t> = SmallVec<[(usize, MutexGuard<'t, Shard>); FEW]>;

impl Cache {
    /// Operations that lock one shard each.
    pub fn tier(&self) -> Tier<'_> {
        Tier::shared(self)
    }

    /// Operations under the locks of all the shards of `keys` at once: what is done through it is
    /// atomic. A thread must never hold two, nor use the cache by another way meanwhile.
    pub fn exclusive<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> Tier<'_> {
        let mut numbers: SmallVec<[usize; FEW]> = keys.into_iter().map(|key| self.shard_of(key.hash)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Tier::exclusive(self, numbers)
    }

    /// Like `exclusive`, with every shard locked.
    pub fn exclusive_all(&self) -> Tier<'_> {
        Tier::exclusive(self, 0..self.shards())
    }
}

/// Reads never return an expired entry or a remembered absence.
#[derive(Debug)]
pub struct Tier<'t> {
    cache: &'t Cache,
    /// Shards held, by ascending number; `None` where each operation locks its own.
    held: Option<Held<'t>>,
}

impl<'t> Tier<'t> {
    fn shared(cache: &'t Cache) -> Tier<'t> {
        Tier { cache, held: None }
    }

    /// `numbers` ascend: that is the lock order.
    fn exclusive(cache: &'t Cache, numbers: impl IntoIterator<Item = usize>) -> Tier<'t> {
        let held = numbers.into_iter().map(|number| (number, lock(cache.mutex(number)))).collect();
        Tier { cache, held: Some(held) }
    }

    /// Names who makes the changes from now on, for the listener. Only under locks that are held:
    /// what others do meanwhile is not theirs.
    pub fn act_as(&mut self, actor: u64) {
        for (_, shard) in self.held.iter_mut().flatten() {
            shard.actor = actor;
        }
    }

    /// Whether it holds the locks of its shards.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.held.is_some()
    }

    /// The cache that this works on.
    pub fn cache(&self) -> &'t Cache {
        self.cache
    }

    pub(crate) fn on<R>(&mut self, number: usize, run: impl FnOnce(&mut Shard) -> R) -> R {
        match &mut self.held {
            None => run(&mut lock(self.cache.mutex(number))),
            Some(held) => {
                let at = held
                    .binary_search_by_key(&number, |h| h.0)
                    .expect("an exclusive tier is used for the keys it was made for");
                run(&mut held[at].1)
            }
        }
    }

    fn on_key<R>(&mut self, key: Key<'_>, run: impl FnOnce(&mut Shard) -> R) -> R {
        self.on(self.cache.shard_of(key.hash), run)
    }

    /// Evicts from other shards where `number`, which was written to, could not make enough room by
    /// itself.
    pub(crate) fn balance(&mut self, number: usize, now: Millis) {
        let (rules, shards) = (&self.cache.rules, self.cache.shards());
        let mut fruitless = 0;
        let mut other = number;
        // Two rounds: the first may end before its own turn, which comes last, is reached.
        while rules.budget.is_over() && fruitless < 2 * shards {
            other = (other + 1) % shards;
            if other == number && fruitless + 1 < shards {
                continue;
            }
            let relieve = |shard: &mut Shard| shard.relieve(rules, now);
            let relieved = if self.held.as_ref().is_none_or(|held| held.iter().any(|h| h.0 == other)) {
                self.on(other, relieve)
            } else {
                // Waiting here could deadlock with another exclusive tier.
                try_lock(self.cache.mutex(other)).is_some_and(|mut shard| relieve(&mut shard))
            };
            fruitless = if relieved { 0 } else { fruitless + 1 };
        }
    }

    /// [`Cache::prefetch`] through the locks that are held.
    pub fn prefetch<'k>(&mut self, keys: impl Iterator<Item = Key<'k>> + Clone) {
        keys.clone().for_each(|key| self.on_key(key, |shard| shard.prefetch_bucket(key.hash)));
        keys.for_each(|key| self.on_key(key, |shard| shard.prefetch_record(key.hash)));
    }

    /// Reads an entry and counts the access: for eviction, and as a hit or a miss.
    pub fn get<R>(&mut self, key: Key<'_>, now: Millis, read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let rules = &self.cache.rules;
        self.on_key(key, |shard| shard.get(rules, key, now, read))
    }

    /// Reads an entry without counting anything.
    pub fn peek<R>(&mut self, key: Key<'_>, now: Millis, read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let rules = &self.cache.rules;
        self.on_key(key, |shard| shard.peek(rules, key, now, read))
    }

    /// Writes an entry.
    pub fn set(&mut self, key: Key<'_>, write: Write<'_>, now: Millis) -> Result<Stored, TooLarge> {
        if self.held.is_none() {
            self.cache.make_room(key, write.value.len(), now);
        }
        let rules = &self.cache.rules;
        let stored = self.on_key(key, |shard| shard.set(rules, key, write, now));
        self.balance_after(key, now);
        stored
    }

    /// Read-modify-write: the closure sees the entry (or none) and an empty scratch buffer and says
    /// what to do. It must not use the cache.
    pub fn update<'c, R>(
        &mut self,
        key: Key<'_>,
        now: Millis,
        change: impl FnOnce(Option<&Entry<'_>>, &mut Vec<u8>) -> (Change<'c>, R),
    ) -> Result<R, TooLarge> {
        let rules = &self.cache.rules;
        let result = self.on_key(key, |shard| shard.update(rules, key, now, change));
        self.balance_after(key, now);
        result
    }

    fn balance_after(&mut self, key: Key<'_>, now: Millis) {
        if self.cache.rules.budget.is_over() {
            self.balance(self.cache.shard_of(key.hash), now);
        }
    }

    /// Deletes; true if there was an entry. Fences a fetch in flight.
    pub fn delete(&mut self, key: Key<'_>, now: Millis) -> bool {
        let rules = &self.cache.rules;
        self.on_key(key, |shard| shard.delete(rules, key, now))
    }

    /// Number of entries, expired ones that are not yet reclaimed included. The first call after a
    /// clear of a tag or a prefix looks at every entry, so that it does not count what is gone.
    pub fn len(&mut self) -> usize {
        let rules = &self.cache.rules;
        let count = |shard: &mut Shard| {
            shard.finish_sweep(rules);
            shard.len()
        };
        (0..self.cache.shards()).map(|number| self.on(number, count)).sum()
    }

    /// No entries?
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }

    /// Removes everything and fences every flight, in time that does not depend on the number of
    /// entries (their memory is given back segment by segment, outside the locks).
    pub fn clear(&mut self) {
        let rules = &self.cache.rules;
        if let Some(what_if) = &rules.what_if {
            what_if.clear();
        }
        if self.held.is_some() {
            rules.changes.clearing(Clear::All);
            drop(self.clear_shards(false));
        } else if rules.changes.stepwise(|| drop(self.clear_shards(false))).is_none() {
            let mut all = self.cache.exclusive_all();
            rules.changes.clearing(Clear::All);
            let old = all.clear_shards(true);
            drop(all);
            drop(old);
        }
        // Only now: who reads while it goes on hears of it, too.
        rules.changes.cleared();
    }

    /// Empties all shards. If `keeps`, it gives what they held, to be dropped where no lock is
    /// held.
    fn clear_shards(&mut self, keeps: bool) -> Vec<Shard> {
        let rules = &self.cache.rules;
        let mut all = Vec::new();
        for number in 0..self.cache.shards() {
            let old = self.on(number, |shard| shard.clear(rules));
            if keeps {
                all.push(*old);
            }
        }
        all
    }

    /// Visits about `count` entries from `cursor` (0 to begin) and returns the next cursor (0:
    /// done). An entry that is there from the first call to the last is visited at least once,
    /// whatever is written meanwhile; one may be visited twice.
    pub fn scan(&mut self, cursor: u64, count: usize, now: Millis, mut visit: impl FnMut(Entry<'_>)) -> u64 {
        self.walk(cursor, count, |shard, at, left| {
            let count = *left;
            shard.scan(at, count, now, |entry| {
                *left = left.saturating_sub(1);
                visit(entry);
            })
        })
    }

    /// Goes from shard to shard, from `cursor` on; `step` visits some entries of one and takes them
    /// off what is left of `count`.
    pub(crate) fn walk(
        &mut self,
        cursor: u64,
        count: usize,
        mut step: impl FnMut(&Shard, ScanAt, &mut usize) -> Option<ScanAt>,
    ) -> u64 {
        let mut number = (cursor >> 48) as usize;
        let mut at = ScanAt { prefix: (cursor >> 16) as u32, tag: cursor as u16 };
        let mut left = count.max(1);
        while number < self.cache.shards() {
            let next = self.on(number, |shard| step(shard, at, &mut left));
            if let Some(next) = next {
                at = next;
                break;
            }
            number += 1;
            at = ScanAt { prefix: 0, tag: 0 };
            if left == 0 {
                break;
            }
        }
        if number >= self.cache.shards() {
            0
        } else {
            (number as u64) << 48 | u64::from(at.prefix) << 16 | u64::from(at.tag)
        }
    }

    /// An entry at random; `seed` chooses.
    pub fn random<R>(&mut self, seed: u64, now: Millis, read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let shards = self.cache.shards();
        let mut read = Some(read);
        (0..shards).find_map(|step| {
            let number = (seed as usize % shards + step) % shards;
            self.on(number, |shard| shard.random(seed, now, |entry| read.take().map(|read| read(entry)))).flatten()
        })
    }
}

impl Drop for Tier<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.held.is_some() {
            self.release();
        }
        self.cache.rules.changes.settled();
    }
}
impl Tier<'_> {
    // Apart from operations that lock one shard: there it would be in the way of what is hot.
    #[inline(never)]
    fn release(&mut self) {
        self.act_as(0);
        self.held = None;
    }
}
