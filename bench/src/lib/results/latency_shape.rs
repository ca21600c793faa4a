//! The shape of a run's latencies: the percentile table of HdrHistogram and wrk2, and the bars of
//! hey.
use super::summary::{RunSummary, ms};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// A row of the percentile table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct PercentileRow {
    /// This share of the requests took at most `value_ms`; 1 in the last row.
    pub(crate) percentile: f64,
    pub(crate) value_ms: f64,
    /// How many requests that were.
    pub(crate) count: u64,
}

/// The rows of a histogram of nanoseconds: five to each halving of the share that is left, as wrk2
/// has them.
pub(crate) fn percentile_rows(histogram: &Histogram<u64>) -> Vec<PercentileRow> {
    const TICKS_PER_HALVING: u32 = 5;
    let mut count = 0;
    let rows = histogram.iter_quantiles(TICKS_PER_HALVING).map(|row| {
        count += row.count_since_last_iteration();
        let value_ms = ms(row.value_iterated_to() as f64);
        PercentileRow { percentile: row.quantile_iterated_to(), value_ms, count }
    });
    rows.collect()
}

/// Writes the table in the form that HdrHistogram's tools and its plotter read.
pub(crate) fn write_percentiles(out: &mut dyn Write, run: &RunSummary) -> io::Result<()> {
    writeln!(out, "\nlatency in ms, from the intended start")?;
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    for PercentileRow { percentile, value_ms, count } in &run.percentiles {
        match 1.0 - percentile {
            left if left > 0.0 => {
                writeln!(out, "{value_ms:>12.3} {percentile:>14.12} {count:>10} {:>14.2}", 1.0 / left)?;
            }
            _ => writeln!(out, "{value_ms:>12.3} {percentile:>14.12} {count:>10} {:>14}", "inf")?,
        }
    }
    let times = &run.latency_ms;
    let count = run.percentiles.last().map_or(0, |row| row.count);
    writeln!(out, "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]", times.mean, times.stddev)?;
    writeln!(out, "#[Max     = {:>12.3}, Total count    = {count:>12}]", times.max)
}

/// Numbers of requests in ten equal steps from the fastest to the slowest: up to which time (ms),
/// how many. The first row has those as fast as the fastest.
pub(crate) fn bars(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    const STEPS: u64 = 10;
    if histogram.is_empty() {
        return Vec::new();
    }
    let (fastest, slowest) = (histogram.min(), histogram.max());
    let upper = |step: u64| fastest + (slowest - fastest) * step / STEPS;
    let mut counts = [0; STEPS as usize + 1];
    for row in histogram.iter_recorded() {
        let value = histogram.lowest_equivalent(row.value_iterated_to());
        let step = (0..STEPS).find(|&step| value <= upper(step)).unwrap_or(STEPS);
        counts[step as usize] += row.count_at_value();
    }
    (0..).zip(counts).map(|(step, count)| (ms(upper(step) as f64), count)).collect()
}

/// Writes the summary in the form of hey; times in milliseconds.
pub(crate) fn write_summary(out: &mut dyn Write, run: &RunSummary) -> io::Result<()> {
    const WIDTH: u64 = 40;
    let times = &run.latency_ms;
    writeln!(out, "\nsummary of {}", run.name)?;
    let line =
        |out: &mut dyn Write, name: &str, value: f64, unit: &str| writeln!(out, "  {name:<13}{value:>12.3} {unit}");
    line(out, "total", run.duration_s, "s")?;
    line(out, "slowest", times.max, "ms")?;
    line(out, "fastest", times.min, "ms")?;
    line(out, "average", times.mean, "ms")?;
    line(out, "requests/s", run.throughput, "")?;
    let each = |bytes: u64| bytes as f64 / run.requests.max(1) as f64;
    line(out, "bytes/reply", each(run.bytes_in), "with heads")?;
    writeln!(out, "\nlatency histogram, ms")?;
    let most = run.bars.iter().map(|bar| bar.1).max().unwrap_or(0).max(1);
    for (upper, count) in &run.bars {
        let bar = "■".repeat((count * WIDTH).div_ceil(most) as usize);
        writeln!(out, "  {upper:>10.3} [{count:>9}] |{bar}")?;
    }
    writeln!(out, "\nlatency distribution")?;
    let shares = [
        (10, times.p10),
        (25, times.p25),
        (50, times.p50),
        (75, times.p75),
        (90, times.p90),
        (95, times.p95),
        (99, times.p99),
    ];
    for (share, time) in shares {
        writeln!(out, "  {share} % in {time:>12.3} ms")?;
    }
    writeln!(out, "\nreplies")?;
    for (kind, count) in &run.replies {
        writeln!(out, "  [{kind}] {count}")?;
    }
    let errors = || run.errors.iter().filter(|(_, count)| **count > 0);
    if errors().next().is_some() {
        writeln!(out, "\nerrors")?;
    }
    for (kind, count) in errors() {
        writeln!(out, "  [{kind}] {count}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lib::{load::measure, results::page::tests::example};

    /// 1 to 1000 ms, each once.
    fn thousand() -> Histogram<u64> {
        let mut histogram = measure::histogram(3);
        (1..=1000).for_each(|value| histogram.saturating_record(value * 1_000_000));
        histogram
    }

    fn text(write: impl Fn(&mut dyn Write, &RunSummary) -> io::Result<()>, run: &RunSummary) -> String {
        let mut out = Vec::new();
        write(&mut out, run).expect("a vector accepts writes");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_percentile_table_counts_every_request() {
        let rows = percentile_rows(&thousand());
        for row in &rows {
            // As many requests as the percentile says took at most that long.
            assert!((row.value_ms - row.count as f64).abs() <= 1.0, "{row:?}");
            assert!(row.count as f64 >= row.percentile * 1000.0 - 1e-6, "{row:?}");
        }
        let last = rows.last().expect("rows");
        assert_eq!((last.percentile, last.count), (1.0, 1000));
        let half = rows.iter().find(|row| row.percentile == 0.5).expect("a row for the median");
        assert!((499..=501).contains(&half.count), "{half:?}");
        let run = RunSummary { percentiles: rows, ..example() };
        let table = text(write_percentiles, &run);
        assert!(table.contains("0.500000000000") && table.contains("2.00"), "{table}");
        assert!(table.contains("1.000000000000       1000            inf"), "{table}");
        assert!(table.contains("#[Max ") && table.contains("Total count    =         1000]"), "{table}");
    }

    #[test]
    fn bars_hold_every_request_once() {
        let bars = bars(&thousand());
        assert_eq!(bars.len(), 11);
        assert_eq!(bars.iter().map(|bar| bar.1).sum::<u64>(), 1000);
        assert_eq!(bars[0].1, 1);
        assert!(bars[1..].iter().all(|bar| (95..=105).contains(&bar.1)), "{bars:?}");
        assert!(super::bars(&measure::histogram(3)).is_empty());
        let mut one = measure::histogram(3);
        one.saturating_record_n(5_000_000, 7);
        assert_eq!(super::bars(&one)[0].1, 7);
    }

    #[test]
    fn the_summary_has_kinds_of_replies_and_errors() {
        let run = RunSummary {
            bars: vec![(0.5, 1), (1.0, 4), (1.5, 0)],
            replies: [("200".to_owned(), 90), ("503".to_owned(), 10)].into(),
            errors: [("http_5xx".to_owned(), 10), ("timeout".to_owned(), 0)].into(),
            ..example()
        };
        let summary = text(write_summary, &run);
        for part in ["fastest", "slowest", "average", "10 % in", "99 % in", "[200] 90", "[503] 10", "[http_5xx] 10"] {
            assert!(summary.contains(part), "{part}: {summary}");
        }
        assert!(!summary.contains("timeout"), "{summary}");
        let bars: Vec<usize> =
            summary.lines().filter(|line| line.contains('|')).map(|line| line.matches('■').count()).collect();
        assert_eq!(bars, [10, 40, 0]);
    }
}
