//! The reads that can miss into a flight, and the prefetches before them.

use crate::{
    cache::Cache,
    derived::{Derived, is_anchor},
    entry::Entry,
    flight::Wait,
    key::Key,
    lead::Lead,
    shard::Shard,
    sync::{Arc, MutexGuard, lock, try_lock},
    time::Millis,
};

/// What a counted read found.
#[derive(Debug)]
pub enum Lookup<R> {
    /// The entry, as read by the closure.
    Hit(R),
    /// The source is known not to have the key.
    Absent,
    /// Nobody is fetching the key: the caller must.
    Lead(Lead),
    /// Somebody is: wait for what they get.
    Wait(Wait),
}

impl Cache {
    /// A read that joins or leads a flight when it misses. Counts a hit or a miss.
    pub fn lookup<R>(self: &Arc<Self>, key: Key<'_>, now: Millis, read: impl FnOnce(Entry<'_>) -> R) -> Lookup<R> {
        let mut shard = lock(self.mutex(self.shard_of(key.hash)));
        match shard.read(&self.rules, key, now, read) {
            Some(Some(answer)) => Lookup::Hit(answer),
            Some(None) if !shard.hides(key) => Lookup::Absent,
            _ => self.join(shard, key, b""),
        }
    }

    /// A read of what was derived from `key` under `name` (not empty). One that misses joins or leads a flight for it, which every
    /// fence of `key` fences; see [`Lead::name`](crate::Lead::name). [`Lookup::Absent`]: it is not known to have been wanted before, nor
    /// is anything else derived from `key` held, so ask for it without keeping the answer.
    pub fn lookup_derived<R>(
        self: &Arc<Self>,
        key: Key<'_>,
        name: Key<'_>,
        now: Millis,
        read: impl FnOnce(Derived<'_>) -> R,
    ) -> Lookup<R> {
        let anchor = lock(self.mutex(self.shard_of(key.hash))).anchor(&self.rules, key, now);
        if let Some(anchor) = anchor {
            let mut shard = lock(self.mutex(self.shard_of(name.hash)));
            if let Some(answer) = shard.read_derived(&self.rules, name, anchor, now, read) {
                return Lookup::Hit(answer);
            }
        }
        let number = self.shard_of(key.hash);
        let mut shard = lock(self.mutex(number));
        shard.stats.misses += 1;
        let again = shard.wanted.again(name.hash, self.rules.budget.entries(self.shards()));
        if !again && !shard.find(key).is_some_and(|(_, entry)| is_anchor(&entry)) {
            // The first time, there is more to be remembered.
            shard.settle(&self.rules.budget);
            drop(shard);
            if self.rules.budget.is_over() {
                self.tier().balance(number, now);
            }
            return Lookup::Absent;
        }
        self.join(shard, key, name.bytes)
    }

    /// Leads or joins the flight for a key, or for what is derived from it under `name`.
    fn join<R>(self: &Arc<Self>, mut shard: MutexGuard<'_, Shard>, key: Key<'_>, name: &[u8]) -> Lookup<R> {
        let (flight, begun) = shard.flights.join(key.hash, key.bytes, name);
        if begun {
            shard.settle(&self.rules.budget);
        }
        drop(shard);
        // What was missed may have expired.
        self.rules.changes.settled();
        match begun {
            true => Lookup::Lead(Lead::new(self.clone(), flight)),
            false => Lookup::Wait(Wait::new(flight)),
        }
    }

    /// Has the processor fetch what reads of these keys will look at, so that they wait for memory together
    /// and not one after the other. Changes nothing; pays from two keys on.
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = Key<'k>> + Clone) {
        keys.clone().for_each(|key| self.prefetch_bucket(key));
        keys.for_each(|key| self.prefetch_record(key));
    }

    /// The first half of [`prefetch`](Cache::prefetch): the bucket, which says where the record is. For one key it pays if there is
    /// something else to do before the second half and before the read.
    #[inline]
    pub fn prefetch_bucket(&self, key: Key<'_>) {
        if let Some(shard) = try_lock(self.mutex(self.shard_of(key.hash))) {
            shard.prefetch_bucket(key.hash);
        }
    }

    /// The second half: the record.
    #[inline]
    pub fn prefetch_record(&self, key: Key<'_>) {
        if let Some(shard) = try_lock(self.mutex(self.shard_of(key.hash))) {
            shard.prefetch_record(key.hash);
        }
    }
}
