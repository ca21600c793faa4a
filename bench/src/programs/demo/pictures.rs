//! The figures and the charts of a run with phases.
use super::Second;
use crate::lib::{
    figures::{self, median},
    machine::Host,
    results::{chart::Axis, chart_file::file, origin},
};
use anyhow::Context;
use serde_json::json;
use std::{fs, io::Write, path::Path};

/// Prints the machine and a line for each shop and phase, and writes the charts.
pub(super) fn write(
    folder: &Path,
    store: &str,
    sides: &[(&str, Vec<Second>)],
    phase: usize,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    figures::line(out, &Host::this()?)?;
    for (name, seconds) in sides {
        // The first second of a phase has a part of the one before.
        let phases = ["calm", &format!("without {store}"), "recovery"];
        for (phase, seconds) in phases.iter().zip(seconds.chunks(phase)) {
            figures::line(out, &row(name, phase, &seconds[1..]))?;
        }
    }
    fs::create_dir_all(folder)?;
    for (name, chart) in charts(store, sides, phase, &origin::of_this_run()?) {
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, chart).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Medians of the seconds' percentiles and of the rates; sums of what failed.
fn row(side: &str, phase: &str, seconds: &[Second]) -> serde_json::Value {
    let of = |value: &dyn Fn(&Second) -> Option<f64>| {
        let values: Vec<f64> = seconds.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    let sum = |value: &dyn Fn(&Second) -> u64| seconds.iter().map(value).sum::<u64>();
    let orders = seconds.last().zip(seconds.first()).map(|(last, first)| last.orders_failed - first.orders_failed);
    json!({
        "program": "demo", "side": side, "phase": phase,
        "p50_ms": of(&|second| second.p50), "p99_ms": of(&|second| second.p99),
        "requests_per_second": of(&|second| Some(second.requests as f64)),
        "pages": sum(&|second| second.pages), "pages_failed": sum(&|second| second.failed), "orders_failed": orders,
    })
}

/// Names and pictures.
fn charts(store: &str, sides: &[(&str, Vec<Second>)], phase: usize, origin: &str) -> Vec<(&'static str, String)> {
    let x = Axis::linear(3.0 * phase as f64, "seconds");
    let draw = |title: &str, label, log: bool, value: &dyn Fn(&Second) -> Option<f64>| {
        let line = |seconds: &[Second]| -> Vec<(f64, f64)> {
            (1..).zip(seconds).filter_map(|(second, row)| Some((f64::from(second), value(row)?))).collect()
        };
        let lines: Vec<_> = sides.iter().map(|(name, seconds)| (*name, line(seconds))).collect();
        let values = || lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
        let high = values().fold(0.0, f64::max);
        let y = if log {
            Axis::log(values().fold(f64::INFINITY, f64::min), high, label)
        } else {
            Axis::linear(high, label)
        };
        let title = format!("{title}; {store} is killed at {phase} s and started at {} s", 2 * phase);
        file(&title, &x, &y, lines.into_iter().map(Into::into).collect(), origin)
    };
    vec![
        ("p50", draw("Time for a page, median", "ms", true, &|second| second.p50)),
        ("p99", draw("Time for a page, 99th percentile", "ms", true, &|second| second.p99)),
        (
            "requests",
            draw(&format!("Requests at {store}"), "requests per second", false, &|second| Some(second.requests as f64)),
        ),
        ("failed", draw("Pages that fail", "pages per second", false, &|second| Some(second.failed as f64))),
    ]
}

#[test]
fn a_phase_has_medians_and_sums() {
    let second = |p50, failed, orders_failed| Second {
        pages: 10,
        failed,
        orders_failed,
        requests: 5,
        p50,
        p99: p50.map(|ms| 2.0 * ms),
    };
    let seconds = [second(Some(1.0), 0, 1), second(Some(3.0), 0, 2), second(Some(2.0), 1, 4), second(None, 20, 9)];
    let row = row("a", "calm", &seconds);
    assert_eq!((&row["p50_ms"], &row["p99_ms"], &row["requests_per_second"]), (&json!(2.0), &json!(4.0), &json!(5.0)));
    assert_eq!((&row["pages"], &row["pages_failed"], &row["orders_failed"]), (&json!(40), &json!(21), &json!(8)));
    let names: Vec<_> = charts("Redis", &[("a", seconds.to_vec())], 1, "then").iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["p50", "p99", "requests", "failed"]);
}
