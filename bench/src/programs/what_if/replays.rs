//! Whole traces replayed: through the tier, and through an exact LRU of the same bounds.
use super::shapes::Step;
use crate::lib::rival_caches::{NOW, plain_write};
use larder_engine::{Cache, Expiry, Millis, Write};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Steps to a millisecond of the trace.
const STEPS_PER_MS: u64 = 100;
/// The server's tick, ms.
const TICK: u64 = 100;

/// How the entries of a trace look.
pub(super) struct Entries {
    pub(super) value_size: Box<dyn Fn(u64) -> usize>,
    pub(super) lifetime: Box<dyn Fn(u64) -> Option<u64>>,
}

/// Reads, and how many of them were hits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hits {
    pub(super) reads: u64,
    pub(super) hits: u64,
}

impl Hits {
    pub(super) fn ratio(self) -> f64 {
        self.hits as f64 / self.reads.max(1) as f64
    }

    fn add(&mut self, is_hit: bool) {
        self.reads += 1;
        self.hits += u64::from(is_hit);
    }
}

/// When the last of so many steps happens.
pub(super) fn end(steps: u64) -> Millis {
    NOW + steps / STEPS_PER_MS
}

/// Replays through the tier: each miss is followed by a write.
pub(super) fn tier(cache: &Arc<Cache>, steps: impl Iterator<Item = Step>, entries: &Entries) -> Hits {
    let value = vec![7; 1 << 20];
    let mut hits = Hits::default();
    for (number, step) in (0..).zip(steps) {
        let now = end(number);
        let set = |name: u64| {
            let expiry = (entries.lifetime)(name).map_or(Expiry::Never, |lifetime| Expiry::At(now + lifetime));
            let write = Write { expiry, ..plain_write(&value[..(entries.value_size)(name)]) };
            // What the bound can never hold is a miss each time.
            let _ = cache.tier().set(cache.key(&name.to_le_bytes()), write, now);
        };
        match step {
            Step::Get(name) => {
                let is_hit = cache.tier().get(cache.key(&name.to_le_bytes()), now, |_| ()).is_some();
                if !is_hit {
                    set(name);
                }
                hits.add(is_hit);
            }
            Step::Set(name) => set(name),
            Step::Delete(name) => drop(cache.tier().delete(cache.key(&name.to_le_bytes()), now)),
        }
        if number % (STEPS_PER_MS * TICK) == 0 {
            cache.tick(now);
        }
    }
    hits
}

/// An exact LRU of at most so many keys and so many bytes of records.
pub(super) struct Lru {
    max_keys: usize,
    max_bytes: usize,
    bytes: usize,
    /// Access, bytes and end of each key.
    held: HashMap<u64, (u64, usize, Millis)>,
    by_access: BTreeMap<u64, u64>,
    by_end: BTreeSet<(Millis, u64)>,
}

impl Lru {
    pub(super) fn new(max_keys: usize, max_bytes: usize) -> Lru {
        let (held, by_access) = (HashMap::new(), BTreeMap::new());
        Lru { max_keys, max_bytes, bytes: 0, held, by_access, by_end: BTreeSet::new() }
    }

    fn remove(&mut self, key: u64) {
        if let Some((access, bytes, end)) = self.held.remove(&key) {
            self.bytes -= bytes;
            self.by_access.remove(&access);
            self.by_end.remove(&(end, key));
        }
    }

    fn set(&mut self, key: u64, access: u64, bytes: usize, end: Millis) {
        self.remove(key);
        if bytes > self.max_bytes {
            return;
        }
        self.held.insert(key, (access, bytes, end));
        self.by_access.insert(access, key);
        if end < Millis::MAX {
            self.by_end.insert((end, key));
        }
        self.bytes += bytes;
        while self.bytes > self.max_bytes || self.held.len() > self.max_keys {
            let oldest = self.by_access.first_key_value().map(|(_, key)| *key);
            oldest.into_iter().for_each(|key| self.remove(key));
        }
    }

    /// As [`tier`].
    pub(super) fn replay(mut self, steps: impl Iterator<Item = Step>, entries: &Entries) -> Hits {
        let mut hits = Hits::default();
        for (number, step) in (0..).zip(steps) {
            let now = end(number);
            while let Some((_, key)) = self.by_end.first().copied().filter(|(end, _)| *end <= now) {
                self.remove(key);
            }
            let entry = |name| {
                let lifetime = (entries.lifetime)(name);
                // Header, expiry, key, value: a record of the tier.
                let bytes = 8 + 6 * usize::from(lifetime.is_some()) + 8 + (entries.value_size)(name);
                (bytes, lifetime.map_or(Millis::MAX, |lifetime| now + lifetime))
            };
            match step {
                Step::Get(name) => {
                    let found = self.held.get_mut(&name);
                    hits.add(found.is_some());
                    if let Some((access, ..)) = found {
                        let before = std::mem::replace(access, number);
                        self.by_access.remove(&before);
                        self.by_access.insert(number, name);
                    } else {
                        let (bytes, end) = entry(name);
                        self.set(name, number, bytes, end);
                    }
                }
                Step::Set(name) => {
                    let (bytes, end) = entry(name);
                    self.set(name, number, bytes, end);
                }
                Step::Delete(name) => self.remove(name),
            }
        }
        hits
    }
}
