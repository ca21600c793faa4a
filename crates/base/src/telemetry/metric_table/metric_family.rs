//! A row of the table of metrics, and where its numbers go.
use crate::telemetry::{
    histogram::{Distribution, HistogramSample},
    metrics_snapshot::Snapshot,
};

/// A metric: a name and a number for each set of labels.
#[derive(Debug)]
pub struct MetricFamily {
    /// Its name in `/metrics`. In `/v1/stats` it goes by [`MetricFamily::key`].
    pub name: &'static str,
    /// What kind of number.
    pub kind: MetricKind,
    /// One sentence.
    pub help: &'static str,
    /// Reads the numbers.
    pub read: fn(&Snapshot, &mut dyn MetricSink),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations in buckets.
    Histogram,
    /// Always 1; what it says is in its labels.
    Info,
}

/// Names and values; `group` is the only label that `/v1/stats` turns inside out.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// Where the numbers of a family go.
pub trait MetricSink {
    /// A whole number.
    fn number(&mut self, labels: Labels<'_>, value: u64);
    /// A part of 1.
    fn ratio(&mut self, labels: Labels<'_>, value: f64) {
        self.seconds(labels, value);
    }
    /// A number of seconds.
    fn seconds(&mut self, labels: Labels<'_>, value: f64);
    /// Durations.
    fn histogram(&mut self, labels: Labels<'_>, value: &HistogramSample);
    /// Like `histogram`, for a distribution.
    fn distribution(&mut self, labels: Labels<'_>, value: &Distribution) {
        self.histogram(labels, &value.sample());
    }
}

impl MetricFamily {
    /// The name without the prefix of the program and the suffix of counters: `redis_commands`.
    pub fn key(&self) -> &'static str {
        let name = self.name.strip_prefix("larder_").unwrap_or(self.name);
        name.strip_suffix("_total").unwrap_or(name)
    }
}
