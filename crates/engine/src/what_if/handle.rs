//! The simulation as the shards of a cache share it.

use super::{
    curve::{self, FACTORS, TierReads, WhatIf, WhatIfPoint},
    simulation::{Simulation, most_keys},
    slots::Held,
};
use crate::{
    policy::Eviction,
    stats::Stats,
    sync::{Mutex, lock, try_lock},
    time::Millis,
};

/// The counts are halved this often, ms, so that the curve is about the last hours.
const PERIOD: u64 = 60 * 60 * 1000;

/// So many hits cost as much as a miss with its fetch, at least.
const MISS_WORK: f64 = 8.0;

/// See the module. The lock is the innermost: it is taken under that of a shard.
#[derive(Debug)]
pub(crate) struct Simulated {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    simulation: Simulation,
    /// What the tier had counted at the last tick.
    counted: TierReads,
    /// What the tier has counted, halved with the simulation's counts.
    tier: TierReads,
    /// Not halved.
    all_reads: u64,
    began: Option<Millis>,
    halved: Millis,
}

/// How much is simulated.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WhatIfSample {
    /// The share of the keys that are simulated.
    pub share: f64,
    /// How many keys these are now.
    pub keys: u64,
    /// Memory of the simulation, which is not part of the cache's bound.
    pub bytes: u64,
}

/// What the simulation has to know of its cache.
pub(crate) struct CacheSizes<'c> {
    pub(crate) stats: &'c Stats,
    pub(crate) max_keys: Option<usize>,
    /// Shards of a cache of so many bytes, and the bytes of one that holds nothing.
    pub(crate) shards: &'c dyn Fn(usize) -> (usize, usize),
}

impl Simulated {
    /// At most one key in 2 to the power `shift` is sampled.
    pub(crate) fn new(shift: u32, eviction: Eviction, sizes: &CacheSizes<'_>) -> Simulated {
        let shift = shift.min(63);
        let bounds = curve::bounds(sizes.stats, sizes.max_keys, sizes.shards, 1.0 / (1u64 << shift) as f64);
        let state = State {
            simulation: Simulation::new(shift, eviction, most_keys(sizes.stats.max_bytes as usize), bounds),
            counted: TierReads::default(),
            tier: TierReads::default(),
            all_reads: 0,
            began: None,
            halved: 0,
        };
        Simulated { state: Mutex::new(state) }
    }

    /// A key is sampled if its hash is, by this limit ([`is_sampled`](super::is_sampled)).
    pub(crate) fn limit(&self) -> u64 {
        lock(&self.state).simulation.limit()
    }

    pub(crate) fn read(&self, hash: u64, held: Option<Held>, now: Millis) {
        // If another core simulates at this moment, the other reads stand for this one.
        if let Some(mut state) = try_lock(&self.state) {
            state.simulation.read(hash, held, now);
        }
    }

    pub(crate) fn stored(&self, hash: u64, held: Held, now: Millis) {
        if let Some(mut state) = try_lock(&self.state) {
            state.simulation.stored(hash, held, now);
        }
    }

    /// A key was deleted or invalidated.
    pub(crate) fn removed(&self, hash: u64) {
        if let Some(mut state) = try_lock(&self.state) {
            state.simulation.removed(hash);
        }
    }

    pub(crate) fn clear(&self) {
        lock(&self.state).simulation.clear();
    }

    /// Keeps bounds, sample and counts up. Gives the limit for [`is_sampled`](super::is_sampled).
    pub(crate) fn tick(&self, sizes: &CacheSizes<'_>, now: Millis) -> u64 {
        let mut state = lock(&self.state);
        state.tick(sizes, now);
        state.simulation.limit()
    }

    pub(crate) fn sample(&self) -> WhatIfSample {
        lock(&self.state).sample()
    }

    pub(crate) fn report(&self, sizes: &CacheSizes<'_>, now: Millis) -> WhatIf {
        let mut state = lock(&self.state);
        state.tick(sizes, now);
        let (policy, lru) = curve::hit_ratios(&state.simulation.counts, state.tier, state.simulation.share());
        let point = |at: usize| WhatIfPoint {
            factor: FACTORS[at],
            max_memory: (sizes.stats.max_bytes as f64 * FACTORS[at]) as u64,
            max_keys: sizes.max_keys.map(|keys| (keys as f64 * FACTORS[at]) as u64),
            hit_ratio: policy[at],
            lru_hit_ratio: lru[at],
        };
        let WhatIfSample { share, keys, bytes } = state.sample();
        WhatIf {
            reads: state.tier.reads as u64,
            hit_ratio: state.tier.hits / state.tier.reads.max(1.0),
            span: state.began.map_or(0, |began| now.saturating_sub(began)),
            sampled_share: share,
            sampled_keys: keys,
            bytes,
            points: std::array::from_fn(point),
        }
    }
}

impl State {
    fn sample(&self) -> WhatIfSample {
        let simulation = &self.simulation;
        let bytes = size_of::<Simulated>() + simulation.bytes();
        WhatIfSample { share: simulation.share(), keys: simulation.keys() as u64, bytes: bytes as u64 }
    }

    fn tick(&mut self, sizes: &CacheSizes<'_>, now: Millis) {
        let counted = TierReads::of(sizes.stats);
        // The counters may have been reset.
        let before = if counted.reads < self.counted.reads { TierReads::default() } else { self.counted };
        let reads = counted.reads - before.reads;
        self.tier.reads += reads;
        self.tier.hits += (counted.hits - before.hits).max(0.0);
        self.counted = counted;
        let misses = reads - (counted.hits - before.hits).max(0.0);
        self.all_reads += (reads + MISS_WORK * misses) as u64;
        if self.tier.reads > 0.0 && self.began.is_none() {
            (self.began, self.halved) = (Some(now), now);
        }
        while self.began.is_some() && now.saturating_sub(self.halved) >= PERIOD {
            self.halved += PERIOD;
            self.simulation.counts.scale(0.5);
            self.tier.reads /= 2.0;
            self.tier.hits /= 2.0;
        }
        self.simulation.set_max_bytes(sizes.stats.max_bytes as usize);
        self.simulation.tick(self.all_reads, now);
        let share = self.simulation.share();
        self.simulation.set_bounds(curve::bounds(sizes.stats, sizes.max_keys, sizes.shards, share));
        self.simulation.fit(now);
    }
}
