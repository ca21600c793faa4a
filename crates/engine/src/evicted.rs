//! The latest evictions, as a sample: which keys left for room, and how old they were. It tells
//! what a tier that is too small costs, prefix by prefix.

use crate::{
    log::Log,
    record::{self, Meta},
    sync::{Mutex, lock},
    time::Millis,
    version_clock::Clock,
};
use std::collections::VecDeque;

/// One eviction in so many of a shard is kept.
const EVERY: u64 = 16;
/// Evictions that are kept, those of all shards together.
const KEPT: usize = 512;
/// Bytes of a key that are kept.
const LONGEST: usize = 64;

/// An entry that was evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evicted {
    /// The first 64 bytes of its key.
    pub key: Box<[u8]>,
    /// When it left.
    pub at: Millis,
    /// How long before it was stored, ms: up to a second more, for old entries up to an eighth.
    pub age: u64,
}

/// The sample of a cache. It takes memory only once there are evictions, at most about 60 KiB.
#[derive(Debug, Default)]
pub(crate) struct EvictedSample(Mutex<VecDeque<Evicted>>);

impl EvictedSample {
    /// The shard's eviction of this number is that of the record at a position.
    #[inline]
    pub(crate) fn note(&self, number: u64, log: &Log, position: u32, clock: &Clock, now: Millis) {
        if number.is_multiple_of(EVERY) {
            self.keep(log, position, clock, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn keep(&self, log: &Log, position: u32, clock: &Clock, now: Millis) {
        let record = log.record(position);
        let meta = Meta::read(record);
        if meta.is_hidden() || meta.is_absent() {
            return;
        }
        let key = log.key(position);
        let stored = clock.when(clock.widen(record::version(record)));
        let evicted = Evicted { key: key[..key.len().min(LONGEST)].into(), at: now, age: now.saturating_sub(stored) };
        let mut latest = lock(&self.0);
        if latest.len() == KEPT {
            latest.pop_front();
        }
        latest.push_back(evicted);
    }

    /// The evictions that are kept, the oldest first.
    pub(crate) fn latest(&self) -> Vec<Evicted> {
        lock(&self.0).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cache, Config, Write};

    #[test]
    fn one_eviction_in_sixteen_is_kept_with_its_key_and_age() {
        let cache = Cache::new(Config { max_keys: Some(100), shards: Some(1), ..Config::default() });
        assert!(cache.evicted().is_empty());
        let name = |number: u64| format!("{number}:{}", "x".repeat(70));
        for number in 0..20_000 {
            let key = name(number);
            cache.tier().set(cache.key(key.as_bytes()), Write::new(b"v"), number * 1000).expect("it fits");
        }
        assert!(cache.stats().evictions > 19_000);
        let evicted = cache.evicted();
        assert_eq!(evicted.len(), 512);
        for two in evicted.windows(2) {
            assert!(two[0].at < two[1].at && two[1].at - two[0].at <= 17_000, "{two:?}");
        }
        for one in &evicted {
            assert_eq!(one.key.len(), 64);
            let digits = one.key.split(|byte| *byte == b':').next().expect("a number");
            let number: u64 = std::str::from_utf8(digits).expect("digits").parse().expect("a number");
            let exact = one.at - number * 1000;
            assert!(one.age >= exact && one.age <= exact + 1000 + exact / 8, "{one:?}: {exact}");
            assert!(cache.tier().peek(cache.key(name(number).as_bytes()), one.at, |_| ()).is_none());
        }
    }
}
