//! Public signatures; the bodies arrive in their own files.
use bytes::Bytes;
use std::sync::Arc;

/// Milliseconds since the Unix epoch. Nothing in this crate reads a clock.
pub type Millis = u64;

/// Bounds and defaults of one cache.
#[derive(Debug, Clone)]
pub struct Config {
    /// Bound, in bytes, on everything the cache holds.
    pub max_memory: usize,
    /// Bound on the number of entries; exact.
    pub max_keys: Option<usize>,
    /// Number of shards (rounded to a power of two); `None` chooses from the bounds.
    pub shards: Option<usize>,
    /// Lifetime, in milliseconds, of entries stored with [`Expiry::Default`].
    pub default_ttl: Option<u64>,
    /// Share (per cent, 0 to 50) by which the default lifetime is shortened at random, so that entries stored together do not expire together.
    pub ttl_jitter: u8,
}
impl Default for Config {
    fn default() -> Self {
        todo!()
    }
}

/// A key together with its hash, computed once per request by [`Cache::key`].
#[derive(Debug, Clone, Copy)]
pub struct Key<'k> {
    bytes: &'k [u8],
    hash: u64,
}
impl<'k> Key<'k> {
    /// The key's bytes.
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }
    /// Its 64-bit hash under this cache's seed.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// An entry as seen under its shard's lock.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: Value<'a>,
    /// When it expires.
    pub expiry: Option<Millis>,
    /// Client flags (memcached).
    pub flags: u32,
    /// Changes with every write of the key; never 0 (0 stands for "no entry").
    pub version: u64,
    /// When it was stored (approximate: within a second, or a few per cent of its age).
    pub stored: Millis,
    /// Bytes of the memory bound that it occupies.
    pub footprint: usize,
}

/// A value: small ones live in the log, large ones in a counted allocation that may leave by reference.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// Bytes inside the log: copy them.
    Inline(&'a [u8]),
    /// A counted allocation; `value` is a suffix of it. Use [`Value::share`].
    Large(&'a LargeValue),
}
/// A value in its own allocation.
#[derive(Debug)]
pub struct LargeValue {
    data: Bytes,
    at: usize,
}
impl<'a> Value<'a> {
    /// The bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        match self {
            Value::Inline(b) => b,
            Value::Large(l) => &l.data[l.at..],
        }
    }
    /// The bytes as an owned, counted buffer: a copy for small values, a reference for large ones.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Value::Inline(b) => Bytes::copy_from_slice(b),
            Value::Large(l) => l.data.slice(l.at..),
        }
    }
}

/// What a write does to the expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// The cache's default lifetime (with jitter), or none.
    Default,
    /// Never expires.
    Never,
    /// At this moment; a moment already past stores nothing and deletes what was there.
    At(Millis),
    /// As the entry that is replaced has it (none if there is none).
    Keep,
}

/// When a `set` applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// Only if the key has no entry.
    IfAbsent,
    /// Only if the key has an entry.
    IfPresent,
    /// Only if the entry has this version (0: no entry).
    IfVersion(u64),
}

/// A write.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The new value.
    pub value: &'a [u8],
    /// Its expiry.
    pub expiry: Expiry,
    /// Its flags.
    pub flags: u32,
    /// When it applies.
    pub condition: Condition,
}

/// What a `set` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// There was no entry; this is its version.
    Created(u64),
    /// There was one; this is the new version.
    Replaced(u64),
    /// The condition did not hold; nothing changed.
    Unmet,
}

/// The entry can never fit the bound (`max_memory`), whatever is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// Bytes that the entry needs.
    pub needed: usize,
    /// The bound.
    pub max_memory: usize,
}

/// What [`Tier::update`]'s closure asks for.
#[derive(Debug)]
pub enum Change<'c> {
    /// Nothing.
    Keep,
    /// Remove the entry.
    Delete,
    /// Store the contents of the scratch buffer as the value.
    Put(Expiry),
    /// Append to the value (creates it if absent); large values grow in place.
    Append(&'c [u8]),
    /// Overwrite from an offset, padding with zero bytes (creates it if absent).
    Splice(usize, &'c [u8]),
    /// Change the expiry only.
    Expire(Expiry),
}

/// What a miss found under the lock that saw it.
#[derive(Debug)]
pub enum Lookup<R> {
    /// The entry, as read by the closure.
    Hit(R),
    /// The source is known not to have the key (remembered for `negative-ttl`).
    Absent,
    /// Nobody is fetching the key: the caller must.
    Lead(Lead),
    /// Somebody is: wait for what they get.
    Wait(Wait),
}

/// The leader's duty: fetch the key and [`finish`](Lead::finish). Dropping it releases the waiters with [`Outcome::Abandoned`].
#[derive(Debug)]
pub struct Lead {}
impl Lead {
    /// The key to fetch.
    pub fn key(&self) -> &[u8] {
        todo!()
    }
    /// A handle that resolves when this flight ends (for the leader's own client).
    pub fn wait(&self) -> Wait {
        todo!()
    }
    /// Ends the flight: wakes every waiter with `outcome` and, unless the fence moved since it began, stores it.
    /// True if it was stored.
    pub fn finish(self, _outcome: Outcome, _fill: Fill, _now: Millis) -> bool {
        todo!()
    }
}
/// How an outcome is stored.
#[derive(Debug, Clone, Copy)]
pub enum Fill {
    /// Not at all.
    Skip,
    /// With this expiry: a value as an entry, an absence as a remembered absence (which needs `At`).
    Store(Expiry),
}

/// A future: resolves to the flight's outcome. Needs no runtime.
#[derive(Debug)]
pub struct Wait {}
impl std::future::Future for Wait {
    type Output = Outcome;
    fn poll(
        self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Outcome> {
        todo!()
    }
}

/// How a flight ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The source has this value.
    Value(Bytes),
    /// The source does not have the key.
    Absent,
    /// The source failed; every waiter gets the reason.
    Failed(Arc<str>),
    /// The leader went away without an answer (panic, shutdown).
    Abandoned,
}

/// Counters of one cache, summed over its shards.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs)]
pub struct Stats {
    pub entries: u64,
    pub negative_entries: u64,
    pub used_bytes: u64,
    pub live_bytes: u64,
    pub max_bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub negative_hits: u64,
    pub insertions: u64,
    pub evictions: u64,
    pub expirations: u64,
    pub fills_fenced: u64,
    pub flights: u64,
    pub index_bytes: u64,
    pub ghost_bytes: u64,
    pub large_bytes: u64,
    pub segment_bytes: u64,
}

/// The cache. Share it in an [`Arc`]; every method takes `&self`.
#[derive(Debug)]
pub struct Cache {}
impl Cache {
    /// Builds an empty cache.
    pub fn new(_config: Config) -> Arc<Cache> {
        todo!()
    }
    /// Hashes a key; the result is only meaningful for this cache.
    pub fn key<'k>(&self, _bytes: &'k [u8]) -> Key<'k> {
        todo!()
    }
    /// A read that joins or leads a flight when it misses. Counts a hit or a miss.
    pub fn lookup<R>(
        self: &Arc<Self>,
        _key: Key<'_>,
        _now: Millis,
        _read: impl FnOnce(Entry<'_>) -> R,
    ) -> Lookup<R> {
        todo!()
    }
    /// Operations that lock one shard each.
    pub fn tier(&self) -> Tier<'_> {
        todo!()
    }
    /// Operations under the locks of all the shards of `keys` at once: what is done through it is atomic. Never hold two.
    pub fn exclusive(&self, _keys: &[Key<'_>]) -> Tier<'_> {
        todo!()
    }
    /// The same with every shard locked.
    pub fn exclusive_all(&self) -> Tier<'_> {
        todo!()
    }
    /// Removes what has expired and compacts, a bounded amount per lock taken. Call it every 100 ms or so.
    pub fn tick(&self, _now: Millis) {
        todo!()
    }
    /// Forgets a key: the entry is removed and a fetch in flight will not be stored.
    pub fn invalidate(&self, _key: Key<'_>) {
        todo!()
    }
    /// Counters.
    pub fn stats(&self) -> Stats {
        todo!()
    }
    /// Sets hit, miss, eviction … counters to zero.
    pub fn reset_stats(&self) {
        todo!()
    }
    /// The bound can be changed at run time; a smaller one evicts.
    pub fn set_max_memory(&self, _bytes: usize) {
        todo!()
    }
    /// The lifetime for [`Expiry::Default`].
    pub fn set_default_ttl(&self, _ttl: Option<u64>) {
        todo!()
    }
}

/// The operations. Reads never return an expired entry or a remembered absence.
#[derive(Debug)]
pub struct Tier<'t> {
    _p: std::marker::PhantomData<&'t ()>,
}
impl Tier<'_> {
    /// Reads an entry and counts the access for eviction (and a hit or a miss).
    pub fn get<R>(
        &mut self,
        _key: Key<'_>,
        _now: Millis,
        _read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        todo!()
    }
    /// Reads an entry without counting anything.
    pub fn peek<R>(
        &mut self,
        _key: Key<'_>,
        _now: Millis,
        _read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        todo!()
    }
    /// Writes an entry.
    pub fn set(
        &mut self,
        _key: Key<'_>,
        _write: Write<'_>,
        _now: Millis,
    ) -> Result<Stored, TooLarge> {
        todo!()
    }
    /// Read-modify-write: the closure sees the entry (or none) and an empty scratch buffer, and says what to do. On `Put` the scratch is the new value.
    pub fn update<'c, R>(
        &mut self,
        _key: Key<'_>,
        _now: Millis,
        _change: impl FnOnce(Option<&Entry<'_>>, &mut Vec<u8>) -> (Change<'c>, R),
    ) -> Result<R, TooLarge> {
        todo!()
    }
    /// Deletes; true if there was an entry.
    pub fn delete(&mut self, _key: Key<'_>, _now: Millis) -> bool {
        todo!()
    }
    /// Number of entries (expired ones not yet reclaimed included).
    pub fn len(&self) -> usize {
        todo!()
    }
    /// No entries?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Removes everything, in time that does not depend on the number of entries; fences every flight.
    pub fn clear(&mut self) {
        todo!()
    }
    /// Visits about `count` entries from `cursor` (0 to begin) and returns the next cursor (0: done). An entry that is there
    /// from the first call to the last is visited at least once, whatever is written meanwhile.
    pub fn scan(
        &mut self,
        _cursor: u64,
        _count: usize,
        _now: Millis,
        _visit: impl FnMut(Entry<'_>),
    ) -> u64 {
        todo!()
    }
    /// An entry at random (`seed` chooses), for RANDOMKEY.
    pub fn random<R>(
        &mut self,
        _seed: u64,
        _now: Millis,
        _read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        todo!()
    }
}
