//! `larder-bench server`: larder against redis-server and nginx, by CPU time per request and by
//! throughput.

mod server_loads;
mod servers_under_load;
#[cfg(test)]
mod tests;

use crate::lib::{
    figures::{self, Figure, median},
    machine::{self, Host},
    servers,
};
use clap::ValueEnum;
use serde::Serialize;
use server_loads::ServerLoad;
use servers_under_load::{ServerSample, ServerSetting, ServerUnderLoad};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// Compares a larder binary with redis-server and nginx: CPU time per request and throughput
///
/// All servers run at once on free ports of the loopback, each pinned to the first core with one
/// worker; only the one under load is awake. The client is pinned to the second core. CPU time per
/// request is the server's user and system time (/proc/PID/stat) over the load divided by the
/// requests; throughput is what the client reports. Each run loads every server once before the
/// next run begins; the median of the runs counts. A warm-up precedes each load and says how many
/// requests fill --seconds.
///
/// Redis protocol: redis-benchmark, GET of random keys out of 100,000 with values of 64 bytes, 50
/// connections, without pipeline (P1) and with 16 commands at a time (P16); all keys are loaded
/// before, a miss ends the program. redis-server runs with its defaults, without persistence.
///
/// HTTP: wrk, 50 kept connections, one key: larder's /v1/kv/{key} (64 bytes) and /lookup?key=
/// against nginx serving the same bytes as a static file at its best: one process, open_file_cache,
/// sendfile off (which is slower for small files), no log.
///
/// Misses: redis-benchmark as above against a larder that may hold one key, in front of the loaded
/// redis-server, which for this runs on --source-core (by default the client's, so that larder has
/// a core to itself as with hits); compared with larder's hits. That the requests did reach
/// redis-server is checked by its counters.
///
/// Proxy: the same misses, and HSET as below, against `larder-bench floor --proxy`, which only
/// copies bytes between the clients and one connection to the redis-server. Larder and the proxy run
/// on the first core, the redis-server on --source-core.
///
/// Origin misses: wrk, 50 kept connections, each path asked for once: larder's /v1/kv/{key} with an
/// HTTP source, and nginx with proxy_cache (a master and one worker, its files in memory,
/// connections to the backend kept). Both are in front of an nginx on --source-core that
/// answers every path with the same 64 bytes and a lifetime. CPU time is that of all the processes
/// of the server measured.
///
/// Forwarded: redis-benchmark, HSET of random hashes out of 100,000. Three processes share two
/// cores: redis-server is pinned to the first, the client to the second, larder between them may
/// use both; compared with redis-server alone. CPU time is larder's own.
///
/// Coherent: GET as above, all hits, larder in front of an idle redis-server in mode coherent and
/// in mode ttl.
///
/// Floors: larder against `larder-bench floor`, which reads and writes and does nothing else, under
/// redis-benchmark and wrk as above.
///
/// Pogocache: larder against it under redis-benchmark, 16 commands at a time, if
/// LARDER_BENCH_POGOCACHE names its binary; one thread.
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
    load: Vec<ServerLoad>,
    /// Core of redis-server as the source of the misses
    #[arg(long, value_name = "CORE")]
    source_core: Option<usize>,
}

/// One server under one load.
#[derive(Debug, Serialize)]
struct Row {
    program: &'static str,
    load: ServerLoad,
    server: &'static str,
    runs: u64,
    requests: u64,
    cpu_us_per_request: f64,
    cpu_us_min: f64,
    cpu_us_max: f64,
    per_second: f64,
    per_second_min: f64,
    per_second_max: f64,
}

/// What is measured on.
#[derive(Debug, Serialize)]
struct MachineRow {
    program: &'static str,
    cpu: String,
    kernel: String,
    cores: usize,
    server_core: usize,
    client_core: usize,
    source_core: usize,
    versions: Vec<String>,
}

/// Runs the program.
pub(crate) fn run(args: &ServerArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (server_core, client_core) = machine::server_and_client_core()?;
    let setting = ServerSetting {
        larder: &args.larder,
        seconds: args.seconds,
        server_core,
        client_core,
        source_core: args.source_core.unwrap_or(client_core),
        pogocache: servers::given(servers::POGOCACHE)?,
    };
    figures::line(out, &machine(&setting)?)?;
    let loads = if args.load.is_empty() { ServerLoad::value_variants() } else { &args.load };
    let mut figures = Vec::new();
    for &load in loads {
        // Servers that were not named may be missing.
        if args.load.is_empty() && load == ServerLoad::PogocacheP16 && setting.pogocache.is_none() {
            continue;
        }
        let [measured, reference] = compare(&setting, args.runs, load)?;
        let (cpu, throughput) = load.targets();
        let name = |what| {
            let load = load.to_possible_value().map(|value| value.get_name().to_owned());
            format!("{} {what} {}/{}", load.unwrap_or_default(), measured.server, reference.server)
        };
        let quotient = measured.cpu_us_per_request / reference.cpu_us_per_request;
        figures.push(Figure::new("server", name("cpu"), quotient, cpu));
        let quotient = measured.per_second / reference.per_second;
        figures.push(Figure::new("server", name("throughput"), quotient, throughput));
        figures::line(out, &measured)?;
        figures::line(out, &reference)?;
    }
    for figure in figures {
        figures::line(out, &figure)?;
    }
    Ok(())
}

/// The measured server and its reference under one load, run by run in turn.
fn compare(setting: &ServerSetting<'_>, runs: u64, load: ServerLoad) -> anyhow::Result<[Row; 2]> {
    let pair = setting.pair(load)?;
    let sizes = [setting.warm_up(&pair[0])?, setting.warm_up(&pair[1])?];
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for ((server, size), samples) in pair.iter().zip(sizes).zip(&mut samples) {
            samples.push(setting.sample(server, size)?);
        }
    }
    let row = |server: &ServerUnderLoad, samples: &[ServerSample]| {
        let cpu: Vec<f64> = samples.iter().map(|sample| sample.cpu_us).collect();
        let rate: Vec<f64> = samples.iter().map(|sample| sample.per_second).collect();
        let low = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        Row {
            program: "server",
            load,
            server: server.name,
            runs,
            requests: samples.iter().map(|sample| sample.requests).sum(),
            cpu_us_per_request: figures::rounded(median(&cpu)),
            cpu_us_min: figures::rounded(low(&cpu)),
            cpu_us_max: figures::rounded(high(&cpu)),
            per_second: median(&rate).round(),
            per_second_min: low(&rate).round(),
            per_second_max: high(&rate).round(),
        }
    };
    Ok([row(&pair[0], &samples[0]), row(&pair[1], &samples[1])])
}

/// The machine and the versions.
fn machine(setting: &ServerSetting<'_>) -> anyhow::Result<MachineRow> {
    let Host { cpu, cores, kernel, .. } = Host::this()?;
    let version = |program: &Path, argument| -> anyhow::Result<String> {
        let output = Command::new(program).arg(argument).output()?;
        // nginx writes it to standard error.
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    };
    Ok(MachineRow {
        program: "server",
        cpu,
        kernel,
        cores,
        server_core: setting.server_core,
        client_core: setting.client_core,
        source_core: setting.source_core,
        versions: vec![
            version(setting.larder, "--version")?,
            version(&servers::require("redis-server")?, "--version")?,
            version(&servers::require("nginx")?, "-v")?,
            version(&servers::require("wrk")?, "-v")?,
        ],
    })
}
