//! Inspection: a sampled share of hits is compared with the source a moment later (`inspect`). What
//! is sampled, and its outcome.
use larder_base::telemetry::Histogram;
use larder_engine::{Cache, Millis};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// Most comparisons that a core has under way.
const MAX_RUNNING: usize = 4;
/// No hit is sampled for this time after the source failed, ms.
const PAUSE: u64 = 1_000;
/// A share is counted in millionths.
const WHOLE: u32 = 1_000_000;

/// The sampling of one core.
#[derive(Debug)]
pub struct Inspection {
    share: u32,
    /// Fetches go through it, so that they change nothing in the tier and share no flight with
    /// readers.
    pub scratch: Arc<Cache>,
    running: AtomicUsize,
    paused_until: AtomicU64,
    counts: Arc<InspectionCounts>,
}

/// What became of the sampled hits of a group.
#[derive(Debug, Default)]
pub struct InspectionCounts {
    compared: AtomicU64,
    older: AtomicU64,
    forgotten: AtomicU64,
    skipped: AtomicU64,
    ages: Histogram,
}

/// The end of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspected {
    /// The source has the same value.
    Same,
    /// The source has another value, or none. The copy had been kept for this time when it was
    /// served.
    Older(Duration),
    /// The tier had forgotten or replaced the copy meanwhile.
    Forgotten,
    /// The source did not answer.
    Skipped,
}

impl Inspection {
    /// The sampling of this share of hits, in millionths.
    pub fn new(share: u32, scratch: Arc<Cache>, counts: Arc<InspectionCounts>) -> Inspection {
        Inspection { share, scratch, running: AtomicUsize::new(0), paused_until: AtomicU64::new(0), counts }
    }
    /// Whether this hit must be compared. If so, the caller ends with [`ended`](Inspection::ended)
    /// or [`dropped`](Inspection::dropped).
    pub fn samples(&self, now: Millis) -> bool {
        let chosen = fastrand::u32(..WHOLE) < self.share;
        if !chosen || now < self.paused_until.load(Relaxed) || self.running.load(Relaxed) >= MAX_RUNNING {
            return false;
        }
        self.running.fetch_add(1, Relaxed);
        true
    }
    /// The read that was chosen was no hit.
    pub fn dropped(&self) {
        self.running.fetch_sub(1, Relaxed);
    }
    /// Counts the end of a comparison.
    pub fn ended(&self, inspected: Inspected, now: Millis) {
        self.dropped();
        let InspectionCounts { compared, older, forgotten, skipped, ages } = &*self.counts;
        match inspected {
            Inspected::Same => {
                compared.fetch_add(1, Relaxed);
            }
            Inspected::Older(age) => {
                compared.fetch_add(1, Relaxed);
                older.fetch_add(1, Relaxed);
                ages.record_shared(age);
            }
            Inspected::Forgotten => {
                forgotten.fetch_add(1, Relaxed);
            }
            Inspected::Skipped => {
                skipped.fetch_add(1, Relaxed);
                self.paused_until.store(now.saturating_add(PAUSE), Relaxed);
            }
        }
    }
}

impl InspectionCounts {
    /// Compared, older, forgotten and skipped.
    pub fn numbers(&self) -> [u64; 4] {
        [&self.compared, &self.older, &self.forgotten, &self.skipped].map(|count| count.load(Relaxed))
    }
    /// How long the older ones had been kept.
    pub fn ages(&self) -> &Histogram {
        &self.ages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_engine::Config;

    #[test]
    fn few_at_a_time_and_none_after_a_failure() {
        let inspection = Inspection::new(WHOLE, Cache::new(Config::default()).scratch(), Arc::default());
        let sampled = |now| (0..10).filter(|_| inspection.samples(now)).count();
        assert_eq!(sampled(0), MAX_RUNNING);
        inspection.ended(Inspected::Same, 0);
        assert_eq!(sampled(0), 1);
        inspection.ended(Inspected::Skipped, 5);
        assert_eq!((sampled(5), sampled(5 + PAUSE)), (0, 1));
        assert_eq!(inspection.counts.numbers(), [1, 0, 0, 1]);
        let never = Inspection::new(0, inspection.scratch.clone(), Arc::default());
        assert!((0..100).all(|_| !never.samples(0)));
    }
}
