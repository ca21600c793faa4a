//! `larder-bench profile`: where a larder's time goes under each load, and what it allocates there.
//!
//! ```text
//! perf record ─► perf script ─► perf_stacks (inlined calls told by addr2line) ─┬─► time_shares ─► one line of JSON
//!                                                                              └─► flame_graph ─► LOAD.svg
//! ```
mod perf_stacks;
#[cfg(test)]
mod tests;
mod time_shares;

use crate::lib::{
    figures, load, machine,
    results::origin,
    scenario::{Runner, Scenario},
    servers::{ServerProcess, require},
};
use anyhow::{Context, ensure};
use inferno::flamegraph::{
    self, Options,
    color::{MultiPalette, Palette},
};
use perf_stacks::Stacks;
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// Samples a larder under each load: flame graphs of CPU time and of allocations, and where the
/// time goes by share
///
/// The larder runs on the first core, the load generator of `larder-bench run` on the second, in a
/// closed loop of 50 connections; sources run beside the generator. perf(1) samples the larder's
/// CPU clock, kernel and user space; functions that were inlined are told by addr2line(1).
/// Allocations are counted by perf's probes of malloc, calloc, realloc and the aligned ones in libc
/// (as root; elsewhere that part is left out). The binary should have frame pointers and line
/// tables: `make profile` builds it so.
///
/// For each load a line of JSON: CPU time per request, its shares, allocations and allocated bytes
/// per request; and LOAD.svg and LOAD-allocations.svg in --out.
#[derive(Debug, clap::Args)]
pub(crate) struct ProfileArgs {
    /// The larder binary
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// Where flame graphs go
    #[arg(long, value_name = "DIR", default_value = "target/profile")]
    out: PathBuf,
    /// Loads to run (default: all)
    #[arg(long, value_delimiter = ',')]
    load: Vec<String>,
    /// Length of one load
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// Samples per second: not a divisor of what else happens in a second.
const FREQUENCY: &str = "1999";
/// libc's functions that allocate, and where their size is.
const PROBES: [(&str, &str); 5] = [
    ("malloc", "size=%di:u64"),
    ("calloc", "size=%si:u64"),
    ("realloc", "size=%si:u64"),
    ("posix_memalign", "size=%dx:u64"),
    ("aligned_alloc", "size=%si:u64"),
];

/// Runs the program.
pub(crate) fn run(args: &ProfileArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    require("perf")?;
    let cores = machine::server_and_client_core()?;
    let binary = args.larder.canonicalize().with_context(|| format!("cannot find {}", args.larder.display()))?;
    fs::create_dir_all(&args.out)?;
    let origin = origin::of_this_run()?;
    let probes = Probes::set();
    if let Err(error) = &probes {
        eprintln!("larder-bench: allocations are not counted: {error:#}");
    }
    let scenario = Scenario::read(include_str!("../../../scenarios/profile.toml"))?;
    let names: Vec<&str> = scenario.load.iter().map(|load| &load.name[..]).collect();
    for load in &args.load {
        ensure!(names.contains(&&load[..]), "--load {load} is none of {}", names.join(", "));
    }
    let mut runner = Runner::new(&scenario, Some(&binary), cores, Duration::from_secs(args.seconds));
    for shape in scenario.shapes() {
        let name = &shape.load.name;
        if !(args.load.is_empty() || args.load.contains(name)) {
            continue;
        }
        let asked = &shape.load.ask[0].0;
        let plan = runner.plan_of(shape, asked)?;
        let server = &runner.server(asked)?.server;
        let draw = |file: String, unit, stacks: &Stacks| {
            let title = format!("larder, {file}: {unit}, {origin}");
            let svg = flame_graph(&title, unit, &stacks.by_stack)?;
            fs::write(args.out.join(format!("{file}.svg")), svg).context("cannot write a flame graph")
        };
        let time = sample(&["-F", FREQUENCY, "-e", "cpu-clock"], server, &plan, &binary)?;
        draw(name.clone(), "samples", &time.stacks)?;
        let allocations = match &probes {
            Ok(probes) => Some(sample(&probes.options(), server, &plan, &binary)?),
            Err(_) => None,
        };
        if let Some(made) = &allocations {
            draw(format!("{name}-allocations"), "allocations", &made.stacks)?;
        }
        let per_request = |sampled: &Sampled, count: u64| figures::rounded(count as f64 / sampled.requests as f64);
        let mut row = json!({
            "program": "profile", "load": name, "requests": time.requests, "per_second": time.per_second.round(),
            "cpu_us_per_request": figures::rounded(time.cpu_us / time.requests as f64), "samples": time.stacks.samples,
            "shares": time_shares::of(&time.stacks.by_stack),
        });
        if let Some(made) = &allocations {
            row["allocations_per_request"] = per_request(made, made.stacks.samples).into();
            row["allocated_bytes_per_request"] = per_request(made, made.stacks.bytes).into();
        }
        figures::line(out, &row)?;
    }
    Ok(())
}

/// Draws stacks, root first and separated by `;`. `unit` is what their numbers count.
fn flame_graph(title: &str, unit: &str, by_stack: &BTreeMap<String, u64>) -> anyhow::Result<Vec<u8>> {
    let count: u64 = by_stack.values().sum();
    let mut options = Options::default();
    options.title = format!("{title} ({count} {unit})");
    options.count_name = unit.to_owned();
    options.colors = Palette::Multi(MultiPalette::Rust);
    // A function has the same colour in every graph.
    options.deterministic = true;
    // inferno takes a picture without stacks for a mistake. A load that allocates nothing has none.
    let mut lines: Vec<String> = by_stack.iter().map(|(stack, count)| format!("{stack} {count}")).collect();
    if lines.is_empty() {
        lines.push(format!("no {unit} 1"));
    }
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .context("cannot draw the flame graph")?;
    Ok(svg)
}

/// What came of one run under perf.
struct Sampled {
    requests: u64,
    per_second: f64,
    cpu_us: f64,
    stacks: Stacks,
}

/// Runs a load while perf records the server.
fn sample(events: &[&str], server: &ServerProcess, plan: &load::LoadPlan, binary: &Path) -> anyhow::Result<Sampled> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "--call-graph", "fp", "-m", "512"]).args(events);
    perf.arg("-o").arg(&data).args(["-p", &server.id().to_string()]);
    perf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(folder.path().join("stderr"))?);
    let mut perf = perf.spawn().context("cannot start perf")?;
    let before = server.process().cpu_time()?;
    let outcome = load::run(plan, &mut |_| {});
    let cpu = server.process().cpu_time()? - before;
    rustix::process::kill_process(rustix::process::Pid::from_child(&perf), rustix::process::Signal::INT)?;
    perf.wait()?;
    let outcome = outcome?;
    ensure!(
        data.metadata().is_ok_and(|file| file.len() > 0),
        "perf recorded nothing: {}",
        fs::read_to_string(folder.path().join("stderr")).unwrap_or_default()
    );
    let script = Command::new("perf")
        .args(["script", "--no-inline", "-F", "time,trace,ip,sym,dso", "-i"])
        .arg(&data)
        .stderr(Stdio::null())
        .output()?;
    let counts = outcome.total.counts;
    ensure!(counts.requests > 0, "no request was answered");
    Ok(Sampled {
        requests: counts.requests,
        per_second: counts.requests as f64 / plan.measured().unwrap_or_default().as_secs_f64(),
        cpu_us: cpu.as_secs_f64() * 1e6,
        stacks: perf_stacks::read(&String::from_utf8_lossy(&script.stdout), binary)?,
    })
}

/// perf's probes in libc; they are gone when this is.
struct Probes;

impl Probes {
    const GROUP: &str = "probe_larder_bench";

    fn set() -> anyhow::Result<Probes> {
        let libc = ["/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6", "/usr/lib/libc.so.6"];
        let libc = libc.into_iter().find(|path| Path::new(path).exists()).context("no libc where it is looked for")?;
        // What an aborted run left would be in the way.
        drop(Probes);
        let probes = Probes;
        for (function, size) in PROBES {
            let probe = format!("{}:{function}={function} {size}", Probes::GROUP);
            let output = Command::new("perf").args(["probe", "-q", "-x", libc, "--add", &probe]).output()?;
            ensure!(output.status.success(), "perf probe: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(probes)
    }

    fn options(&self) -> [&'static str; 2] {
        ["-e", "probe_larder_bench:*"]
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        // Fails if there is none.
        let _ = Command::new("perf").args(["probe", "-q", "--del", "probe_larder_bench:*"]).output();
    }
}
