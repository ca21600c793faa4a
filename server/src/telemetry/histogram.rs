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
        self.record_with(duration, Counter::add);
    }
    /// Counts one duration from any thread.
    pub fn record_shared(&self, duration: Duration) {
        self.record_with(duration, Counter::add_shared);
    }
    #[inline]
    fn record_with(&self, duration: Duration, add: impl Fn(&Counter, u64)) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket(duration)) {
            add(bucket, 1);
        }
        add(&self.count, 1);
        add(&self.micros, micros);
    }
}

/// The bucket whose end is the first that is not shorter (Prometheus: `le`, less or equal).
fn bucket(duration: Duration) -> usize {
    // Rounded up to whole microseconds: 16.5 µs is more than 16.
    let micros = duration.as_nanos().div_ceil(1000).min(u64::MAX.into()) as u64;
    let power = u64::BITS - micros.saturating_sub(1).leading_zeros();
    power.saturating_sub(FIRST) as usize
}

/// The end of a bucket in seconds.
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
    /// Adds a histogram.
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += bucket.get();
        }
        self.count += histogram.count.get();
        self.micros += histogram.micros.get();
    }
    /// The buckets' ends in seconds with the number of durations up to each.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.buckets.iter().enumerate().scan(0, |sum, (index, n)| {
            *sum += n;
            Some((bucket_end(index), *sum))
        })
    }
    /// What they took together, in seconds.
    pub fn seconds(&self) -> f64 {
        self.micros as f64 / 1e6
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
    fn sums_of_two_threads() {
        let (one, two) = (Histogram::default(), Histogram::default());
        one.record(Duration::from_micros(10));
        one.record(Duration::from_millis(1));
        two.record_shared(Duration::from_secs(100));
        let mut sum = Distribution::default();
        sum.add(&one);
        sum.add(&two);
        assert_eq!((sum.count, sum.seconds()), (3, 100.00101));
        let cumulative: Vec<_> = sum.cumulative().collect();
        assert_eq!(cumulative[0], (0.000016, 1));
        assert_eq!(cumulative[6], (0.001024, 2));
        assert_eq!(cumulative[BUCKETS - 1], (67.108864, 2), "what is longer is in no bucket");
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
