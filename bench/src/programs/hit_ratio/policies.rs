//! The caches as a replay uses them: request a key, learn whether it was a hit, insert it if not.
//! All return the number of hits.
//!
//! The rivals are keyed by the trace's numbers: what they keep does not depend on a key's length.
//! Larder stores real bytes, because in mode `bytes` its policy works on them.
use crate::lib::{
    dataset::Dataset,
    rival_caches::{NOW, larder_config, plain_write},
    trace::Requests,
};
use larder_engine::{Cache, Config, Stats};
use std::{num::NonZeroUsize, sync::Arc};

/// The engine, with a clock of its own: 10 microseconds pass per request, and it is ticked every
/// 100 ms of that, as the server does.
pub(super) struct LarderPolicy {
    cache: Arc<Cache>,
    shape: Option<Dataset>,
}

impl LarderPolicy {
    /// At most `entries` entries, memory in abundance.
    pub(super) fn at_entries(entries: usize) -> LarderPolicy {
        LarderPolicy { cache: Cache::new(larder_config(entries, 16)), shape: None }
    }

    /// At most `budget` bytes for keys and values of this shape.
    pub(super) fn at_bytes(budget: usize, shape: &Dataset) -> LarderPolicy {
        let config = Config { max_memory: budget, ..Config::default() };
        LarderPolicy { cache: Cache::new(config), shape: Some(shape.clone()) }
    }

    /// Replays the trace once.
    pub(super) fn replay(&mut self, trace: &Requests) -> anyhow::Result<u64> {
        const REQUESTS_PER_MS: u64 = 100;
        const TICK_MS: u64 = 100;
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        let (mut hits, mut requests) = (0, 0);
        for key in trace.keys()? {
            let number = key?;
            match &self.shape {
                Some(shape) => shape.key(number, &mut bytes),
                None => {
                    bytes.clear();
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
            }
            let now = NOW + requests / REQUESTS_PER_MS;
            let key = self.cache.key(&bytes);
            if self.cache.tier().get(key, now, |_| ()).is_some() {
                hits += 1;
            } else {
                match &self.shape {
                    Some(shape) => shape.value(number, 0, &mut value),
                    None => value.clone_from(&bytes),
                }
                // An entry that the bound can never hold is a miss each time, like any other that is not kept.
                let _ = self.cache.tier().set(key, plain_write(&value), now);
            }
            requests += 1;
            if requests % (REQUESTS_PER_MS * TICK_MS) == 0 {
                self.cache.tick(now);
            }
        }
        Ok(hits)
    }

    /// The engine's counters.
    pub(super) fn stats(&self) -> Stats {
        self.cache.stats()
    }
}

/// From this many entries on, 64 more are at most one per cent.
const MOKA_BATCHES: usize = 6400;

/// moka at its best: its maintenance run after every request (the most exact order) or every 64th
/// (fuller batches for its frequency sketch); which one is better depends on the trace, so both are
/// tried. Until its maintenance runs, moka holds what was inserted meanwhile beyond its capacity; so
/// a small cache has the first way only.
pub(super) fn moka(entries: usize, trace: &Requests) -> anyhow::Result<u64> {
    let run = |every: u64| {
        let cache: moka::sync::Cache<u64, ()> = moka::sync::Cache::new(entries as u64);
        let mut requests = 0_u64;
        count(trace, |key| {
            let hit = cache.get(&key).is_some();
            if !hit {
                cache.insert(key, ());
            }
            requests += 1;
            if requests.is_multiple_of(every) {
                cache.run_pending_tasks();
            }
            hit
        })
    };
    let exact = run(1)?;
    if entries < MOKA_BATCHES { Ok(exact) } else { Ok(exact.max(run(64)?)) }
}

/// quick_cache, the concurrent cache with its defaults.
pub(super) fn quick_cache(entries: usize, trace: &Requests) -> anyhow::Result<u64> {
    let cache = quick_cache::sync::Cache::new(entries);
    count(trace, |key| {
        let hit = cache.get(&key).is_some();
        if !hit {
            cache.insert(key, ());
        }
        hit
    })
}

/// Least recently used.
pub(super) fn lru(entries: usize, trace: &Requests) -> anyhow::Result<u64> {
    let entries = NonZeroUsize::new(entries).unwrap_or(NonZeroUsize::MIN);
    let mut cache = lru::LruCache::new(entries);
    count(trace, |key| {
        let hit = cache.get(&key).is_some();
        if !hit {
            cache.put(key, ());
        }
        hit
    })
}

fn count(trace: &Requests, mut request: impl FnMut(u64) -> bool) -> anyhow::Result<u64> {
    let mut hits = 0;
    for key in trace.keys()? {
        hits += u64::from(request(key?));
    }
    Ok(hits)
}
