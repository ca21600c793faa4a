//! The cache: its shards, their common account, and what concerns all of them.

use crate::{
    budget::Budget,
    change_listener::{ChangeListeners, Clear},
    entry::Entry,
    evicted::EvictedSample,
    key::Key,
    large::Lent,
    policy::Eviction,
    shard::Shard,
    shard_common::Rules,
    stale_rules::{StaleRules, Standing},
    stats::Stats,
    sync::{Arc, Mutex, lock},
    time::Millis,
    what_if::{CacheSizes, Simulated},
    write::{ATTRIBUTES, SCRATCH},
};
use foldhash::quality::FixedState;
use std::{
    hash::BuildHasher,
    sync::{
        Arc as Shared,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// More shards than this gain nothing on machines that exist.
pub const MAX_SHARDS: usize = 1024;
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
    /// Lifetime, in milliseconds, of entries stored with
    /// [`Expiry::Default`](crate::Expiry::Default).
    pub default_ttl: Option<u64>,
    /// Share (per cent, 0 to 100) of the default lifetime by which it is shortened at random, so
    /// that entries stored together do not expire together.
    pub ttl_jitter: u8,
    /// How long copies may be served past their freshness; `None`: not at all.
    pub stale_rules: Option<Shared<dyn StaleRules>>,
    /// Simulates the hit ratio at other sizes ([`Cache::what_if`]) for one key in two to this power,
    /// or fewer; `None`: not at all.
    pub what_if: Option<u32>,
    /// Which entries leave to make room.
    pub eviction: Eviction,
    /// Seed of the key hash; `None` draws one, so that no client can choose keys that collide.
    pub seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            max_memory: 64 << 20,
            max_keys: None,
            shards: None,
            default_ttl: None,
            ttl_jitter: 0,
            stale_rules: None,
            what_if: None,
            eviction: Eviction::default(),
            seed: None,
        }
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

    /// The highest bound for so many shards: more would have more of them.
    fn most_memory(shards: usize) -> usize {
        (shards + 1).saturating_mul(SHARD_REACH) - 1
    }

    fn segment_size(&self, shards: usize) -> usize {
        let wanted = (self.max_memory / shards / SEGMENTS_PER_SHARD).clamp(*SEGMENT.start(), *SEGMENT.end());
        1 << wanted.ilog2()
    }
}

/// One shard to a cache line pair, so that cores do not write each other's locks.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(Mutex<Shard>);

/// A byte-bounded cache shared by all cores. Lock order: one shard, or several in ascending order
/// ([`Cache::exclusive`]).
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

    /// An empty cache of one shard to work in and throw away: it has no bound, no default lifetime
    /// and no listener, and a [`Key`] of this cache is good for it.
    pub fn scratch(&self) -> Arc<Cache> {
        let unbounded = Config { max_memory: usize::MAX, ..Config::default() };
        Cache::build(&unbounded, self.rules.hasher.clone(), 1, SCRATCH_SEGMENT, self.rules.lent.clone())
    }

    fn build(config: &Config, hasher: FixedState, shards: usize, segment: usize, lent: Lent) -> Arc<Cache> {
        let bounds = Stats { max_bytes: config.max_memory as u64, ..Stats::default() };
        let of_size = |_| (shards, size_of::<Shard>());
        let sizes = CacheSizes { stats: &bounds, max_keys: config.max_keys, shards: &of_size };
        let what_if = config.what_if.map(|shift| Simulated::new(shift, config.eviction, &sizes));
        let sample_limit = what_if.as_ref().map_or(0, Simulated::limit);
        let rules = Rules {
            what_if,
            sample_limit: sample_limit.into(),
            evicted: EvictedSample::default(),
            eviction: config.eviction,
            shards_by_size: config.shards.is_none(),
            budget: Budget::new(config.max_memory, config.max_keys),
            fixed: shards * (size_of::<Shard>() + 1024 + segment.min(SCRATCH) + ATTRIBUTES) + 2 * segment,
            hasher,
            changes: ChangeListeners::default(),
            default_ttl: AtomicU64::new(config.default_ttl.unwrap_or(0)),
            jitter: config.ttl_jitter.min(100),
            keep: AtomicU64::default(),
            ahead: AtomicU64::default(),
            stale: config.stale_rules.clone(),
            lent: lent.clone(),
            shrink_next: AtomicUsize::default(),
            shards,
        };
        rules.ask_stale_rules();
        let shards = (0..shards).map(|_| {
            let mut shard = Shard::new(segment, config.eviction, lent.clone());
            shard.sample_limit = sample_limit;
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

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Shards of a cache with these settings and another bound.
    pub(crate) fn shards_at(&self, max_memory: usize) -> usize {
        match self.rules.shards_by_size {
            true => Config { max_memory, max_keys: self.max_keys(), ..Config::default() }.shard_count(),
            false => self.shards.len(),
        }
    }

    pub(crate) fn mutex(&self, number: usize) -> &Mutex<Shard> {
        &self.shards[number].0
    }

    /// Everything that is held is out of date from now on, and no fetch in flight will be stored:
    /// reads miss it until it is fetched or written again, but for what the [`StaleRules`]
    /// allow. False if that was so already.
    pub fn mark_stale(&self, now: Millis) -> bool {
        self.mark_prefix(b"", false, now)
    }

    /// Like `mark_stale`, for the keys that begin with `prefix`. If `is_final`, they are gone at
    /// once; their memory is given back in the background ([`Cache::tick`]). Takes a time that does
    /// not depend on the number of entries.
    pub fn mark_prefix(&self, prefix: &[u8], is_final: bool, now: Millis) -> bool {
        if let Some(what_if) = self.rules.what_if.as_ref().filter(|_| prefix.is_empty()) {
            what_if.clear();
        }
        let shared = Shared::<[u8]>::from(prefix);
        let stepwise = || {
            let mark = |is_new, slot: &Slot| lock(&slot.0).mark(&self.rules, &shared, is_final, now) | is_new;
            self.shards.iter().fold(false, mark)
        };
        let is_new = self.rules.changes.stepwise(stepwise).unwrap_or_else(|| {
            let mut tier = self.exclusive_all();
            self.rules.changes.clearing(Clear::Prefix(prefix, is_final));
            let mark =
                |is_new, number| tier.on(number, |shard| shard.mark(&self.rules, &shared, is_final, now)) | is_new;
            (0..self.shards()).fold(false, mark)
        });
        self.rules.changes.cleared();
        self.rules.changes.settled();
        is_new
    }

    /// A step that makes room for one more prefix in [`mark_prefix`](Cache::mark_prefix): removes
    /// some entries of a shard with many marks, under its lock. False if there is room. Callers take
    /// turns with others between the steps.
    pub fn thin_marks(&self, now: Millis) -> bool {
        let has_more = self.shards.iter().any(|slot| lock(&slot.0).thin_marks(&self.rules, now));
        self.rules.changes.settled();
        has_more
    }

    /// Reads what is held of a key, out of date or not, unless it is gone. Counts nothing.
    pub fn peek_stale<R>(&self, key: Key<'_>, now: Millis, read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let mut shard = lock(self.mutex(self.shard_of(key.hash)));
        let live = shard.live(&self.rules, key, now)?;
        let stale_since = match shard.standing(&self.rules, live.position, now) {
            Standing::OutOfDate { since, .. } => Some(since),
            Standing::Fresh { .. } | Standing::Gone => None,
        };
        (!live.meta.is_absent()).then(|| read(Entry { stale_since, ..shard.entry(live.position) }))
    }

    /// Forgets a key: its entry is removed and a fetch in flight will not be stored.
    /// The listener hears of it even if there was none: something that is not here has changed.
    pub fn invalidate(&self, key: Key<'_>) {
        let mut shard = lock(self.mutex(self.shard_of(key.hash)));
        if !shard.delete(&self.rules, key, 0) {
            self.rules.changes.changed(key, 0);
        }
        drop(shard);
        self.rules.changes.settled();
    }

    /// Removes what has expired or was cleared, a bounded amount per lock taken. Call it every 100
    /// ms or so.
    pub fn tick(&self, now: Millis) {
        for number in 0..self.shards() {
            while lock(self.mutex(number)).reclaim(&self.rules, now) {}
            while lock(self.mutex(number)).sweep_marks(&self.rules, now) {}
            self.sweep_tags(number, now);
        }
        self.tick_what_if(now);
        self.rules.changes.settled();
    }

    /// Values that have left the tier, or one of its [scratches](Cache::scratch), while readers
    /// still hold them.
    pub fn lent(&self) -> &Lent {
        &self.rules.lent
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        let mut sum = Stats {
            used_bytes: self.rules.budget.bytes() as u64,
            max_bytes: self.rules.budget.max_bytes() as u64,
            shrink_bytes: self.rules.budget.to_shrink() as u64,
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

    /// Which entries leave to make room.
    pub fn eviction(&self) -> Eviction {
        self.rules.eviction
    }

    /// The bound on bytes, which a cache that [shrinks](Cache::is_shrinking) has not reached yet.
    pub fn max_memory(&self) -> usize {
        self.rules.budget.max_bytes()
    }

    /// The lowest and the highest bound that it can have. Below the first its shards themselves
    /// take all of it and no entry fits. Above the second there would have to be more shards, and
    /// their number does not change.
    pub fn memory_limits(&self) -> std::ops::RangeInclusive<usize> {
        self.rules.fixed..=Config::most_memory(self.shards())
    }

    /// The bound on keys.
    pub fn max_keys(&self) -> Option<usize> {
        self.rules.budget.max_keys()
    }

    /// Changes the lifetime for [`Expiry::Default`](crate::Expiry::Default); entries already stored
    /// keep theirs.
    pub fn set_default_ttl(&self, ttl: Option<u64>) {
        self.rules.default_ttl.store(ttl.unwrap_or(0), Relaxed);
    }

    /// The [`StaleRules`] answer differently from now on: the cache asks them again for their
    /// longest times.
    pub fn stale_rules_changed(&self) {
        self.rules.ask_stale_rules();
    }
}
