//! Durations in buckets that double: 16 µs to 67 s.
use super::thread_counter::Counter;
use std::time::Duration;

/// The smallest bucket ends at 2 to this power, in microseconds.
const FIRST: u32 = 4;
/// Buckets with an end; what is longer counts in the total alone.
pub(super) const BUCKETS: usize = 23;

/// How long things took. One thread writes, any thread reads.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    count: Counter,
    micros: Counter,
}

impl Histogram {
    /// Counts one duration; only the histogram's own thread may.
    #[inline]
    pub fn record(&self, duration: Duration) {
        self.record_with(1, duration, Counter::add);
    }
    /// Counts one duration from any thread.
    pub fn record_shared(&self, duration: Duration) {
        self.record_all_shared(1, duration);
    }
    /// Counts so many of the same duration from any thread.
    pub fn record_all_shared(&self, count: u64, duration: Duration) {
        self.record_with(count, duration, Counter::add_shared);
    }
    #[inline]
    fn record_with(&self, count: u64, duration: Duration, add: impl Fn(&Counter, u64)) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket(duration)) {
            add(bucket, count);
        }
        add(&self.count, count);
        add(&self.micros, micros.saturating_mul(count));
    }
}

/// The bucket whose end is the first that is not shorter (Prometheus: `le`, less or equal).
fn bucket(duration: Duration) -> usize {
    // Rounded up to whole microseconds: 16.5 µs is more than 16.
    let micros = duration.as_nanos().div_ceil(1000).min(u64::MAX.into()) as u64;
    let power = u64::BITS - micros.saturating_sub(1).leading_zeros();
    power.saturating_sub(FIRST) as usize
}

pub(super) fn bucket_end(index: usize) -> f64 {
    (1u64 << (FIRST as usize + index)) as f64 / 1e6
}

/// The sum of several histograms at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many fell into each bucket alone.
    pub buckets: [u64; BUCKETS],
    /// How many there were.
    pub count: u64,
    /// What they took together.
    pub micros: u64,
}
impl Distribution {
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += bucket.get();
        }
        self.count += histogram.count.get();
        self.micros += histogram.micros.get();
    }
    /// Adds another distribution.
    pub fn merge(&mut self, other: &Distribution) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, bucket)| *sum += bucket);
        self.count += other.count;
        self.micros += other.micros;
    }
    /// The buckets' ends in seconds with the number of durations up to each.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.buckets.iter().enumerate().scan(0, |sum, (index, n)| {
            *sum += n;
            Some((bucket_end(index), *sum))
        })
    }
    /// What metrics show.
    pub fn sample(&self) -> HistogramSample {
        HistogramSample { buckets: self.cumulative().collect(), count: self.count, seconds: self.seconds() }
    }
    /// What they took together, in seconds.
    pub fn seconds(&self) -> f64 {
        self.micros as f64 / 1e6
    }
}

/// A histogram as metrics show it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistogramSample {
    /// The buckets' ends in seconds with the number of durations up to each.
    pub buckets: Vec<(f64, u64)>,
    /// How many there were; those in no bucket were longer.
    pub count: u64,
    /// What they took together.
    pub seconds: f64,
}
impl HistogramSample {
    /// The seconds that this share of all does not exceed, estimated like Prometheus's
    /// `histogram_quantile`: a bucket's durations are spread evenly over it. `None`: there are none.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = self.count as f64 * share;
        let mut before = (0.0, 0);
        for &(end, count) in &self.buckets {
            if count as f64 >= rank && count > before.1 {
                let part = (rank - before.1 as f64) / (count - before.1) as f64;
                return Some(before.0 + (end - before.0) * part);
            }
            before = (end, count);
        }
        (self.count > 0).then_some(before.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_belong_to_their_bucket() {
        let micros = Duration::from_micros;
        for (duration, index) in [
            (micros(0), 0),
            (micros(1), 0),
            (micros(16), 0),
            (Duration::from_nanos(16_001), 1),
            (micros(17), 1),
            (micros(32), 1),
            (micros(33), 2),
            (micros(1 << 26), 22),
            (micros((1 << 26) + 1), 23),
            (Duration::MAX, 60),
        ] {
            assert_eq!(bucket(duration), index, "{duration:?}");
        }
        assert_eq!(bucket_end(0), 0.000016);
        assert_eq!(bucket_end(BUCKETS - 1), 67.108864);
    }

    #[test]
    fn quantiles_within_a_bucket() {
        let mut sample = HistogramSample { buckets: vec![(0.1, 0), (0.2, 50), (0.4, 90)], count: 100, seconds: 20.0 };
        let near = |share: f64, expected: f64| {
            let found = sample.quantile(share).unwrap_or(f64::NAN);
            assert!((found - expected).abs() < 1e-9, "{share}: {found}");
        };
        near(0.25, 0.15);
        near(0.5, 0.2);
        near(0.7, 0.3);
        near(0.99, 0.4);
        sample.count = 0;
        sample.buckets.iter_mut().for_each(|bucket| bucket.1 = 0);
        assert_eq!(sample.quantile(0.5), None);
    }

    #[test]
    fn sums_of_two_threads() {
        let (one, two) = (Histogram::default(), Histogram::default());
        one.record(Duration::from_micros(10));
        one.record(Duration::from_millis(1));
        two.record_shared(Duration::from_secs(100));
        two.record_all_shared(3, Duration::from_secs(1));
        let mut sum = Distribution::default();
        sum.add(&one);
        sum.add(&two);
        assert_eq!((sum.count, sum.seconds()), (6, 103.00101));
        let cumulative: Vec<_> = sum.cumulative().collect();
        assert_eq!(cumulative[0], (0.000016, 1));
        assert_eq!(cumulative[6], (0.001024, 2));
        assert_eq!(cumulative[BUCKETS - 1], (67.108864, 5), "what is longer is in no bucket");
    }

    proptest! {
        #[test]
        fn a_bucket_holds_what_is_not_longer_than_its_end(nanos in 0..60_000_000_000u64) {
            let duration = Duration::from_nanos(nanos);
            let index = bucket(duration);
            prop_assert!(duration.as_secs_f64() <= bucket_end(index));
            prop_assert!(index == 0 || duration.as_secs_f64() > bucket_end(index - 1));
        }
    }
}
