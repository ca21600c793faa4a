//! This generator beside its rivals redis-benchmark and wrk: the same throughput where the server
//! sets the pace, and its own cost.
use super::own_runs::{KEYS, deviation, figure, larder_bench, redis};
use crate::lib::{
    blocking_clients::RespClient,
    dataset,
    external_generators::{self, Done, Ran},
    figures::{self, Figure, FigureTarget, median},
    servers,
};
use std::{io::Write, net::SocketAddr, time::Duration};

/// How far throughputs may be apart.
const AGREE: FigureTarget = FigureTarget::AtMost(0.05);

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

/// Servers that answer sooner than redis-benchmark and wrk can ask: what a request costs the
/// client.
pub(super) fn cost(
    (server_core, core): (usize, usize),
    runs: u64,
    seconds: u64,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let duration = format!("{}s", seconds);
    let closed = ["--connections", "50", "--duration", &duration];
    let (server, url) = redis(server_core, core)?;
    for pipeline in [1, 16] {
        let depth = pipeline.to_string();
        let options = [KEYS, &closed, &["--pipeline", &depth]].concat();
        let benchmark = benchmark(core, server.address, pipeline, &["GET", "key:__rand_int__"], seconds)?;
        let name = format!("cost: GET P{pipeline} larder-bench/redis-benchmark");
        let compared = in_turn(runs, || own(core, &url, &options), benchmark)?;
        compared.report(&name, |sample| sample.per_cpu_second, FigureTarget::AtLeast(1.0), out)?;
    }
    drop(server);
    let nginx = servers::nginx(Some(server_core), &[("file", &[b'v'; 64])])?;
    let rival = || {
        Ok(external_generators::with_cpu(|| external_generators::wrk(core, nginx.address, "/file", seconds))?.into())
    };
    let url = format!("http://{}/file", nginx.address);
    let compared = in_turn(runs, || own(core, &url, &closed), rival)?;
    compared.report("cost: GET larder-bench/wrk", |sample| sample.per_cpu_second, FigureTarget::AtLeast(1.0), out)
}

/// Servers that have much to do for a request, so that they and not the clients set the throughput.
pub(super) fn agreement(
    (server_core, core): (usize, usize),
    runs: u64,
    seconds: u64,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let duration = format!("{}s", seconds);
    let closed = ["--connections", "50", "--duration", &duration];
    let server = servers::redis(Some(server_core))?;
    let mut client = RespClient::connect(server.address, Duration::from_secs(10))?;
    client.call(&[b"SETBIT", b"bits", b"8000000", b"1"])?;
    let benchmark = benchmark(core, server.address, 1, &["BITCOUNT", "bits"], seconds)?;
    let options = [&closed[..], &["--op", "BITCOUNT bits"]].concat();
    let compared = in_turn(runs, || own(core, &format!("redis://{}", server.address), &options), benchmark)?;
    compared.report("agreement: BITCOUNT larder-bench/redis-benchmark", |sample| sample.per_second, AGREE, out)?;
    drop(server);
    // Letters that do not compress well: some hundred microseconds for each answer, sent in chunks.
    let text: Vec<u8> = (0..16 * 1024).map(|number| b'a' + (dataset::mix(number) % 16) as u8).collect();
    let directives = "gzip on; gzip_types *; gzip_min_length 0;";
    let nginx = servers::nginx_with(Some(server_core), &[("text", &text)], directives)?;
    let header = "Accept-Encoding: gzip";
    let wrk = || external_generators::wrk_with(core, nginx.address, "/text", seconds, &["-H", header]);
    let options = [&closed[..], &["--header", header]].concat();
    let url = format!("http://{}/text", nginx.address);
    let compared = in_turn(runs, || own(core, &url, &options), || Ok(external_generators::with_cpu(wrk)?.into()))?;
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
