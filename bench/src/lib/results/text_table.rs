//! The result of a run for a person.
use super::summary::{RunSummary, Times};
use crate::lib::load::measure::GeneratorHealth;
use std::io::{self, Write};

type Figure = (&'static str, fn(&Times) -> f64);

/// Rows of the table.
const FIGURES: [Figure; 8] = [
    ("p50", |times| times.p50),
    ("p90", |times| times.p90),
    ("p99", |times| times.p99),
    ("p99.9", |times| times.p999),
    ("p99.99", |times| times.p9999),
    ("p99.999", |times| times.p99999),
    ("max", |times| times.max),
    ("mean", |times| times.mean),
];

/// Writes the table.
pub(crate) fn write(out: &mut dyn Write, run: &RunSummary) -> io::Result<()> {
    let target = match (run.target_rate, &run.think_time) {
        (Some(rate), _) => format!("of {rate}/s on schedule"),
        (None, Some(think)) => format!("closed loop, users think for {think}"),
        (None, None) => "closed loop".to_owned(),
    };
    writeln!(out, "{} ({})\n", run.name, run.concurrency())?;
    writeln!(out, "{:<11}{:.1}/s ({target})", "throughput", run.throughput)?;
    writeln!(out, "{:<11}{} in {:.3} s", "requests", run.requests, run.duration_s)?;
    if run.delay_ms > 0.0 {
        writeln!(out, "{:<11}{} ms of each request's service time", "delay", run.delay_ms)?;
    }
    if run.interrupted {
        writeln!(out, "{:<11}early, by a signal", "ended")?;
    }
    let errors: Vec<_> =
        run.errors.iter().filter(|(_, count)| **count > 0).map(|(kind, count)| format!("{count} {kind}")).collect();
    writeln!(out, "{:<11}{}", "errors", if errors.is_empty() { "none".to_owned() } else { errors.join(", ") })?;
    if run.found + run.missing > 0 {
        writeln!(out, "{:<11}{} found, {} missing", "keys read", run.found, run.missing)?;
    }
    if let Some(ratio) = run.hit_ratio() {
        writeln!(out, "{:<11}{:.2} % (Cache-Status)", "hit ratio", 100.0 * ratio)?;
    }
    writeln!(out, "{:<11}{} sent, {} received\n", "bytes", run.bytes_out, run.bytes_in)?;
    writeln!(out, "{:<11}{:>12}  {:>12}", "ms", "latency", "service")?;
    for (name, figure) in FIGURES {
        writeln!(out, "{name:<11}{:>12.3}  {:>12.3}", figure(&run.latency_ms), figure(&run.service_ms))?;
    }
    writeln!(out, "\n{:<11}{:>12}  {:>12}  {:>12}  {:>12}", "phase, ms", "mean", "p50", "p99", "max")?;
    for phase in ["connect", "queue", "write", "wait", "read"] {
        if let Some(t) = run.phases_ms.get(phase) {
            writeln!(out, "{phase:<11}{:>12.3}  {:>12.3}  {:>12.3}  {:>12.3}", t.mean, t.p50, t.p99, t.max)?;
        }
    }
    let client = &run.client;
    write!(out, "\ngenerator: {:.2} CPU s, {:.0} requests a CPU s", client.cpu_s, client.requests_per_cpu_s)?;
    writeln!(out, ", busy {:.0} %, lag p99 {:.3} ms", 100.0 * client.busy, client.lag_ms.p99)?;
    if let Some(server) = &run.server {
        write!(out, "server: {:.2} CPU s, {:.2} us a request", server.cpu_s, server.cpu_us_per_request)?;
        writeln!(out, ", busiest thread {:.0} %", 100.0 * server.busy)?;
    }
    writeln!(out, "bottleneck: {}", run.bottleneck())?;
    if run.client_saturated {
        let (late, busy) = (GeneratorHealth::LATE, 100.0 * GeneratorHealth::BUSY);
        writeln!(
            out,
            "THE GENERATOR WAS THE BOTTLENECK (lag p99 from {late:?} on, or busy above {busy} %): these are its figures, not the server's"
        )?;
    }
    Ok(())
}
