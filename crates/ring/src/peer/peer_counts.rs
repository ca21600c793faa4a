//! What one core counts of a group whose keys have owners.
use super::transport::PeerAnswer;
use larder_base::telemetry::{Counter, SharedGroupSnapshot};
use larder_engine::{Cache, Millis};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Moments at which hot copies end are told apart as finely as this part of their longest life.
const STEPS: u64 = 32;

/// What one core counts of a group whose keys have owners. That core alone writes; any thread
/// reads. The fields are those of [`SharedGroupSnapshot`].
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct PeerCounts {
    pub(super) fetches: Counter,
    pub(super) loads: Counter,
    pub(super) errors: Counter,
    pub(super) fallbacks: Counter,
    pub(super) passed_on: Counter,
    pub(super) requests: Counter,
    pub(super) other_rings: Counter,
    pub(super) removal_requests: Counter,
    pub(super) removed_keys: Counter,
    slowest: AtomicU64,
    hot_copies_kept: Counter,
    /// Number and bytes of hot copies by when they end.
    hot_copies: Mutex<BTreeMap<Millis, (u64, u64)>>,
}

impl PeerCounts {
    /// Another node took so long.
    pub(super) fn took(&self, time: Duration) {
        self.slowest.fetch_max(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Another node answered.
    pub(super) fn answered(&self, answer: &PeerAnswer) {
        match answer {
            PeerAnswer::Failed(_) => self.errors.add(1),
            PeerAnswer::Found { .. } | PeerAnswer::Absent => self.loads.add(1),
        }
    }

    /// The tier has just been given a copy of another node's key, and may have kept it.
    pub(super) fn look_for_copy(&self, cache: &Cache, key: &[u8], longest: u64, now: Millis) {
        let kept = cache.tier().peek(cache.key(key), now, |entry| {
            (entry.key.len() + entry.value.as_bytes().len(), entry.expiry().unwrap_or(now + longest))
        });
        if let Some((bytes, end)) = kept {
            self.kept(bytes, end.min(now + longest), longest, now);
        }
    }

    /// A copy of another node's key is kept until `end`, at most `longest` ms from now.
    fn kept(&self, bytes: usize, end: Millis, longest: u64, now: Millis) {
        self.hot_copies_kept.add(1);
        let step = (longest / STEPS).max(1);
        let mut copies = self.hot_copies.lock();
        while copies.first_key_value().is_some_and(|(end, _)| *end <= now) {
            copies.pop_first();
        }
        let (count, sum) = copies.entry(end.div_ceil(step).saturating_mul(step)).or_default();
        *count += 1;
        *sum += bytes as u64;
    }

    /// Adds these counts to others.
    pub(super) fn add_to(&self, sums: &mut SharedGroupSnapshot, now: Millis) {
        sums.fetches += self.fetches.get();
        sums.loads += self.loads.get();
        sums.errors += self.errors.get();
        sums.fallbacks += self.fallbacks.get();
        sums.passed_on += self.passed_on.get();
        sums.requests += self.requests.get();
        sums.other_rings += self.other_rings.get();
        sums.removal_requests += self.removal_requests.get();
        sums.removed_keys += self.removed_keys.get();
        sums.slowest = sums.slowest.max(self.slowest.load(Relaxed));
        sums.hot_copies_kept += self.hot_copies_kept.get();
        for (count, bytes) in self.hot_copies.lock().range(now + 1..).map(|(_, copies)| copies) {
            sums.hot_copies += count;
            sums.hot_copy_bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_copies_count_until_they_end() {
        let counts = PeerCounts::default();
        let seen = |now| {
            let mut sums = SharedGroupSnapshot::default();
            counts.add_to(&mut sums, now);
            (sums.hot_copies_kept, sums.hot_copies, sums.hot_copy_bytes)
        };
        counts.kept(10, 2_000, 1_000, 1_000);
        counts.kept(20, 1_500, 1_000, 1_000);
        assert_eq!(seen(1_000), (2, 2, 30));
        assert_eq!(seen(1_600), (2, 1, 10));
        counts.kept(1, 2_500, 1_000, 2_100);
        assert_eq!(seen(2_100), (3, 1, 1));
        for end in 2_600..9_000 {
            counts.kept(1, end, 1_000, end - 900);
        }
        assert!(counts.hot_copies.lock().len() < 40, "whatever the number of copies");
    }
}
