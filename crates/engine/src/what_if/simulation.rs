//! The simulation of all sizes: what happens to a sampled key in each of them.

use super::{
    curve::OWN,
    lru_sizes::LruSizes,
    policy_sizes::{Bounds, PolicySize},
    slots::{Held, NONE, SIZES, Slots},
};
use crate::{policy::Eviction, time::Millis};

/// Sampled keys of a large tier that is full, at most.
pub(super) const MOST_KEYS: usize = 16 << 10;
/// Like `MOST_KEYS`, for the smallest tiers, and for those that hold little.
const FEWEST_KEYS: usize = 2 << 10;
/// A full tier has one sampled key for so many of its bytes, at most, between these two.
const BYTES_OF_KEY: usize = 4 << 10;
/// Work that is done whatever it costs, so that the curves of short tests are exact; in reads that
/// are hits at all sizes.
const FREE_WORK: u64 = 2 << 20;
/// Beyond that, the work of one read for so many reads of the tier.
const WORK_SHARE: u64 = 32;
/// Work of storing a key, in reads.
pub(super) const STORE_WORK: u64 = 4;
/// Parts of the slots of which one is searched for ended lifetimes with each tick.
const SWEEPS: usize = 8;
/// Each hash is multiplied by this before it is compared: the engine uses all parts of the hash
/// itself for other choices, of which this one must be independent.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whether a key is sampled where one key in 2 to the power `shift` is.
#[inline]
pub(crate) fn is_sampled(hash: u64, limit: u64) -> bool {
    hash.wrapping_mul(SPREAD) <= limit
}

/// Reads of the tier that the sampled ones stand for, and how many of them would have been hits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) reads: f64,
    pub(super) policy_hits: [f64; SIZES],
    pub(super) lru_hits: [f64; SIZES],
}

impl Counts {
    pub(super) fn scale(&mut self, by: f64) {
        let Counts { reads, policy_hits, lru_hits } = self;
        let all = std::iter::once(reads).chain(policy_hits).chain(lru_hits);
        all.for_each(|count| *count *= by);
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Simulation {
    slots: Slots,
    policies: [PolicySize; SIZES],
    lru: LruSizes,
    bounds: [Bounds; SIZES],
    eviction: Eviction,
    /// Sampled keys when the tier is full, at most.
    most_keys: usize,
    /// One key in 2 to this power is sampled.
    shift: u32,
    worked: u64,
    swept: usize,
    pub(super) counts: Counts,
}

impl Simulation {
    /// With so many sampled keys at most when the tier is full ([`most_keys`]).
    pub(super) fn new(shift: u32, eviction: Eviction, most_keys: usize, bounds: [Bounds; SIZES]) -> Simulation {
        Simulation {
            slots: Slots::new(),
            policies: std::array::from_fn(|size| PolicySize::new(size, eviction, bounds[size])),
            lru: LruSizes::default(),
            bounds,
            eviction,
            most_keys,
            shift,
            worked: 0,
            swept: 0,
            counts: Counts::default(),
        }
    }

    /// Keys whose hash times [`SPREAD`] is at most this are sampled.
    pub(super) fn limit(&self) -> u64 {
        u64::MAX >> self.shift
    }

    /// The share of the keys that are sampled.
    pub(super) fn share(&self) -> f64 {
        1.0 / (1u64 << self.shift) as f64
    }

    pub(super) fn keys(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn bytes(&self) -> usize {
        let policies: usize = self.policies.iter().map(PolicySize::bytes).sum();
        size_of::<Simulation>() + self.slots.bytes() + self.lru.bytes() + policies
    }

    fn is_sampled(&self, hash: u64) -> bool {
        is_sampled(hash, self.limit())
    }

    /// A read; what the tier held then, or `None` for a miss.
    pub(super) fn read(&mut self, hash: u64, held: Option<Held>, now: Millis) {
        if !self.is_sampled(hash) {
            return;
        }
        self.slots.begin(now);
        self.worked += 1;
        let stands_for = (1u64 << self.shift) as f64;
        self.counts.reads += stands_for;
        let number = match (self.slots.find(hash), held) {
            (Some(number), _) => number,
            (None, Some(held)) => self.add(hash, held),
            (None, None) => return,
        };
        let ticks = self.slots.ticks(now);
        let mut hits_all = true;
        for size in 0..SIZES {
            let is_hit = self.policies[size].read(&mut self.slots, number, ticks);
            self.counts.policy_hits[size] += if is_hit { stands_for } else { 0.0 };
            let is_lru_hit = self.lru.read(&mut self.slots, size, number, ticks);
            self.counts.lru_hits[size] += if is_lru_hit { stands_for } else { 0.0 };
            hits_all &= is_hit && is_lru_hit;
        }
        let slot = self.slots.get_mut(number);
        slot.is_missed = held.is_none();
        self.lru.touch(&mut self.slots, number);
        if let Some(held) = held {
            self.reweigh(number, held.weight);
            if !hits_all {
                let lasts = self.slots.get(number).lasts;
                let end = self.slots.end(lasts, now).or_else(|| self.slots.end(held.lasts, now));
                self.insert(number, end, now);
            }
        }
        self.slots.free_unheld(number);
        self.bound_keys();
    }

    /// The tier has stored a key: fetched after a miss, renewed, or written.
    pub(super) fn stored(&mut self, hash: u64, held: Held, now: Millis) {
        if !self.is_sampled(hash) {
            return;
        }
        self.slots.begin(now);
        self.worked += STORE_WORK;
        let number = self.slots.find(hash).unwrap_or_else(|| self.add(hash, held));
        let slot = self.slots.get_mut(number);
        slot.lasts = held.lasts;
        // A size that holds the key would not have fetched it, and its client would not have stored it.
        let follows_miss = std::mem::take(&mut slot.is_missed);
        self.reweigh(number, held.weight);
        let Some(end) = self.slots.end(held.lasts, now) else { return self.remove(number) };
        if !follows_miss {
            for size in 0..SIZES {
                if self.policies[size].holds(&self.slots, number) {
                    self.policies[size].renew(&mut self.slots, number, end);
                }
                self.lru.renew(&mut self.slots, size, number, end);
            }
        }
        if !follows_miss {
            self.lru.touch(&mut self.slots, number);
        }
        self.insert(number, Some(end), now);
        self.slots.free_unheld(number);
        self.bound_keys();
    }

    fn add(&mut self, hash: u64, held: Held) -> u32 {
        self.lru.reserve(self.slots.len() + 1);
        self.slots.add(hash, held)
    }

    /// Puts a key into the sizes that do not hold it.
    fn insert(&mut self, number: u32, end: Option<u32>, now: Millis) {
        let Some(end) = end else { return };
        let ticks = self.slots.ticks(now);
        self.worked += STORE_WORK;
        for size in 0..SIZES {
            if !self.policies[size].holds(&self.slots, number) {
                self.policies[size].insert(&mut self.slots, number, end, ticks);
            }
            if !self.slots.get(number).is_in_lru(size) {
                self.lru.insert(&mut self.slots, (size, self.bounds[size]), number, end);
            }
        }
    }

    fn reweigh(&mut self, number: u32, weight: usize) {
        let before = std::mem::replace(&mut self.slots.get_mut(number).weight, weight);
        if before != weight {
            for size in 0..SIZES {
                self.policies[size].reweigh(&self.slots, number, before);
                self.lru.reweigh(&self.slots, size, number, before);
            }
        }
    }

    /// A key was deleted or invalidated.
    pub(super) fn removed(&mut self, hash: u64) {
        if self.is_sampled(hash)
            && let Some(number) = self.slots.find(hash)
        {
            self.worked += 1;
            self.remove(number);
        }
    }

    fn remove(&mut self, number: u32) {
        for size in 0..SIZES {
            self.policies[size].remove(&mut self.slots, number);
            if self.slots.get(number).is_in_lru(size) {
                self.lru.remove(&mut self.slots, size, number);
            }
        }
        self.slots.free_unheld(number);
    }

    /// Everything was removed. The counts stay.
    pub(super) fn clear(&mut self) {
        let Simulation { worked, counts, most_keys, eviction, .. } = *self;
        *self = Simulation { worked, counts, ..Simulation::new(self.shift, eviction, most_keys, self.bounds) };
    }

    fn bound_keys(&mut self) {
        let most_keys = self.most_keys_now();
        // The sizes forget least when they have not evicted yet, and those of the policy and of LRU will
        // soon not hold the same keys.
        let is_crowded = self.slots.len() > most_keys / 2 && self.policies[SIZES - 1].has_just_filled();
        if is_crowded {
            self.sample_fewer();
        }
        while self.slots.len() >= most_keys {
            self.sample_fewer();
        }
    }

    /// Sampled keys, at most, of a tier that is as full as this one is. A tier that holds a tenth of
    /// what it can hold needs a tenth of the keys for the share that it will have when it is full.
    /// So the memory of the simulation follows that of the entries.
    fn most_keys_now(&self) -> usize {
        let keys = self.most_keys as f64 * self.policies[OWN].fullness();
        (keys as usize).clamp(FEWEST_KEYS, self.most_keys)
    }

    /// From now on half as many keys are sampled.
    fn sample_fewer(&mut self) {
        self.shift += 1;
        let limit = self.limit();
        let dropped: Vec<u32> = self.slots.numbers(|hash| !is_sampled(hash, limit)).collect();
        dropped.into_iter().for_each(|number| self.remove(number));
        let half = |Bounds { bytes, keys }: Bounds| Bounds { bytes: bytes / 2, keys: keys / 2 };
        self.set_bounds(self.bounds.map(half));
    }

    /// The tier has so many bytes now.
    pub(super) fn set_max_bytes(&mut self, max_bytes: usize) {
        self.most_keys = most_keys(max_bytes);
        self.bound_keys();
    }

    pub(super) fn set_bounds(&mut self, bounds: [Bounds; SIZES]) {
        self.bounds = bounds;
        self.policies.iter_mut().zip(bounds).for_each(|(policy, bounds)| policy.set_bounds(bounds));
    }

    /// Makes every size fit its bounds. Not left to the next key that is stored: after the tier's
    /// bound was lowered it would have to evict all that is above it.
    pub(super) fn fit(&mut self, now: Millis) {
        let ticks = self.slots.ticks(now);
        for size in 0..SIZES {
            self.policies[size].make_room(&mut self.slots, NONE, ticks);
            self.lru.make_room(&mut self.slots, size, self.bounds[size]);
        }
    }

    /// Samples fewer keys if there was too much work for so many reads of the tier, and removes
    /// some of what has ended.
    pub(super) fn tick(&mut self, reads: u64, now: Millis) {
        if self.worked > FREE_WORK + reads / WORK_SHARE {
            // Begins again with what is done at the new share.
            self.worked = FREE_WORK * 7 / 8 + reads / WORK_SHARE;
            self.sample_fewer();
        }
        let ticks = self.slots.ticks(now);
        let all = self.slots.slots.len();
        let part = (all / SWEEPS + 1).min(all);
        for _ in 0..part {
            self.swept = if self.swept + 1 < all { self.swept + 1 } else { 0 };
            let number = self.swept as u32;
            for size in 0..SIZES {
                let slot = self.slots.get(number);
                if slot.is_in_lru(size) && slot.lru_ends[size] <= ticks {
                    self.lru.remove(&mut self.slots, size, number);
                }
                let place = self.slots.get(number).policy[size];
                if place.queue.is_some() && place.end <= ticks {
                    self.policies[size].remove(&mut self.slots, number);
                }
            }
            self.slots.free_unheld(number);
        }
    }
}

/// Sampled keys, at most, of a full tier of so many bytes: the simulation of a small tier must not take
/// more memory than the tier.
pub(super) fn most_keys(max_bytes: usize) -> usize {
    (max_bytes / BYTES_OF_KEY).clamp(FEWEST_KEYS, MOST_KEYS)
}
