//! The page of one run or several: `--report FILE.html`, `larder-bench report`. Self-contained: no
//! script, no network.
#[cfg(test)]
pub(crate) mod tests;

use super::{
    chart::{self, Axis, ChartLine, HeatCell, Repeated, colour, escape, plain},
    origin,
};
use crate::lib::{
    machine::Host,
    results::summary::{Moment, RunSummary, Times},
};
use anyhow::{Context, ensure};
use std::{collections::BTreeMap, fmt::Write, path::Path};

/// A saved result: the last line of a file.
pub(crate) fn read(file: &Path) -> anyhow::Result<RunSummary> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let line = text.lines().rfind(|line| !line.trim().is_empty());
    let line = line.with_context(|| format!("{} is empty", file.display()))?;
    serde_json::from_str(line).with_context(|| format!("{} holds no result of a run", file.display()))
}

/// Writes the page of these runs.
pub(crate) fn write(file: &Path, runs: &[RunSummary]) -> anyhow::Result<()> {
    ensure!(!runs.is_empty(), "there is no run to show");
    std::fs::write(file, html(runs)).with_context(|| format!("cannot write {}", file.display()))
}

const STYLE: &str = "
body { margin: 0 auto; max-width: 1240px; padding: 24px; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; } h2 { font-size: 18px; margin: 32px 0 4px; } p { margin: 4px 0 12px; color: var(--faint); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: 4px 6px; text-align: right; border-bottom: 1px solid var(--grid); } .setting td { text-align: left; white-space: normal; min-width: 110px; vertical-align: top; } .setting td:last-child { min-width: 260px; } .setting code { overflow-wrap: anywhere; }
.words { white-space: normal; min-width: 130px; text-align: left; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 120px; }
.swatch { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 6px; } .bad { color: var(--bad); font-weight: 600; }
.legend span { margin-right: 18px; white-space: nowrap; }
";

fn html(runs: &[RunSummary]) -> String {
    let title = match runs {
        [run] => format!("larder-bench: {}", run.name),
        _ => format!("larder-bench: {} runs", runs.len()),
    };
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{0}</title><style>{1}{STYLE}</style><h1>{0}</h1>",
        escape(&title),
        chart::STYLE
    );
    let name = |run: &RunSummary| match run.client_saturated {
        true => format!("{} <span class=\"bad\">generator was the bottleneck</span>", escape(&run.name)),
        false => escape(&run.name),
    };
    let swatch = |number| format!("<i class=\"swatch\" style=\"background:{}\"></i>", colour(number));
    let numbers = name_numbers(runs);
    let marked: Vec<_> = runs.iter().zip(&numbers).map(|(run, number)| (swatch(*number), name(run))).collect();
    figures(&mut out, runs, &marked);
    let named: Vec<_> = runs.iter().zip(&numbers).map(|(run, number)| (swatch(*number), escape(&run.name))).collect();
    out.push_str("<h2>Latency by percentile</h2><p>Solid: from the intended start (schedule to finish). Dashed: service time (write to finish). Where they part, \
                  requests waited for the server before they could be sent.</p>");
    legend(&mut out, &named);
    out.push_str(&percentiles(runs));
    if runs.len() > 1 {
        out.push_str(
            "<h2>Each run</h2><p>A point for each run; runs of one name share a column, with their range and their median.</p>",
        );
        out.push_str(&each_run("Throughput of each run", "replies per second", runs, |run| run.throughput));
        out.push_str(&each_run("p99 of each run", "p99 of the latency, ms", runs, |run| run.latency_ms.p99));
    }
    out.push_str("<h2>Throughput over time</h2><p>Replies per second. Dashed: the rate asked for.</p>");
    legend(&mut out, &named);
    out.push_str(&throughput(runs));
    for (number, (run, of)) in typical(runs).into_iter().enumerate() {
        let (swatch, name) = (swatch(number), escape(&run.name));
        let which = if of > 1 { format!(" The run with the median throughput, of {of} runs.") } else { String::new() };
        let _ = write!(
            out,
            "<h2>{swatch}Latency over time: {name}</h2><p>By the time of the reply; the darker, the more requests (by logarithm: a single one is seen).{which}</p>{}",
            heat(run)
        );
    }
    setting(&mut out, runs, &named);
    out.push_str("</html>\n");
    out
}

/// The runs of each name, in the order of the names' first runs.
pub(crate) fn by_name(runs: &[RunSummary]) -> Vec<(&str, Vec<&RunSummary>)> {
    let mut names: Vec<(&str, Vec<&RunSummary>)> = Vec::new();
    for run in runs {
        match names.iter_mut().find(|(name, _)| *name == run.name) {
            Some((_, of)) => of.push(run),
            None => names.push((&run.name, vec![run])),
        }
    }
    names
}

/// For each run the number of its name: runs of one name share a colour.
fn name_numbers(runs: &[RunSummary]) -> Vec<usize> {
    let names = by_name(runs);
    runs.iter().map(|run| names.iter().position(|(name, _)| *name == run.name).unwrap_or(0)).collect()
}

/// For each name the run with the median throughput, and how many runs have the name.
fn typical<'r>(runs: &'r [RunSummary]) -> Vec<(&'r RunSummary, usize)> {
    let by_throughput = |mut of: Vec<&'r RunSummary>| {
        of.sort_by(|one, two| one.throughput.total_cmp(&two.throughput));
        (of[(of.len() - 1) / 2], of.len())
    };
    by_name(runs).into_iter().map(|(_, of)| by_throughput(of)).collect()
}

/// A figure of all runs, by name.
fn each_run(title: &str, label: &'static str, runs: &[RunSummary], figure: impl Fn(&RunSummary) -> f64) -> String {
    let figures = |of: Vec<&RunSummary>| of.into_iter().map(&figure).collect();
    let columns: Vec<Repeated> = by_name(runs).into_iter().map(|(name, of)| (name, figures(of))).collect();
    let most = columns.iter().flat_map(|(_, figures)| figures).copied().fold(0.0, f64::max);
    chart::points(title, &Axis::linear(most * 1.05, label), &columns)
}

/// When, where and how each run was measured.
fn setting(out: &mut String, runs: &[RunSummary], named: &[(String, String)]) {
    out.push_str("<h2>How it was measured</h2><div class=\"scroll\"><table class=\"setting\"><tr><th>run<th>date<th>server<th>generator<th>host<th>command line</tr>");
    for (run, (swatch, name)) in runs.iter().zip(named) {
        let Host { cpu, cores, kernel, memory_gib } = &run.host;
        let host = match cpu.is_empty() {
            true => "unknown".to_owned(),
            false => format!("{cpu}, {cores} cores, {memory_gib:.1} GiB, Linux {kernel}"),
        };
        let server = run.server_version.as_deref().unwrap_or("does not say");
        let mut load = run.concurrency();
        if let Some(think) = &run.think_time {
            let _ = write!(load, ", users think for {think}");
        }
        if run.delay_ms > 0.0 {
            let _ = write!(load, ", round trip of {} ms added", run.delay_ms);
        }
        let _ = write!(
            out,
            "<tr><td>{swatch}{name}<td>{}<td>{}<td>larder-bench {}: {load}<td>{}<td><code>{}</code></tr>",
            origin::utc(run.started_unix_s),
            escape(server),
            escape(&run.version),
            escape(&host),
            escape(&run.command)
        );
    }
    out.push_str("</table></div>");
}

/// Each name once.
fn legend(out: &mut String, named: &[(String, String)]) {
    let new = named.iter().enumerate().filter(|(at, entry)| !named[..*at].contains(entry));
    let spans: Vec<String> = new.map(|(_, (swatch, name))| format!("<span>{swatch}{name}</span>")).collect();
    let _ = write!(out, "<p class=\"legend\">{}</p>", spans.join(" "));
}

/// The table.
fn figures(out: &mut String, runs: &[RunSummary], named: &[(String, String)]) {
    out.push_str("<div class=\"scroll\"><table><tr><th>run<th>asked /s<th>throughput /s<th>requests<th>errors<th>hit ratio<th>keys found<th>ms<th>p50<th>p90<th>p99<th>p99.9<th>p99.99<th>max<th>mean<th>bottleneck</tr>");
    for (run, (swatch, name)) in runs.iter().zip(named) {
        let errors: Vec<String> =
            run.errors.iter().filter(|(_, count)| **count > 0).map(|(kind, count)| format!("{count} {kind}")).collect();
        let errors = if errors.is_empty() {
            "0".to_owned()
        } else {
            format!("<span class=\"bad\">{}</span>", errors.join(", "))
        };
        let asked = run.target_rate.map_or("closed loop".to_owned(), |rate| format!("{rate}"));
        let percent = |ratio: f64| format!("{:.2} %", 100.0 * ratio);
        let hits = run.hit_ratio().map_or("unknown".to_owned(), percent);
        let found = run.found_ratio().map_or(String::new(), percent);
        let times = |times: &Times| {
            let Times { p50, p90, p99, p999, p9999, max, mean, .. } = times;
            [p50, p90, p99, p999, p9999, max, mean].map(|time| format!("<td>{time:.3}")).concat()
        };
        let _ = write!(
            out,
            "<tr><td>{swatch}{name}<td>{asked}<td>{:.1}<td>{}<td>{errors}<td>{hits}<td>{found}<td>latency{}<td class=\"words\" rowspan=\"2\">{}</tr><tr><td><td><td><td><td><td><td><td>service{}</tr>",
            run.throughput,
            run.requests,
            times(&run.latency_ms),
            bottleneck(run),
            times(&run.service_ms)
        );
    }
    out.push_str("</table></div>");
}

/// Which side had no time left, and how busy both were.
fn bottleneck(run: &RunSummary) -> String {
    let mut text = format!("{}; busy: generator {:.0} %", run.bottleneck(), 100.0 * run.client.busy);
    if let Some(server) = &run.server {
        let _ = write!(text, ", server {:.0} %", 100.0 * server.busy);
    }
    text
}

fn percentiles(runs: &[RunSummary]) -> String {
    /// How much is left above a share, the other way round: 0 % is 1, 99 % is 100.
    fn rarity(share: f64) -> f64 {
        1.0 / (1.0 - share).max(1e-9)
    }
    let points = || runs.iter().flat_map(|run| &run.curve);
    let lowest = points().flat_map(|&(_, latency, service)| [latency, service]).fold(f64::INFINITY, f64::min);
    let highest = points().map(|&(_, latency, service)| latency.max(service)).fold(0.0, f64::max);
    let rarest = points().map(|&(share, ..)| rarity(share)).fold(10.0, f64::max);
    let mut x = Axis::log(1.0, rarest, "percentile");
    x.high = rarest;
    let names = [
        (0.0, "0"),
        (0.5, "50"),
        (0.9, "90"),
        (0.99, "99"),
        (0.999, "99.9"),
        (0.9999, "99.99"),
        (0.99999, "99.999"),
        (0.999_999, "99.9999"),
    ];
    x.ticks = names.map(|(share, name)| (rarity(share), name.to_owned())).to_vec();
    x.ticks.retain(|&(at, _)| at <= x.high * 1.01);
    let y = Axis::log(lowest, highest, "ms");
    let mut lines = Vec::new();
    for (run, number) in runs.iter().zip(name_numbers(runs)) {
        let mut line = |what, p99, points| {
            let title = format!("{}: {what}, p99 {} ms", run.name, plain(p99));
            lines.push(ChartLine {
                points,
                ranges: Vec::new(),
                colour: colour(number),
                dashed: what == "service",
                title,
            });
        };
        let of = |time: fn(f64, f64) -> f64| {
            run.curve.iter().map(|&(share, latency, service)| (rarity(share), time(latency, service))).collect()
        };
        line("latency", run.latency_ms.p99, of(|latency, _| latency));
        line("service", run.service_ms.p99, of(|_, service| service));
    }
    chart::lines("Latency by percentile", &x, &y, &lines)
}

fn throughput(runs: &[RunSummary]) -> String {
    let end = runs.iter().map(|run| run.duration_s).fold(0.0, f64::max);
    let mut lines = Vec::new();
    for (run, number) in runs.iter().zip(name_numbers(runs)) {
        // The last slice is cut off where the run ended.
        let span = |moment: &Moment| (run.duration_s - moment.t).clamp(run.interval_s / 1e3, run.interval_s);
        let whole = run.series.iter().filter(|moment| span(moment) > run.interval_s * 0.5);
        let points =
            whole.map(|moment| (moment.t + span(moment) / 2.0, moment.requests as f64 / span(moment))).collect();
        lines.push(ChartLine {
            points,
            ranges: Vec::new(),
            colour: colour(number),
            dashed: false,
            title: run.name.clone(),
        });
        if let Some(rate) = run.target_rate {
            let title = format!("{}: asked for", run.name);
            lines.push(ChartLine {
                points: vec![(0.0, rate), (run.duration_s, rate)],
                ranges: Vec::new(),
                colour: colour(number),
                dashed: true,
                title,
            });
        }
    }
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    chart::lines("Throughput over time", &seconds(end), &Axis::linear(most * 1.05, "replies per second"), &lines)
}

fn seconds(end: f64) -> Axis {
    let mut axis = Axis::linear(end, "seconds");
    axis.high = end.max(1e-3);
    axis.ticks.retain(|&(at, _)| at <= end);
    axis
}

fn heat(run: &RunSummary) -> String {
    /// More columns than this are joined.
    const COLUMNS: usize = 200;
    let joined = run.series.len().div_ceil(COLUMNS).max(1);
    let lower = |step: i32| 2f64.powf(f64::from(step) / 4.0) / 1e3;
    let mut cells = Vec::new();
    for column in run.series.chunks(joined) {
        let Some((first, last)) = column.first().zip(column.last()) else { continue };
        let mut counts = BTreeMap::new();
        for &(step, count) in column.iter().flat_map(|moment| &moment.heat) {
            *counts.entry(step).or_insert(0) += count;
        }
        for (step, count) in counts {
            let (low, high) = (lower(step), lower(step + 1));
            let title = format!("{:.1} s, {} to {} ms: {count}", first.t, plain(low), plain(high));
            cells.push(HeatCell { x: (first.t, last.t + run.interval_s), y: (low, high), count, title });
        }
    }
    let low = cells.iter().map(|cell| cell.y.0).fold(f64::INFINITY, f64::min);
    let high = cells.iter().map(|cell| cell.y.1).fold(0.0, f64::max);
    chart::heat("Latency over time", &seconds(run.duration_s), &Axis::log(low, high, "ms"), &cells)
}
