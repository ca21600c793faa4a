//! Durations in narrow buckets, from which quantiles are read.
//!
//! Each power of two of nanoseconds has eight buckets, so a quantile is at most an eighth above the
//! true one: HdrHistogram's layout with one significant digit (<https://hdrhistogram.org>).
use super::{histogram::HistogramSample, thread_counter::Counter};
use std::time::Duration;

/// Buckets for each power of two: 2 to this power.
const PARTS: u32 = 3;
/// What is shorter than 2^7 ns counts as 2^7 ns.
const FIRST: u32 = 7;
/// What lasts 2^37 ns (137 s) or longer is in the last bucket.
const END: u32 = 37;
const BUCKETS: usize = ((END - FIRST) << PARTS) as usize;

/// How long things took. One thread writes, any thread reads.
#[derive(Debug)]
pub(super) struct FineHistogram([Counter; BUCKETS]);

impl Default for FineHistogram {
    fn default() -> Self {
        FineHistogram(std::array::from_fn(|_| Counter::default()))
    }
}

impl FineHistogram {
    /// Counts this many durations of the same length. Only the histogram's own thread may.
    #[inline]
    pub(super) fn record(&self, nanos: u64, times: u64) {
        self.0[bucket(nanos)].add(times);
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let nanos = nanos.clamp(1 << FIRST, (1 << END) - 1);
    let power = nanos.ilog2();
    let part = (nanos >> (power - PARTS)) & ((1 << PARTS) - 1);
    ((power - FIRST) << PARTS) as usize + part as usize
}

/// The longest duration in a bucket, nanoseconds.
fn longest(bucket: usize) -> u64 {
    let (power, part) = (FIRST + (bucket >> PARTS) as u32, (bucket & ((1 << PARTS) - 1)) as u64);
    (1 << power) + ((part + 1) << (power - PARTS)) - 1
}

/// The sum of several histograms at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FineDistribution(Box<[u64; BUCKETS]>);

impl Default for FineDistribution {
    fn default() -> Self {
        FineDistribution(Box::new([0; BUCKETS]))
    }
}

impl FineDistribution {
    pub(super) fn add(&mut self, histogram: &FineHistogram) {
        self.0.iter_mut().zip(&histogram.0).for_each(|(sum, bucket)| *sum += bucket.get());
    }
    /// Adds another distribution.
    pub fn merge(&mut self, other: &FineDistribution) {
        self.0.iter_mut().zip(&*other.0).for_each(|(sum, bucket)| *sum += bucket);
    }
    /// What was counted since `earlier`.
    pub(super) fn subtract(&mut self, earlier: &FineDistribution) {
        self.0.iter_mut().zip(&*earlier.0).for_each(|(sum, bucket)| *sum = sum.saturating_sub(*bucket));
    }
    /// What metrics show of durations that took `nanos` together: a bucket for each power of two of
    /// nanoseconds.
    pub(super) fn sample(&self, nanos: u64) -> HistogramSample {
        let buckets = self.powers().map(|(end, count)| (end.as_secs_f64(), count)).collect();
        HistogramSample { buckets, count: self.count(), seconds: nanos as f64 / 1e9 }
    }
    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }
    /// The duration that this share of all does not exceed; `None`: there are none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut sum = 0;
        let reached = self.0.iter().position(|bucket| {
            sum += bucket;
            sum >= rank
        });
        reached.filter(|_| count > 0).map(|at| Duration::from_nanos(longest(at)))
    }
    /// How many last less than each power of two of nanoseconds, from 2^10 (1 µs) to 2^37 (137 s).
    /// What is longer is in the last one.
    pub fn powers(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        (FIRST + 3..=END).map(|power| {
            let end = ((power - FIRST) << PARTS) as usize;
            (Duration::from_nanos(1 << power), self.0[..end].iter().sum())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_belong_to_their_bucket() {
        assert_eq!((bucket(0), bucket(128), bucket(143), bucket(144)), (0, 0, 0, 1));
        assert_eq!((bucket((1 << END) - 1), bucket(u64::MAX)), (BUCKETS - 1, BUCKETS - 1));
        for at in 0..BUCKETS {
            assert_eq!(bucket(longest(at)), at);
        }
    }

    #[test]
    fn quantiles_and_powers() {
        let histogram = FineHistogram::default();
        histogram.record(1_000, 98);
        histogram.record(1_000_000, 2);
        let mut sum = FineDistribution::default();
        assert_eq!(sum.quantile(0.5), None);
        sum.add(&histogram);
        assert_eq!(sum.count(), 100);
        assert_eq!(sum.quantile(0.5), Some(Duration::from_nanos(1_023)));
        assert_eq!(sum.quantile(0.98), Some(Duration::from_nanos(1_023)));
        assert_eq!(sum.quantile(0.99), Some(Duration::from_nanos(1_048_575)));
        let powers: Vec<_> = sum.powers().collect();
        assert_eq!(powers[0], (Duration::from_nanos(1 << 10), 98));
        assert_eq!(powers.last(), Some(&(Duration::from_nanos(1 << 37), 100)));
        let earlier = sum.clone();
        histogram.record(5_000, 1);
        let mut later = FineDistribution::default();
        later.add(&histogram);
        later.subtract(&earlier);
        assert_eq!((later.count(), later.quantile(1.0)), (1, Some(Duration::from_nanos(5_119))));
    }

    proptest! {
        #[test]
        fn a_bucket_is_at_most_an_eighth_wide(nanos in 128..(1u64 << 37)) {
            let end = longest(bucket(nanos));
            prop_assert!(nanos <= end && end - nanos <= nanos / 8, "{nanos} {end}");
        }
    }
}
