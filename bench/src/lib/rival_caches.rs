//! Caches in this process that are compared: Larder's tier and its rivals, behind one trait. Byte
//! keys, byte values, shared by reference between threads.
//!
//! Each is used as its documentation recommends, with its default hasher and policy: keys are
//! `Box<[u8]>`, values are `Arc<[u8]>`. Larder copies keys and values into its own memory.
use larder_engine::{Attributes, Cache, Condition, Config, Expiry, Millis, Write};
use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

/// A cache of the comparison. Larder's tier is one, so that the same code measures it.
pub(crate) trait RivalCache: Send + Sync {
    /// Its name in results.
    const NAME: &'static str;

    /// An empty cache that holds at most `entries` entries of about `entry_bytes` bytes of key and
    /// value.
    fn new(entries: usize, entry_bytes: usize) -> Self;

    /// Stores an entry.
    fn set(&self, key: &[u8], value: &[u8]);

    /// Housekeeping that a server would do now and then, if the cache wants it.
    fn upkeep(&self) {}

    /// Number of entries held.
    fn entries(&self) -> u64;
}

/// The moment at which everything happens: nothing expires here, so one moment is as good as many.
pub(crate) const NOW: Millis = 1_750_000_000_000;

/// Larder's engine, with so much memory that only the number of entries bounds it.
pub(crate) struct Larder(Arc<Cache>);

impl RivalCache for Larder {
    const NAME: &'static str = "larder";

    fn new(entries: usize, entry_bytes: usize) -> Self {
        Larder(Cache::new(larder_config(entries, entry_bytes)))
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        let write = plain_write(value);
        let stored = self.0.tier().set(self.0.key(key), write, NOW);
        debug_assert!(stored.is_ok(), "entries here are far smaller than the bound");
    }

    fn upkeep(&self) {
        self.0.tick(NOW);
    }

    fn entries(&self) -> u64 {
        self.0.stats().entries
    }
}

/// An engine that only the number of entries bounds: four times the raw data, and 64 MiB.
pub(crate) fn larder_config(entries: usize, entry_bytes: usize) -> Config {
    Config { max_memory: (64 << 20) + 4 * entries * entry_bytes.max(64), max_keys: Some(entries), ..Config::default() }
}

/// An unconditional write without expiry.
pub(crate) fn plain_write(value: &[u8]) -> Write<'_> {
    Write { value, expiry: Expiry::Never, attributes: Attributes::NONE, condition: Condition::Always }
}

/// moka's concurrent cache (W-TinyLFU).
pub(crate) struct Moka(moka::sync::Cache<Box<[u8]>, Arc<[u8]>>);

impl RivalCache for Moka {
    const NAME: &'static str = "moka";

    fn new(entries: usize, _entry_bytes: usize) -> Self {
        Moka(moka::sync::Cache::new(entries as u64))
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }

    fn upkeep(&self) {
        self.0.run_pending_tasks();
    }

    fn entries(&self) -> u64 {
        self.0.run_pending_tasks();
        self.0.entry_count()
    }
}

/// quick_cache's concurrent cache (S3-FIFO with a clock).
pub(crate) struct QuickCache(quick_cache::sync::Cache<Box<[u8]>, Arc<[u8]>>);

impl RivalCache for QuickCache {
    const NAME: &'static str = "quick_cache";

    fn new(entries: usize, _entry_bytes: usize) -> Self {
        QuickCache(quick_cache::sync::Cache::new(entries))
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }

    fn entries(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Plain least-recently-used (crate `lru`) behind one lock.
pub(crate) struct Lru(Mutex<lru::LruCache<Owned, Owned>>);

type Owned = Box<[u8]>;

impl RivalCache for Lru {
    const NAME: &'static str = "lru";

    fn new(entries: usize, _entry_bytes: usize) -> Self {
        let entries = NonZeroUsize::new(entries).unwrap_or(NonZeroUsize::MIN);
        Lru(Mutex::new(lru::LruCache::new(entries)))
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.put(key.into(), value.into());
    }

    fn entries(&self) -> u64 {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds_what_it_is_given<C: RivalCache>() {
        let cache = C::new(1000, 72);
        for number in 0..500_u32 {
            cache.set(&number.to_le_bytes(), b"first");
            cache.set(&number.to_le_bytes(), b"second");
        }
        cache.upkeep();
        assert_eq!(cache.entries(), 500, "{}", C::NAME);
        for number in 0..5000_u32 {
            cache.set(&number.to_le_bytes(), b"third");
        }
        cache.upkeep();
        assert!(cache.entries() <= 1000, "{}", C::NAME);
    }

    #[test]
    fn all_hold_what_they_are_given_up_to_their_bound() {
        holds_what_it_is_given::<Larder>();
        holds_what_it_is_given::<Moka>();
        holds_what_it_is_given::<QuickCache>();
        holds_what_it_is_given::<Lru>();
    }
}
