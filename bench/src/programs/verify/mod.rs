//! `larder-bench verify`: is the load generator itself honest?
mod page;
mod stall;

use crate::lib::{
    blocking_clients::RedisClient,
    dataset,
    external_generators::{self, Done, Ran},
    figures::{self, Figure, FigureTarget, median},
    machine,
    servers::{self, ServerProcess},
};
use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde_json::Value;
use std::{io::Write, net::SocketAddr, path::PathBuf, process::Command, time::Duration};

/// Holds `larder-bench run` against arithmetic, its own schedule, wrk and redis-benchmark
///
/// stall: a server of this program falls silent for 200 ms every 10 s. Of the requests of a fixed schedule, 2 % are due meanwhile and wait from
/// 200 ms down to nothing, so p99 must be 100 ms and p99.9 190 ms. Deviation from that; service times beside it, which hide the stall.
///
/// rate: throughput against what was asked for, from 1,000 to 200,000 requests a second on one thread, 8 connections with up to 32 requests in
/// flight, redis-server answering.
///
/// agreement: closed loops of 50 connections, this program and redis-benchmark or wrk in turn, the medians of --runs: throughput. The servers have
/// much to do for a request (redis-server: BITCOUNT of a megabyte; nginx: a file to be compressed), so that they set the pace.
///
/// cost: the same against servers that are quick (redis-server: GET, unpipelined and 16 at a time; nginx: a small file): requests per second of the
/// client's CPU time (user and system, from its start to its end).
///
/// page: the page of two runs in Chromium (headless): what it has of the charts, and that it draws them.
///
/// The server runs on the first core, the client on the second; both should have nothing else to do.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Checks to run (default: all)
    #[arg(long, value_delimiter = ',')]
    check: Vec<Check>,
    /// Runs of each client, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Length of one load in seconds (stall: 20 in any case)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Keep the page's picture
    #[arg(long, value_name = "FILE.png")]
    screenshot: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// A stalling server's percentiles against arithmetic
    Stall,
    /// Rates against what was asked for
    Rate,
    /// Throughput against redis-benchmark and wrk
    Agreement,
    /// Load per CPU second against redis-benchmark and wrk
    Cost,
    /// A page in Chromium
    Page,
}

/// Runs the program.
pub(crate) fn run(args: &VerifyArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let cores = machine::server_and_client_core()?;
    for check in if args.check.is_empty() { Check::value_variants() } else { &args.check } {
        match check {
            Check::Stall => stall::check(cores, out)?,
            Check::Rate => rates(cores, args.seconds, out)?,
            Check::Agreement => agreement(cores, args, out)?,
            Check::Cost => cost(cores, args, out)?,
            Check::Page => page::check(cores, args.screenshot.as_deref(), out)?,
        }
    }
    Ok(())
}

/// `larder-bench run` in a process of its own, as the others are.
fn larder_bench(core: usize, url: &str, options: &[&str]) -> anyhow::Result<Value> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.args(["run", "--json", "--url", url]).args(options);
    let text = external_generators::output(core, &mut command)?;
    let result: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    let errors = result["errors"].as_object().context("a result without errors")?;
    ensure!(errors.values().all(|count| *count == 0), "errors in a verification: {result}");
    Ok(result)
}

fn figure(result: &Value, path: &[&str]) -> anyhow::Result<f64> {
    let value = path.iter().fold(result, |value, name| &value[*name]);
    value.as_f64().with_context(|| format!("the result has no {path:?}"))
}

/// A deviation from 1, in either direction, and its bound.
fn deviation(name: String, ratio: f64, most: f64) -> Figure {
    Figure::new("verify", name, (ratio - 1.0).abs(), Some(FigureTarget::AtMost(most)))
}

/// How far throughputs may be apart.
const AGREE: FigureTarget = FigureTarget::AtMost(0.05);

const KEYS: &[&str] = &["--keys", "100000", "--key", "key:{n:012}"];

/// redis-server with the keys that redis-benchmark asks for.
fn redis(core: usize, client: usize) -> anyhow::Result<(ServerProcess, String)> {
    let server = servers::redis(Some(core))?;
    let url = format!("redis://{}", server.address);
    larder_bench(client, &url, &[KEYS, &["--preload", "--requests", "1"]].concat())?;
    Ok((server, url))
}

fn rates((server_core, core): (usize, usize), seconds: u64, out: &mut dyn Write) -> anyhow::Result<()> {
    let (_server, url) = redis(server_core, core)?;
    for rate in ["1000", "20000", "100000", "200000"] {
        let duration = format!("{seconds}s");
        let options = ["--rate", rate, "--connections", "8", "--pipeline", "32", "--duration", &duration];
        let result = larder_bench(core, &url, &[KEYS, &options].concat())?;
        let ratio = figure(&result, &["throughput"])? / figure(&result, &["target_rate"])?;
        figures::line(out, &deviation(format!("rate {rate}/s deviation"), ratio, 0.005))?;
        for (name, path) in
            [("lag p99 ms", &["client", "lag_ms", "p99"][..]), ("latency p99 ms", &["latency_ms", "p99"])]
        {
            figures::line(out, &Figure::new("verify", format!("rate {rate}/s {name}"), figure(&result, path)?, None))?;
        }
    }
    Ok(())
}

/// What a client did in one run: requests per second, and per second of its CPU time.
struct GeneratorSample {
    per_second: f64,
    per_cpu_second: f64,
}

impl From<Ran<Done>> for GeneratorSample {
    fn from(ran: Ran<Done>) -> GeneratorSample {
        let Done { requests, per_second } = ran.result;
        GeneratorSample { per_second, per_cpu_second: requests as f64 / ran.cpu.as_secs_f64() }
    }
}

fn own(core: usize, url: &str, options: &[&str]) -> anyhow::Result<GeneratorSample> {
    let ran = external_generators::with_cpu(|| larder_bench(core, url, options))?;
    let requests = figure(&ran.result, &["requests"])? as u64;
    let per_second = figure(&ran.result, &["throughput"])?;
    Ok(Ran { result: Done { requests, per_second }, cpu: ran.cpu }.into())
}

/// Servers that answer sooner than redis-benchmark and wrk can ask: what a request costs the client.
fn cost((server_core, core): (usize, usize), args: &VerifyArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let duration = format!("{}s", args.seconds);
    let closed = ["--connections", "50", "--duration", &duration];
    let (server, url) = redis(server_core, core)?;
    for pipeline in [1, 16] {
        let depth = pipeline.to_string();
        let options = [KEYS, &closed, &["--pipeline", &depth]].concat();
        let benchmark = benchmark(core, server.address, pipeline, &["GET", "key:__rand_int__"], args.seconds)?;
        let name = format!("cost: GET P{pipeline} larder-bench/redis-benchmark");
        let compared = in_turn(args.runs, || own(core, &url, &options), benchmark)?;
        compared.report(&name, |sample| sample.per_cpu_second, FigureTarget::AtLeast(1.0), out)?;
    }
    drop(server);
    let nginx = servers::nginx(Some(server_core), &[("file", &[b'v'; 64])])?;
    let rival = || {
        Ok(external_generators::with_cpu(|| external_generators::wrk(core, nginx.address, "/file", args.seconds))?
            .into())
    };
    let url = format!("http://{}/file", nginx.address);
    let compared = in_turn(args.runs, || own(core, &url, &closed), rival)?;
    compared.report("cost: GET larder-bench/wrk", |sample| sample.per_cpu_second, FigureTarget::AtLeast(1.0), out)
}

/// Servers that have much to do for a request, so that they and not the clients set the throughput.
fn agreement((server_core, core): (usize, usize), args: &VerifyArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let duration = format!("{}s", args.seconds);
    let closed = ["--connections", "50", "--duration", &duration];
    let server = servers::redis(Some(server_core))?;
    let mut client = RedisClient::connect(server.address, Duration::from_secs(10))?;
    client.call(&[b"SETBIT", b"bits", b"8000000", b"1"])?;
    let benchmark = benchmark(core, server.address, 1, &["BITCOUNT", "bits"], args.seconds)?;
    let options = [&closed[..], &["--op", "BITCOUNT bits"]].concat();
    let compared = in_turn(args.runs, || own(core, &format!("redis://{}", server.address), &options), benchmark)?;
    compared.report("agreement: BITCOUNT larder-bench/redis-benchmark", |sample| sample.per_second, AGREE, out)?;
    drop(server);
    // Letters that do not compress well: some hundred microseconds for each answer, sent in chunks.
    let text: Vec<u8> = (0..16 * 1024).map(|number| b'a' + (dataset::mix(number) % 16) as u8).collect();
    let directives = "gzip on; gzip_types *; gzip_min_length 0;";
    let nginx = servers::nginx_with(Some(server_core), &[("text", &text)], directives)?;
    let header = "Accept-Encoding: gzip";
    let wrk = || external_generators::wrk_with(core, nginx.address, "/text", args.seconds, &["-H", header]);
    let options = [&closed[..], &["--header", header]].concat();
    let url = format!("http://{}/text", nginx.address);
    let compared = in_turn(args.runs, || own(core, &url, &options), || Ok(external_generators::with_cpu(wrk)?.into()))?;
    compared.report("agreement: GET, gzip larder-bench/wrk", |sample| sample.per_second, AGREE, out)
}

/// redis-benchmark for about so many seconds, 50 connections.
fn benchmark<'a>(
    core: usize,
    address: SocketAddr,
    pipeline: u32,
    command: &'a [&'a str],
    seconds: u64,
) -> anyhow::Result<impl Fn() -> anyhow::Result<GeneratorSample> + 'a> {
    let run = move |requests| external_generators::redis_benchmark(core, address, 100_000, pipeline, requests, command);
    let requests = run(10_000 * u64::from(pipeline))?.per_second * seconds as f64;
    Ok(move || Ok(external_generators::with_cpu(|| run(requests as u64))?.into()))
}

/// The medians of two clients.
struct Compared {
    own: Vec<GeneratorSample>,
    rival: Vec<GeneratorSample>,
}

/// Runs both in turn, so that what happens to the machine happens to both.
fn in_turn(
    runs: u64,
    own: impl Fn() -> anyhow::Result<GeneratorSample>,
    rival: impl Fn() -> anyhow::Result<GeneratorSample>,
) -> anyhow::Result<Compared> {
    let mut compared = Compared { own: Vec::new(), rival: Vec::new() };
    for _ in 0..runs {
        compared.own.push(own()?);
        compared.rival.push(rival()?);
    }
    Ok(compared)
}

impl Compared {
    fn report(
        &self,
        name: &str,
        figure: fn(&GeneratorSample) -> f64,
        target: FigureTarget,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let [own, rival] =
            [&self.own, &self.rival].map(|samples| median(&samples.iter().map(figure).collect::<Vec<_>>()));
        figures::line(out, &Figure::new("verify", format!("{name}: ours"), own, None))?;
        figures::line(out, &Figure::new("verify", format!("{name}: theirs"), rival, None))?;
        match target {
            FigureTarget::AtMost(most) => {
                figures::line(out, &deviation(format!("{name} deviation"), own / rival, most))
            }
            target => figures::line(out, &Figure::new("verify", name.to_owned(), own / rival, Some(target))),
        }
    }
}
