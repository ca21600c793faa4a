//! The curve: what each size would have answered of the tier's reads.

use super::{policy_sizes::Bounds, simulation::Counts, slots::SIZES};
use crate::stats::Stats;

/// The sizes, in parts of the tier's bound.
pub(super) const FACTORS: [f64; SIZES] = [0.5, 1.0, 1.5, 2.0, 4.0, 8.0];
/// The place of the tier's own size among them.
pub(super) const OWN: usize = 1;
/// Bytes that an entry costs beside its record while that is not known from the tier itself: its
/// places in index and ghost.
const BESIDE: f64 = 14.0;
/// Share of the segments that is in use, while it is not known.
const IN_USE: f64 = 0.93;

/// What the tier's hit ratio would be at other sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIf {
    /// Reads of the tier that this is about.
    pub reads: u64,
    /// The tier's own hit ratio for these reads.
    pub hit_ratio: f64,
    /// How long ago the first of them was, ms; older ones count for less.
    pub span: u64,
    /// The share of the keys that are simulated.
    pub sampled_share: f64,
    /// Keys that are simulated now.
    pub sampled_keys: u64,
    /// Bytes that the simulation takes, beside the tier's bound.
    pub bytes: u64,
    /// The sizes, smallest first.
    pub points: [WhatIfPoint; SIZES],
}

/// One size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WhatIfPoint {
    /// Its bounds are those of the tier times this.
    pub factor: f64,
    /// Bound on bytes.
    pub max_memory: u64,
    /// Bound on keys.
    pub max_keys: Option<u64>,
    /// Share of the reads that would be hits.
    pub hit_ratio: f64,
    /// Like `hit_ratio`, if the least recently used entry left for each new one.
    pub lru_hit_ratio: f64,
}

impl WhatIf {
    /// The least size with this hit ratio, in parts of the tier's bound, between the smallest and
    /// the largest that are simulated; `None`: the largest has less.
    pub fn factor_for(&self, hit_ratio: f64) -> Option<f64> {
        let mut before: Option<&WhatIfPoint> = None;
        for point in &self.points {
            if point.hit_ratio >= hit_ratio {
                // Between two sizes, as if the ratio rose evenly.
                return Some(before.map_or(point.factor, |before| {
                    let part = (hit_ratio - before.hit_ratio) / (point.hit_ratio - before.hit_ratio);
                    before.factor + part * (point.factor - before.factor)
                }));
            }
            before = Some(point);
        }
        None
    }
}

/// Reads and hits of the tier itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct TierReads {
    pub(super) reads: f64,
    pub(super) hits: f64,
}

impl TierReads {
    /// Of entries and remembered absences; replies that were made from values are not simulated.
    pub(super) fn of(stats: &Stats) -> TierReads {
        let hits = (stats.hits + stats.negative_hits).saturating_sub(stats.derived_hits) as f64;
        let misses = stats.misses.saturating_sub(stats.miss_causes.reply) as f64;
        TierReads { reads: hits + misses, hits }
    }
}

/// The hit ratios under the policy and under LRU. `share` is that of the keys that are sampled.
///
/// The sample has too few or too many of the keys that are read most, which are hits at all sizes.
/// So the misses of all sizes are too many or too few in the same proportion, and what the tier
/// itself counted at its own size says in which. The more keys are sampled, the less of a difference
/// is the sample's.
pub(super) fn hit_ratios(counts: &Counts, tier: TierReads, share: f64) -> ([f64; SIZES], [f64; SIZES]) {
    let miss_ratio = |hits: f64| 1.0 - hits / counts.reads.max(1.0);
    let simulated = miss_ratio(counts.policy_hits[OWN]);
    let counted = 1.0 - tier.hits / tier.reads.max(1.0);
    let scale = if simulated > 0.0 { 1.0 + (counted / simulated - 1.0) * (1.0 - share * share) } else { 1.0 };
    let corrected = |hits: f64| (1.0 - scale * miss_ratio(hits)).clamp(0.0, 1.0);
    let mut policy = counts.policy_hits.map(corrected);
    if tier.reads > 0.0 {
        policy[OWN] = 1.0 - counted;
    }
    (rising(policy), rising(counts.lru_hits.map(corrected)))
}

/// A larger size answers as much as a smaller one, or more.
fn rising(mut ratios: [f64; SIZES]) -> [f64; SIZES] {
    for at in (0..OWN).rev() {
        ratios[at] = ratios[at].min(ratios[at + 1]);
    }
    for at in OWN + 1..SIZES {
        ratios[at] = ratios[at].max(ratios[at - 1]);
    }
    ratios
}

/// What each size can hold of the sampled keys: `shards` says how many shards a tier of so many
/// bytes has, and how many bytes one takes that holds nothing.
pub(super) fn bounds(
    stats: &Stats,
    max_keys: Option<usize>,
    shards: impl Fn(usize) -> (usize, usize),
    share: f64,
) -> [Bounds; SIZES] {
    let max_memory = stats.max_bytes as f64;
    let fixed = |bytes: f64| {
        let (shards, empty) = shards(bytes as usize);
        (shards * empty) as f64
    };
    let records = (stats.used_bytes as f64 - fixed(max_memory)).max(0.0);
    // As soon as there is enough in the tier, its own account says what an entry costs.
    let in_records = if records > (max_memory - fixed(max_memory)) / 4.0 {
        stats.live_bytes as f64 / records
    } else {
        let entries = (stats.entries + stats.negative_entries).max(1) as f64;
        let mean = stats.live_bytes as f64 / entries;
        mean.max(1.0) / (mean.max(1.0) / IN_USE + BESIDE)
    };
    FACTORS.map(|factor| {
        let bytes = factor * max_memory;
        let keys = max_keys.map_or(usize::MAX, |keys| (keys as f64 * factor * share).round() as usize);
        Bounds { bytes: ((bytes - fixed(bytes)).max(0.0) * in_records * share) as usize, keys }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_found_between_the_points() {
        let point =
            |factor, hit_ratio| WhatIfPoint { factor, max_memory: 0, max_keys: None, hit_ratio, lru_hit_ratio: 0.0 };
        let ratios = [0.25, 0.5, 0.5, 0.75, 0.75, 1.0];
        let points = std::array::from_fn(|at| point(FACTORS[at], ratios[at]));
        let what_if =
            WhatIf { reads: 1, hit_ratio: 0.6, span: 0, sampled_share: 1.0, sampled_keys: 1, bytes: 1, points };
        let found = [0.1, 0.5, 0.625, 0.875, 1.0].map(|ratio| what_if.factor_for(ratio));
        assert_eq!(found, [0.5, 1.0, 1.75, 6.0, 8.0].map(Some));
    }

    #[test]
    fn the_tiers_own_count_corrects_the_others() {
        let policy_hits = [40.0, 50.0, 60.0, 70.0, 80.0, 100.0];
        let counts = Counts { reads: 100.0, policy_hits, lru_hits: [0.0; SIZES] };
        let (policy, lru) = hit_ratios(&counts, TierReads { reads: 200.0, hits: 120.0 }, 0.0);
        let expected = [0.52, 0.6, 0.68, 0.76, 0.84, 1.0];
        assert!(policy.iter().zip(expected).all(|(is, should)| (is - should).abs() < 1e-9), "{policy:?}");
        assert!(lru.iter().all(|is| (is - 0.2).abs() < 1e-9), "{lru:?}");
        // With all keys there is nothing to correct but the tier's own size.
        let (policy, _) = hit_ratios(&counts, TierReads { reads: 200.0, hits: 130.0 }, 1.0);
        let expected = [0.4, 0.65, 0.65, 0.7, 0.8, 1.0];
        assert!(policy.iter().zip(expected).all(|(is, should)| (is - should).abs() < 1e-9), "{policy:?}");
    }
}
