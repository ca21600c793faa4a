//! `larder-bench server` and `larder-bench classic`: the scenarios that are measured as they are.
use crate::lib::{
    figures::{self, Figure, Spread},
    load::{Interrupt, ThinkTime, duration},
    machine::{self, Host},
    results::{latency_shape, page, progress_bar::ProgressBar, summary::RunSummary},
    scenario::{Runner, Scenario, Shape},
    servers,
};
use anyhow::{Context, ensure};
use serde_json::json;
use std::{collections::BTreeMap, fs::File, io::Write, path::PathBuf, time::Duration};

/// Compares a larder binary with other servers: CPU time per request and throughput
///
/// A server runs on the first core with one thread, the generator of `larder-bench run` on the
/// second: a closed loop of 50 connections, 100,000 keys, values of 64 bytes. Both servers of a load
/// take turns, and the median of the runs counts. CPU time per request is what all threads of the
/// server's processes ran during a load (/proc/PID/task/*/schedstat), divided by the answered
/// requests. A reply of another kind than expected ends the program.
///
/// get-p1, get-p16: GET of keys in memory, one at a time and by 16; larder and redis-server.
/// http-kv, http-lookup: larder and nginx serving the same bytes as a static file. misses-p1,
/// misses-p16: GET of a larder that may hold one key, in front of a redis-server on --source-core;
/// compared with larder's hits. origin-misses: each path is asked for once; larder and nginx with
/// proxy_cache in front of an nginx. forwarded-p16: HSET through larder, and redis-server alone.
/// coherent-p16: hits of a larder in front of an idle redis-server in mode coherent and in mode ttl.
/// pogocache-p16: if LARDER_BENCH_POGOCACHE names its binary.
///
/// One line for the machine, one per load and server with the medians and their range, then the
/// ratios with their targets.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// The larder binary (a release build)
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// Runs, of which the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Length of one load
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Loads to run (default: all)
    #[arg(long, value_delimiter = ',')]
    load: Vec<String>,
    /// Core of what stands behind a cache [default: the generator's]
    #[arg(long, value_name = "CORE")]
    source_core: Option<usize>,
}

/// Runs `server`.
pub(crate) fn run_server(args: &ServerArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let scenario = Scenario::read(include_str!("../../scenarios/server.toml"))?;
    let names: Vec<&str> = scenario.load.iter().map(|load| &load.name[..]).collect();
    for load in &args.load {
        ensure!(names.contains(&&load[..]), "--load {load} is none of {}", names.join(", "));
    }
    let cores = machine::server_and_client_core()?;
    let mut runner = Runner::new(&scenario, Some(&args.larder), cores, Duration::from_secs(args.seconds));
    runner.source_core = args.source_core.unwrap_or(cores.1);
    let Host { cpu, cores: count, kernel, .. } = Host::this()?;
    let version = |name: &str| {
        let kind = servers::kind(name)?;
        kind.version(&kind.binary(Some(&args.larder))?)
    };
    let versions = ["larder", "redis", "nginx-static"].map(version).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let machine = json!({
        "program": "server", "cpu": cpu, "kernel": kernel, "cores": count, "server_core": cores.0,
        "client_core": cores.1, "source_core": runner.source_core, "versions": versions,
    });
    figures::line(out, &machine)?;
    // Servers that were not named may be missing.
    let has_pogocache = servers::kind("pogocache")?.binary(None).is_ok();
    let wanted = |shape: Shape, _: &str| match args.load.is_empty() {
        true => shape.load.name != "pogocache-p16" || has_pogocache,
        false => args.load.contains(&shape.load.name),
    };
    let mut samples: BTreeMap<&str, Vec<RunSummary>> = BTreeMap::new();
    let mut compared = Vec::new();
    runner.all(args.runs, &wanted, &mut |runner, shape, server, run, measured| {
        let (load, title) = (shape.load, runner.title(server));
        let (measured, _) = measured.with_context(|| format!("{}, {title}", load.name))?;
        ensure!(measured.errors.is_empty(), "{}, {title}: {:?}", load.name, measured.errors);
        samples.entry(title).or_default().push(measured.run);
        if run + 1 < args.runs || load.ask.last().is_some_and(|(last, _)| last != server) {
            return Ok(());
        }
        let mut medians = Vec::new();
        for title in load.ask.iter().map(|(server, _)| runner.title(server)) {
            let runs = samples.remove(title).unwrap_or_default();
            let cpu = Spread::of(&runs, |run| run.server.as_ref().map_or(f64::NAN, |used| used.cpu_us_per_request));
            let rate = Spread::of(&runs, |run| run.throughput);
            let row = json!({
                "program": "server", "load": load.name, "server": title, "runs": args.runs,
                "requests": runs.iter().map(|run| run.requests).sum::<u64>(),
                "cpu_us_per_request": cpu.median, "cpu_us_min": cpu.low, "cpu_us_max": cpu.high,
                "per_second": rate.median.round(), "per_second_min": rate.low.round(), "per_second_max": rate.high.round(),
            });
            figures::line(out, &row)?;
            medians.push((title, cpu.median, rate.median));
        }
        let [(measured, cpu, rate), (reference, cpu_of, rate_of)] = medians[..] else { return Ok(()) };
        let name = |what| format!("{} {what} {measured}/{reference}", load.name);
        compared.push(Figure::new("server", name("cpu"), cpu / cpu_of, load.cpu));
        compared.push(Figure::new("server", name("throughput"), rate / rate_of, load.throughput));
        Ok(())
    })?;
    compared.iter().try_for_each(|figure| figures::line(out, figure))
}

/// Measures Larder in the classic forms of benchmarks
///
/// proxy: `GET /lookup?key=K` in front of redis-server, with 1 to 128 connections: requests without
/// a key, misses (each is fetched), hits. rest: JSON bodies on /cache/v1/item over 30 connections:
/// POST of new keys, POST of one key, GET of stored and of absent keys, a third of each, DELETE.
/// table: `/lookup` of a table that is built from a data file of --keys UUIDs: 50 connections as
/// fast as it goes (hey), then users with think time (Locust). peers: three nodes, ids 1 to 100
/// over 10 connections at 250 a second, cold and warm, at 500, and as fast as it goes. store:
/// `/v0/entity` of the disk store with --keys keys, PUT and GET over one connection at 10,000,
/// 12,000 and 20,000 a second (wrk2 -c1 -t1).
///
/// The servers run on one core, the generator (and redis-server) on another. All loads run --runs
/// times, in turn; the table has the median and the range. Files are made in the folder for
/// temporary files (TMPDIR). `larder-bench rivals` compares with other servers.
#[derive(Debug, clap::Args)]
pub(crate) struct ClassicArgs {
    /// The form
    #[arg(value_enum)]
    form: ClassicForm,
    /// The larder binary
    #[arg(long, value_name = "PATH", default_value = "target/release/larder")]
    larder: PathBuf,
    /// How long each load lasts
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    duration: Duration,
    /// How often all loads run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// table, store: number of keys
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// table: number of users with think time, each on a connection of its own
    #[arg(long, value_name = "N", default_value_t = 500)]
    users: usize,
    /// table: how long a user thinks between requests
    #[arg(long, value_name = "DURATION", default_value = "500ms-1500ms")]
    think_time: ThinkTime,
    /// Print each run's result as one JSON object on one line instead of a table
    #[arg(long)]
    json: bool,
    /// Show no progress; --json shows none either
    #[arg(long)]
    quiet: bool,
    /// Write those objects to a file, too
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write a page with charts of all runs
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// A form of benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ClassicForm {
    Proxy,
    Rest,
    Table,
    Peers,
    Store,
}

/// Runs `classic`.
pub(crate) fn run_classic(args: &ClassicArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let scenario = Scenario::read(match args.form {
        ClassicForm::Proxy => include_str!("../../scenarios/proxy.toml"),
        ClassicForm::Rest => include_str!("../../scenarios/rest.toml"),
        ClassicForm::Table => include_str!("../../scenarios/table.toml"),
        ClassicForm::Peers => include_str!("../../scenarios/peers.toml"),
        ClassicForm::Store => include_str!("../../scenarios/store.toml"),
    })?;
    let created = |path: &PathBuf| File::create(path).with_context(|| format!("cannot write {}", path.display()));
    let mut saved = args.save.as_ref().map(created).transpose()?;
    let mut runner = Runner::new(&scenario, Some(&args.larder), machine::server_and_client_core()?, args.duration);
    runner.interrupt = Interrupt::watch()?;
    runner.variables = BTreeMap::from([
        ("keys", args.keys.to_string()),
        ("users", args.users.to_string()),
        ("think-time", args.think_time.to_string()),
    ]);
    let steps = scenario.shapes().count() as u64 * args.runs;
    let (progress, mut runs) = (ProgressBar::steps("", steps, args.quiet || args.json), Vec::new());
    runner.all(args.runs, &|_, _| true, &mut |_, shape, _, _, measured| {
        let name = shape.name();
        let (measured, _) = measured.with_context(|| name.clone())?;
        ensure!(measured.errors.is_empty(), "{name}: {:?}", measured.errors);
        if args.json {
            figures::line(out, &measured.run)?;
        }
        if let Some(file) = &mut saved {
            figures::line(file, &measured.run)?;
        }
        runs.push(measured.run);
        progress.begin(name);
        progress.show(runs.len() as u64);
        Ok(())
    })?;
    drop(progress);
    if !args.json {
        table(out, &runs)?;
        // hey prints its summary; that of the last run stands for all.
        if let Some(run) = runs.iter().rev().find(|run| run.name.starts_with("hey:")) {
            latency_shape::write_summary(out, run)?;
        }
    }
    args.report.as_ref().map_or(Ok(()), |path| page::write(path, &runs))
}

/// A row for each load, in Markdown: the median of its runs and their range.
fn table(out: &mut dyn Write, runs: &[RunSummary]) -> anyhow::Result<()> {
    if let Some(run) = runs.first() {
        let version = run.server_version.as_deref().unwrap_or("larder");
        writeln!(out, "{version}; {}, {} cores, Linux {}\n", run.host.cpu, run.host.cores, run.host.kernel)?;
    }
    writeln!(
        out,
        "| load | requests/s | p50 ms | p99 ms | max ms | server CPU us | hit ratio | busy: generator, server | bottleneck |"
    )?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|--:|--:|---|")?;
    for (name, runs) in page::by_name(runs) {
        let spread = |figure: &dyn Fn(&RunSummary) -> f64, digits: usize| {
            let Spread { median, low, high } = Spread::of(runs.iter().copied(), figure);
            match runs.len() {
                1 => format!("{median:.digits$}"),
                _ => format!("{median:.digits$} ({low:.digits$}–{high:.digits$})"),
            }
        };
        let percent = |ratio: &dyn Fn(&RunSummary) -> Option<f64>| {
            let ratios: Vec<f64> = runs.iter().filter_map(|run| ratio(run)).collect();
            if ratios.is_empty() { String::new() } else { format!("{:.1} %", 100.0 * figures::median(&ratios)) }
        };
        let first = runs[0].bottleneck();
        writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} | {} | {}, {} | {} |",
            spread(&|run| run.throughput, 0),
            spread(&|run| run.latency_ms.p50, 3),
            spread(&|run| run.latency_ms.p99, 3),
            spread(&|run| run.latency_ms.max, 1),
            spread(&|run| run.server.as_ref().map_or(0.0, |server| server.cpu_us_per_request), 2),
            percent(&RunSummary::hit_ratio),
            percent(&|run| Some(run.client.busy)),
            percent(&|run| Some(run.server.as_ref()?.busy)),
            if runs.iter().all(|run| run.bottleneck() == first) { first } else { "differs by run" },
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
        table(&mut out, &[&runs[..], &[other]].concat()).expect("a vector accepts writes");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("| example | 1000 (900–1200) | 0.100 (0.100–0.100) |"), "{text}");
        assert!(text.contains("| other | 5 |") && text.contains("| 25.0 % |"), "{text}");
        assert_eq!(text.matches("| example |").count(), 1);
    }
}
