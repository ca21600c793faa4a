//! What happened when: percentiles and rates by phase, and as charts over time.
use super::clients::{KeyKind, ReadResult};
use crate::lib::results::{chart::Axis, chart_file::file};
use serde::Serialize;
use std::time::Duration;

/// The three phases of a run, by their lengths.
#[derive(Debug, Clone, Copy)]
pub(super) struct PhaseLengths {
    pub(super) calm: Duration,
    pub(super) incident: Duration,
    pub(super) recovery: Duration,
}
impl PhaseLengths {
    pub(super) fn total(self) -> Duration {
        self.calm + self.incident + self.recovery
    }
    fn bounds(self) -> [(Duration, Duration); 3] {
        let end = self.calm + self.incident;
        [(Duration::ZERO, self.calm), (self.calm, end), (end, self.total())]
    }
}

/// A run.
pub(super) struct Timeline {
    pub(super) phases: PhaseLengths,
    pub(super) results: Vec<ReadResult>,
    /// Requests that the source had received by each of these times.
    pub(super) source: Vec<(Duration, u64)>,
}

/// A number for each phase.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct ByPhase {
    pub(super) calm: f64,
    pub(super) incident: f64,
    pub(super) recovery: f64,
}

/// The figures of a run.
#[derive(Debug, Serialize)]
pub(super) struct OutageRow {
    program: &'static str,
    scenario: &'static str,
    server: &'static str,
    incident_seconds: f64,
    /// Latency of the keys that stay cached.
    pub(super) hits_p99_ms: ByPhase,
    hits_p99_ratio: f64,
    hits_failed: u64,
    /// Values per second, of keys that need the source now and then.
    goodput: ByPhase,
    asked: ByPhase,
    source_requests: ByPhase,
}

impl Timeline {
    pub(super) fn row(&self, scenario: &'static str, server: &'static str) -> OutageRow {
        let by_phase = |of: &dyn Fn(Duration, Duration) -> f64| {
            let [calm, incident, recovery] = self.phases.bounds().map(|(from, to)| of(from, to));
            ByPhase { calm, incident, recovery }
        };
        let hits = by_phase(&|from, to| self.hits_p99(from, to));
        OutageRow {
            program: "outages",
            scenario,
            server,
            incident_seconds: self.phases.incident.as_secs_f64(),
            hits_p99_ratio: hits.incident / hits.calm,
            hits_p99_ms: hits,
            hits_failed: self.results.iter().filter(|read| read.kind == KeyKind::Hot && !read.found).count() as u64,
            goodput: by_phase(&|from, to| self.rate(from, to, |read| read.kind != KeyKind::Hot && read.found)),
            asked: by_phase(&|from, to| self.rate(from, to, |read| read.kind != KeyKind::Hot)),
            source_requests: by_phase(&|from, to| self.source_rate(from, to)),
        }
    }
    /// The p99 of hits that began in this time, ms. A read without a value counts with the time
    /// that it took.
    fn hits_p99(&self, from: Duration, to: Duration) -> f64 {
        let hits = self.results.iter().filter(|read| read.kind == KeyKind::Hot && (from..to).contains(&read.at));
        let mut latencies: Vec<Duration> = hits.map(|read| read.latency).collect();
        latencies.sort_unstable();
        let at = (latencies.len() * 99 / 100).min(latencies.len().saturating_sub(1));
        latencies.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
    }
    /// Reads per second that ended in this time.
    fn rate(&self, from: Duration, to: Duration, which: impl Fn(&ReadResult) -> bool) -> f64 {
        let ended = |read: &&ReadResult| (from..to).contains(&(read.at + read.latency));
        self.results.iter().filter(ended).filter(|read| which(read)).count() as f64 / (to - from).as_secs_f64()
    }
    fn source_rate(&self, from: Duration, to: Duration) -> f64 {
        let mut inside = self.source.iter().filter(|(at, _)| (from..=to).contains(at));
        let (Some(first), Some(last)) = (inside.next(), inside.next_back()) else { return 0.0 };
        last.1.saturating_sub(first.1) as f64 / (last.0 - first.0).as_secs_f64()
    }
}

/// The charts of a scenario: a name for the file, and the picture.
pub(super) fn charts(title: &str, timelines: &[(&str, Timeline)], origin: &str) -> Vec<(&'static str, String)> {
    let Some((_, first)) = timelines.first() else { return Vec::new() };
    let total = first.phases.total();
    let tick = (total / 60).max(Duration::from_millis(500));
    let times: Vec<Duration> = (0..).map(|n| tick * n).take_while(|at| *at + tick <= total).collect();
    let x = Axis::linear(total.as_secs_f64(), "seconds");
    let [_, (begin, end), _] = first.phases.bounds();
    let title =
        |what: &str| format!("{what}: {title}, from {:.0} s to {:.0} s", begin.as_secs_f64(), end.as_secs_f64());
    let points = |of: &dyn Fn(&Timeline, Duration, Duration) -> f64| {
        let line = |timeline: &Timeline| {
            let point = |at: &Duration| (at.as_secs_f64(), of(timeline, *at, *at + tick));
            times.iter().map(point).filter(|(_, value)| value.is_finite()).collect::<Vec<_>>()
        };
        timelines.iter().map(|(name, timeline)| (*name, line(timeline))).collect::<Vec<_>>()
    };
    let all = |lines: &[(&str, Vec<(f64, f64)>)]| -> Vec<f64> {
        lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1)).collect()
    };
    let most = |lines: &[(&str, Vec<(f64, f64)>)]| all(lines).into_iter().fold(0.0, f64::max);
    let draw = |what: &str, y: &Axis, lines: Vec<(&str, Vec<(f64, f64)>)>| {
        file(&title(what), &x, y, lines.into_iter().map(Into::into).collect(), origin)
    };
    let mut charts = Vec::new();
    let hits = points(&|timeline, from, to| timeline.hits_p99(from, to));
    let y = Axis::log(all(&hits).into_iter().fold(f64::INFINITY, f64::min), most(&hits), "p99 of hits, ms");
    charts.push(("hits", draw("Hits", &y, hits)));
    let goodput = points(&|timeline, from, to| timeline.rate(from, to, |read| read.kind != KeyKind::Hot && read.found));
    let y = Axis::linear(most(&goodput), "values per second, keys that need the source");
    charts.push(("goodput", draw("Goodput", &y, goodput)));
    if !first.source.is_empty() {
        let load = points(&|timeline, from, to| timeline.source_rate(from, to));
        let y = Axis::linear(most(&load), "requests per second at the source");
        charts.push(("source", draw("Source load", &y, load)));
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_phase() {
        let second = Duration::from_secs;
        let phases = PhaseLengths { calm: second(2), incident: second(2), recovery: second(2) };
        let read = |kind, at: u64, latency: u64, found| ReadResult {
            kind,
            at: Duration::from_millis(at),
            latency: Duration::from_millis(latency),
            found,
        };
        let mut results: Vec<ReadResult> = (0..200).map(|at| read(KeyKind::Hot, 10 * at, 1, true)).collect();
        results.extend((200..400).map(|at| read(KeyKind::Hot, 10 * at, 2, true)));
        results.extend([read(KeyKind::Cold, 100, 10, true), read(KeyKind::Warm, 100, 10, true)]);
        results.extend([read(KeyKind::Cold, 2100, 10, false), read(KeyKind::Cold, 1995, 10, true)]);
        let source = (0..=60).map(|n| (Duration::from_millis(100 * n), n * n)).collect();
        let timeline = Timeline { phases, results, source };
        let row = timeline.row("slow", "Larder");
        assert_eq!((row.hits_p99_ms.calm, row.hits_p99_ms.incident, row.hits_p99_ratio), (1.0, 2.0, 2.0));
        assert_eq!((row.goodput.calm, row.goodput.incident, row.asked.incident), (1.0, 0.5, 1.0));
        assert_eq!((row.source_requests.calm, row.source_requests.incident), (200.0, 600.0));
        let names: Vec<&str> = charts("t", &[("Larder", timeline)], "then").iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["hits", "goodput", "source"]);
    }
}
