//! The table of a form: a row for each load, the median of its runs and their range.
use crate::lib::{figures::median, results::summary::RunSummary};
use std::io::{self, Write};

/// Writes it, in Markdown.
pub(super) fn write(out: &mut dyn Write, runs: &[RunSummary]) -> io::Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        if !names.contains(&run.name.as_str()) {
            names.push(&run.name);
        }
    }
    if let Some(run) = runs.first() {
        let version = run.server_version.as_deref().unwrap_or("larder");
        writeln!(out, "{version}; {}, {} cores, Linux {}\n", run.host.cpu, run.host.cores, run.host.kernel)?;
    }
    writeln!(
        out,
        "| load | requests/s | p50 ms | p99 ms | max ms | server CPU us | hit ratio | busy: generator, server | bottleneck |"
    )?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|--:|--:|---|")?;
    for name in names {
        let of = |figure: &dyn Fn(&RunSummary) -> f64| -> Vec<f64> {
            runs.iter().filter(|run| run.name == name).map(figure).collect()
        };
        let spread = |figure: &dyn Fn(&RunSummary) -> f64, digits: usize| {
            let figures = of(figure);
            let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
            let high = figures.iter().copied().fold(0.0, f64::max);
            let middle = median(&figures);
            if figures.len() == 1 {
                return format!("{middle:.digits$}");
            }
            format!("{middle:.digits$} ({low:.digits$}–{high:.digits$})")
        };
        let of_name = || runs.iter().filter(|run| run.name == name);
        let sides: Vec<&str> = of_name().map(RunSummary::bottleneck).collect();
        let side = if sides.iter().all(|side| *side == sides[0]) { sides[0] } else { "differs by run" };
        let percent = |ratios: Vec<f64>| match ratios[..] {
            [] => String::new(),
            _ => format!("{:.1} %", 100.0 * median(&ratios)),
        };
        let hits = percent(of_name().filter_map(RunSummary::hit_ratio).collect());
        let busy = [
            percent(of_name().map(|run| run.client.busy).collect()),
            percent(of_name().filter_map(|run| Some(run.server.as_ref()?.busy)).collect()),
        ];
        writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} | {hits} | {} | {side} |",
            spread(&|run| run.throughput, 0),
            spread(&|run| run.latency_ms.p50, 3),
            spread(&|run| run.latency_ms.p99, 3),
            spread(&|run| run.latency_ms.max, 1),
            spread(&|run| run.server.as_ref().map_or(0.0, |server| server.cpu_us_per_request), 2),
            busy.join(", "),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lib::results::page::tests::example;

    #[test]
    fn a_row_has_the_median_of_its_runs_and_their_range() {
        let runs = [1000.0, 1200.0, 900.0].map(|throughput| RunSummary { throughput, ..example() });
        let other = RunSummary { name: "other".into(), throughput: 5.0, cache_hits: 1, cache_misses: 3, ..example() };
        let mut out = Vec::new();
        write(&mut out, &[&runs[..], &[other]].concat()).expect("a vector accepts writes");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("| example | 1000 (900–1200) | 0.100 (0.100–0.100) |"), "{text}");
        assert!(text.contains("| other | 5 |") && text.contains("| 25.0 % |"), "{text}");
        assert_eq!(text.matches("| example |").count(), 1);
    }
}
