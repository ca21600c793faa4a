//! The result of a run as JSON: what `--json` prints, `--save` keeps and pages are made from.
use super::{
    latency_shape::{PercentileRow, bars, percentile_rows},
    origin,
    server_use::ServerUse,
};
use crate::lib::{
    figures::counted,
    load::{
        LoadPlan,
        measure::{ErrorKind, LoadOutcome, Slice},
    },
    machine::Host,
};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

/// Times in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    #[serde(default)]
    pub(crate) min: f64,
    #[serde(default)]
    pub(crate) p10: f64,
    #[serde(default)]
    pub(crate) p25: f64,
    pub(crate) p50: f64,
    #[serde(default)]
    pub(crate) p75: f64,
    pub(crate) p90: f64,
    #[serde(default)]
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) p9999: f64,
    pub(crate) p99999: f64,
    pub(crate) max: f64,
    pub(crate) mean: f64,
    #[serde(default)]
    pub(crate) stddev: f64,
}

pub(super) fn ms(nanoseconds: f64) -> f64 {
    nanoseconds.round() / 1e6
}

impl Times {
    /// Of a histogram of nanoseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Times {
        let at = |quantile| ms(histogram.value_at_quantile(quantile) as f64);
        Times {
            min: ms(histogram.min() as f64),
            p10: at(0.1),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            p99999: at(0.99999),
            max: ms(histogram.max() as f64),
            mean: ms(histogram.mean()),
            stddev: ms(histogram.stdev()),
        }
    }
}

/// The generator itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GeneratorUse {
    /// CPU time of its threads, and requests per second of that.
    pub(crate) cpu_s: f64,
    pub(crate) requests_per_cpu_s: f64,
    /// Share of the time that its busiest thread ran or waited for a core.
    pub(crate) busy: f64,
    /// How long after their time requests were noticed (open loop).
    pub(crate) lag_ms: Times,
}

/// A slice of time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// Its beginning, seconds since the end of the warm-up.
    pub(crate) t: f64,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// Numbers of requests by latency: (step, count); step s is a latency from 2^(s/4) to
    /// 2^((s+1)/4) µs.
    pub(crate) heat: Vec<(i32, u64)>,
}

/// See the module.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunSummary {
    pub(crate) program: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) started_unix_s: u64,
    pub(crate) url: String,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) pipeline: usize,
    /// The pipeline was sent and awaited together.
    #[serde(default)]
    pub(crate) batches: bool,
    pub(crate) requests: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) duration_s: f64,
    /// Absent (null) for a closed loop.
    pub(crate) target_rate: Option<f64>,
    pub(crate) throughput: f64,
    pub(crate) latency_ms: Times,
    pub(crate) service_ms: Times,
    pub(crate) client_saturated: bool,
    /// A signal ended it early.
    #[serde(default)]
    pub(crate) interrupted: bool,
    pub(crate) client: GeneratorUse,
    pub(crate) found: u64,
    pub(crate) missing: u64,
    /// Replies that a cache had, or had not: by its own word (`Cache-Status`), or by the count of its
    /// source.
    #[serde(default)]
    pub(crate) cache_hits: u64,
    #[serde(default)]
    pub(crate) cache_misses: u64,
    /// Replies by kind: by HTTP status, by type of a Redis reply, by first word of memcached's.
    #[serde(default)]
    pub(crate) replies: BTreeMap<String, u64>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) phases_ms: BTreeMap<String, Times>,
    /// (share of the requests, latency up to there, service time up to there)
    pub(crate) curve: Vec<(f64, f64, f64)>,
    /// Of the latency.
    #[serde(default)]
    pub(crate) percentiles: Vec<PercentileRow>,
    /// Of the latency: up to which time (ms), how many requests.
    #[serde(default)]
    pub(crate) bars: Vec<(f64, u64)>,
    pub(crate) interval_s: f64,
    pub(crate) series: Vec<Moment>,
    /// Each connection is a user who thinks for this long between requests.
    #[serde(default)]
    pub(crate) think_time: Option<String>,
    /// The modelled round trip, ms.
    #[serde(default)]
    pub(crate) delay_ms: f64,
    #[serde(default)]
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) host: Host,
    /// Name and version of the server, as it says itself.
    #[serde(default)]
    pub(crate) server_version: Option<String>,
    /// Known if the server's process was named.
    #[serde(default)]
    pub(crate) server: Option<ServerUse>,
}

/// Collects what a summary needs while a run goes on.
#[derive(Debug, Default)]
pub(crate) struct Series {
    moments: Vec<Moment>,
}

impl Series {
    /// Adds a slice of `length` seconds.
    pub(crate) fn add(&mut self, slice: &Slice, length: f64) {
        let mut heat = BTreeMap::new();
        for value in slice.latency.iter_recorded() {
            *heat.entry(heat_step(value.value_iterated_to())).or_insert(0) += value.count_at_value();
        }
        self.moments.push(Moment {
            t: (slice.index as f64 * length * 1e6).round() / 1e6,
            requests: slice.counts.requests,
            errors: slice.counts.all_errors(),
            p50: ms(slice.latency.value_at_quantile(0.5) as f64),
            p99: ms(slice.latency.value_at_quantile(0.99) as f64),
            max: ms(slice.latency.max() as f64),
            heat: heat.into_iter().collect(),
        });
    }
}

/// The step of a heat map that a latency (ns) falls into.
pub(crate) fn heat_step(nanoseconds: u64) -> i32 {
    ((nanoseconds.max(1) as f64 / 1e3).log2() * 4.0).floor() as i32
}

impl RunSummary {
    /// How many connections sent how many requests at a time.
    pub(crate) fn concurrency(&self) -> String {
        let &RunSummary { connections, pipeline, batches, threads, .. } = self;
        let batches = if batches { ", in batches" } else { "" };
        let (connections, threads) = (counted(connections, "connection"), counted(threads, "thread"));
        format!("{connections}, {pipeline} at a time{batches}, {threads}")
    }

    /// The summary of a run.
    pub(crate) fn new(
        program: &str,
        name: Option<&str>,
        plan: &LoadPlan,
        outcome: &LoadOutcome,
        series: Series,
    ) -> RunSummary {
        let counts = &outcome.total.counts;
        let cpu = outcome.own.cpu.as_secs_f64();
        let errors = ErrorKind::NAMES.iter().zip(counts.errors).map(|(name, count)| ((*name).to_owned(), count));
        let url = plan.target.to_string();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        RunSummary {
            program: program.to_owned(),
            name: name.unwrap_or(&url).to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_s: now.saturating_sub(outcome.duration.as_secs()),
            url,
            connections: plan.client.connections,
            threads: plan.client.threads,
            pipeline: plan.client.pipeline,
            batches: plan.client.batches,
            requests: counts.requests,
            errors: errors.collect(),
            duration_s: ms(outcome.duration.as_nanos() as f64) / 1e3,
            target_rate: plan.asked().map(rounded),
            throughput: rounded(outcome.throughput()),
            latency_ms: Times::of(&outcome.total.latency),
            service_ms: Times::of(&outcome.total.service),
            client_saturated: outcome.own.saturated(),
            interrupted: plan.interrupt.is_set(),
            client: GeneratorUse {
                cpu_s: rounded(cpu),
                requests_per_cpu_s: if cpu > 0.0 { (counts.requests as f64 / cpu).round() } else { 0.0 },
                busy: rounded(outcome.own.busy),
                lag_ms: Times::of(&outcome.own.lag),
            },
            found: counts.found,
            missing: counts.missing,
            cache_hits: counts.cache_hits,
            cache_misses: counts.cache_misses,
            replies: outcome.replies.iter().map(|(kind, count)| (kind.to_string(), count)).collect(),
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
            phases_ms: outcome.phases.named().map(|(name, times)| (name.to_owned(), Times::of(times))).into(),
            curve: curve(outcome),
            percentiles: percentile_rows(&outcome.total.latency),
            bars: bars(&outcome.total.latency),
            interval_s: plan.slice.as_secs_f64(),
            series: series.moments,
            think_time: plan.client.think_time.map(|think| think.to_string()),
            delay_ms: ms(plan.client.delay.as_nanos() as f64),
            command: origin::command_line(),
            // Not known outside Linux's usual /proc.
            host: Host::this().unwrap_or_default(),
            server_version: None,
            server: None,
        }
    }

    /// All errors.
    pub(crate) fn all_errors(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Share of the replies that a cache answered from what it had: by its own word
    /// (`Cache-Status`), or by the count of its source.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        share(self.cache_hits, self.cache_misses)
    }

    /// Share of the keys that were read and there.
    pub(crate) fn found_ratio(&self) -> Option<f64> {
        share(self.found, self.missing)
    }

    /// Which side had no time left.
    pub(crate) fn bottleneck(&self) -> &'static str {
        let busy = self.server.as_ref().is_some_and(|server| server.busy > ServerUse::BUSY);
        let kept = self.target_rate.is_some_and(|rate| self.throughput >= 0.99 * rate);
        match () {
            () if self.client_saturated => "generator",
            () if busy => "server",
            () if kept => "none: the rate was kept",
            () if self.think_time.is_some() => "none: users think",
            () if self.server.is_some() => "neither",
            () => "server or round trips",
        }
    }
}

fn share(part: u64, rest: u64) -> Option<f64> {
    (part + rest > 0).then(|| part as f64 / (part + rest) as f64)
}

/// Shares 0, then ever nearer to 1: 20 points to each factor of ten of what is left, up to the last
/// request.
fn curve(outcome: &LoadOutcome) -> Vec<(f64, f64, f64)> {
    let Slice { latency, service, .. } = &outcome.total;
    let left = |step: i32| 10f64.powf(-f64::from(step) / 20.0);
    (0..=120)
        .map(left)
        .take_while(|left| left * latency.len() as f64 >= 0.5)
        .map(|left| {
            let share = 1.0 - left;
            let at = |histogram: &Histogram<u64>| ms(histogram.value_at_quantile(share) as f64);
            ((share * 1e8).round() / 1e8, at(latency), at(service))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lib::load::measure;

    #[test]
    fn times_are_in_milliseconds() {
        let mut histogram = measure::histogram(3);
        (1..=1000).for_each(|value| histogram.saturating_record(value * 1_000_000));
        let times = Times::of(&histogram);
        let close = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.001;
        assert!(close(times.p50, 500.0) && close(times.p99, 990.0) && close(times.max, 1000.0), "{times:?}");
        assert!(close(times.mean, 500.5), "{times:?}");
    }

    #[test]
    fn heat_steps_are_quarters_of_a_doubling() {
        assert_eq!([1_000, 1_188, 1_190, 2_000, 500].map(heat_step), [0, 0, 1, 4, -4]);
    }
}
