//! The cache: its shards, their common account, and the reads that can miss into a flight.

use crate::{
    Expiry, Millis,
    budget::Budget,
    changes::Changes,
    flight::{Flight, Lead, Wait},
    large::Lent,
    shard::{Key, Rules, Shard},
    stats::Stats,
    sync::{Arc, Mutex, MutexGuard, lock, try_lock},
    tier::{FEW, Tier},
    write::SCRATCH,
};
use bytes::Bytes;
use foldhash::quality::FixedState;
use smallvec::SmallVec;
use std::{
    hash::BuildHasher,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// More shards than this gain nothing on machines that exist.
const MAX_SHARDS: usize = 1024;
/// A position is 32 bits; half of them stay free because shards do not share evenly.
const SHARD_REACH: usize = 1 << 31;
/// A shard is worth having from this much memory and this many keys on.
const SHARD_BYTES: usize = 4 << 20;
const SHARD_KEYS: usize = 16 << 10;
const SEGMENT: std::ops::RangeInclusive<usize> = 512..=1 << 20;
const SEGMENTS_PER_SHARD: usize = 64;
/// Of a cache that is made for a few entries.
const SCRATCH_SEGMENT: usize = 16 << 10;

/// Bounds and defaults of one cache.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bound, in bytes, on everything that the cache holds.
    pub max_memory: usize,
    /// Bound on the number of entries; exact.
    pub max_keys: Option<usize>,
    /// Number of shards (rounded up to a power of two); `None` chooses from the bounds.
    pub shards: Option<usize>,
    /// Lifetime, in milliseconds, of entries stored with [`Expiry::Default`].
    pub default_ttl: Option<u64>,
    /// Share (per cent, 0 to 100) of the default lifetime by which it is shortened at random, so that entries stored together do not expire together.
    pub ttl_jitter: u8,
    /// Seed of the key hash; `None` draws one, so that nobody can choose keys that collide.
    pub seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Config { max_memory: 64 << 20, max_keys: None, shards: None, default_ttl: None, ttl_jitter: 0, seed: None }
    }
}

impl Config {
    fn shard_count(&self) -> usize {
        let chosen = self.shards.unwrap_or_else(|| {
            let by_keys = self.max_keys.map_or(MAX_SHARDS, |keys| keys / SHARD_KEYS);
            by_keys.min(self.max_memory / SHARD_BYTES).min(64)
        });
        chosen.max(self.max_memory / SHARD_REACH).clamp(1, MAX_SHARDS).next_power_of_two()
    }

    fn segment_size(&self, shards: usize) -> usize {
        let wanted = (self.max_memory / shards / SEGMENTS_PER_SHARD).clamp(*SEGMENT.start(), *SEGMENT.end());
        1 << wanted.ilog2()
    }
}

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

/// One shard to a cache line pair, so that cores do not write each other's locks.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(Mutex<Shard>);

/// A byte-bounded cache shared by all cores. Lock order: one shard, or several in ascending order ([`Cache::exclusive`]).
#[derive(Debug)]
pub struct Cache {
    shards: Box<[Slot]>,
    pub(crate) rules: Rules,
}

impl Cache {
    /// Builds an empty cache.
    pub fn new(config: Config) -> Arc<Cache> {
        let shards = config.shard_count();
        let segment = config.segment_size(shards);
        let seed = config.seed.unwrap_or_else(|| std::hash::RandomState::new().hash_one(0));
        Cache::build(&config, FixedState::with_seed(seed), shards, segment, Lent::default())
    }

    /// An empty cache of one shard to work in and throw away: it has no bound, no default lifetime and no listener, and
    /// a [`Key`] of this cache is good for it.
    pub fn scratch(&self) -> Arc<Cache> {
        let unbounded = Config { max_memory: usize::MAX, ..Config::default() };
        Cache::build(&unbounded, self.rules.hasher.clone(), 1, SCRATCH_SEGMENT, self.rules.lent.clone())
    }

    fn build(config: &Config, hasher: FixedState, shards: usize, segment: usize, lent: Lent) -> Arc<Cache> {
        let rules = Rules {
            budget: Budget::new(config.max_memory, config.max_keys),
            fixed: shards * (size_of::<Shard>() + 1024 + segment.min(SCRATCH)) + 2 * segment,
            hasher,
            changes: Changes::default(),
            default_ttl: AtomicU64::new(config.default_ttl.unwrap_or(0)),
            jitter: config.ttl_jitter.min(100),
            lent: lent.clone(),
        };
        let shards = (0..shards).map(|_| {
            let mut shard = Shard::new(segment, lent.clone());
            shard.settle(&rules.budget);
            Slot(Mutex::new(shard))
        });
        Arc::new(Cache { shards: shards.collect(), rules })
    }

    /// Hashes a key; the result is only meaningful for this cache.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.rules.hash(bytes) }
    }

    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    pub(crate) fn mutex(&self, number: usize) -> &Mutex<Shard> {
        &self.shards[number].0
    }

    /// A read that joins or leads a flight when it misses. Counts a hit or a miss.
    pub fn lookup<R>(
        self: &Arc<Self>,
        key: Key<'_>,
        now: Millis,
        read: impl FnOnce(crate::Entry<'_>) -> R,
    ) -> Lookup<R> {
        let mut shard = lock(self.mutex(self.shard_of(key.hash)));
        match shard.read(&self.rules, key, now, read) {
            Some(Some(answer)) => Lookup::Hit(answer),
            Some(None) if !shard.hides(key) => Lookup::Absent,
            _ => self.join(shard, key, b""),
        }
    }

    /// Leads or joins the flight for a key, or for what is derived from it under `name`.
    pub(crate) fn join<R>(self: &Arc<Self>, mut shard: MutexGuard<'_, Shard>, key: Key<'_>, name: &[u8]) -> Lookup<R> {
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

    /// The end of a flight: the fill is stored only if the fence still stands.
    pub(crate) fn land(&self, flight: &Arc<Flight>, now: Millis, value: Option<&[u8]>, expiry: Option<Expiry>) -> bool {
        let key = Key { bytes: &flight.key, hash: flight.hash };
        let number = self.shard_of(flight.hash);
        let mut shard = lock(self.mutex(number));
        let landed = shard.flights.land(flight);
        let mut stored = false;
        if let Some(expiry) = expiry {
            if landed {
                stored = shard.fill(&self.rules, key, value, expiry, now);
            } else {
                shard.stats.fenced_fills += 1;
            }
        }
        shard.settle(&self.rules.budget);
        drop(shard);
        self.tier().balance(number, now);
        stored
    }

    /// Everything that is held is out of date from now on: reads miss it, as if it had been removed, until it is fetched
    /// or written again, and no fetch in flight will be stored. Only [`Lead::last_known`] still finds it.
    pub fn mark_stale(&self) {
        for slot in &self.shards {
            lock(&slot.0).mark_stale(&self.rules);
        }
        self.rules.changes.cleared();
        self.rules.changes.settled();
    }

    pub(crate) fn last_known(&self, key: Key<'_>, now: Millis) -> Option<Option<Bytes>> {
        lock(self.mutex(self.shard_of(key.hash))).last_known(key, now, |entry| entry.value.to_bytes())
    }

    /// See [`Lead::overtake`].
    pub(crate) fn overtake(&self, flight: &Arc<Flight>) {
        let mut shard = lock(self.mutex(self.shard_of(flight.hash)));
        let fenced = !shard.flights.overtake(flight);
        let key = Key { bytes: &flight.key, hash: flight.hash };
        if fenced || shard.lags(key, flight) {
            shard.drop_key(key);
            self.rules.changes.changed(key.bytes, 0);
        }
        shard.settle(&self.rules.budget);
        drop(shard);
        self.rules.changes.settled();
    }

    /// Operations that lock one shard each.
    pub fn tier(&self) -> Tier<'_> {
        Tier::shared(self)
    }

    /// Operations under the locks of all the shards of `keys` at once: what is done through it is atomic. A thread must
    /// never hold two, nor use the cache by another way meanwhile.
    pub fn exclusive<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> Tier<'_> {
        let mut numbers: SmallVec<[usize; FEW]> = keys.into_iter().map(|key| self.shard_of(key.hash)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Tier::exclusive(self, numbers)
    }

    /// The same with every shard locked.
    pub fn exclusive_all(&self) -> Tier<'_> {
        Tier::exclusive(self, 0..self.shards())
    }

    /// Forgets a key: its entry is removed and a fetch in flight will not be stored.
    /// The listener hears of it even if there was none: something that is not here has changed.
    pub fn invalidate(&self, key: Key<'_>) {
        let mut shard = lock(self.mutex(self.shard_of(key.hash)));
        if !shard.delete(&self.rules, key, 0) {
            self.rules.changes.changed(key.bytes, 0);
        }
        drop(shard);
        self.rules.changes.settled();
    }

    /// Removes what has expired, a bounded amount per lock taken. Call it every 100 ms or so.
    pub fn tick(&self, now: Millis) {
        for number in 0..self.shards() {
            while lock(self.mutex(number)).reclaim(&self.rules, now) {}
        }
        self.rules.changes.settled();
    }

    /// Values that have left the tier, or one of its [scratches](Cache::scratch), while somebody still reads them.
    pub fn lent(&self) -> &Lent {
        &self.rules.lent
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        let mut sum = Stats {
            used_bytes: self.rules.budget.bytes() as u64,
            max_bytes: self.rules.budget.max_bytes() as u64,
            ..Stats::default()
        };
        for slot in &self.shards {
            let stats = lock(&slot.0).stats();
            sum.add(&stats);
        }
        sum
    }

    /// Sets the counters of events (hits, misses, evictions …) to zero.
    pub fn reset_stats(&self) {
        for slot in &self.shards {
            lock(&slot.0).stats = Stats::default();
        }
    }

    /// Changes the bound; a smaller one evicts at once.
    pub fn set_max_memory(&self, bytes: usize, now: Millis) {
        self.rules.budget.set_max_bytes(bytes);
        self.tier().balance(0, now);
    }

    /// The bound on bytes.
    pub fn max_memory(&self) -> usize {
        self.rules.budget.max_bytes()
    }

    /// The bound on keys.
    pub fn max_keys(&self) -> Option<usize> {
        self.rules.budget.max_keys()
    }

    /// Changes the lifetime for [`Expiry::Default`]; entries already stored keep theirs.
    pub fn set_default_ttl(&self, ttl: Option<u64>) {
        self.rules.default_ttl.store(ttl.unwrap_or(0), Relaxed);
    }
}
