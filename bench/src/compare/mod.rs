//! `larder-bench server`: larder against redis-server and nginx, by CPU time per request and by throughput.
mod clients;
mod rivals;
#[cfg(test)]
mod tests;

use crate::{
    machine,
    report::{self, Figure, Target, median},
    servers,
};
use clap::ValueEnum;
use rivals::{Rival, Sample, Setting};
use serde::Serialize;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// Compares a larder binary with redis-server and nginx: CPU time per request and throughput
///
/// All servers run at once on free ports of the loopback, each pinned to the first core with one worker; only the one under load is
/// awake. The client is pinned to the second core. CPU time per request is the server's user and system time (/proc/PID/stat) over the
/// load divided by the requests; throughput is what the client reports. Each run loads every server once before the next run begins; the
/// median of the runs counts. A warm-up precedes each load and says how many requests fill --seconds.
///
/// Redis protocol: redis-benchmark, GET of random keys out of 100,000 with values of 64 bytes, 50 connections, without pipeline (P1) and
/// with 16 commands at a time (P16); all keys are loaded before, a miss ends the program. redis-server runs with its defaults, without
/// persistence.
///
/// HTTP: wrk, 50 kept connections, one key: larder's /v1/kv/{key} (64 bytes) and /lookup?key= against nginx serving the same bytes as a
/// static file at its best: one process, open_file_cache, sendfile off (which is slower for small files), no log.
///
/// Misses: redis-benchmark as above against a larder that may hold one key, in front of the loaded redis-server, which for this runs on
/// --source-core (by default the client's, so that larder has a core to itself as with hits); compared with larder's hits. That the
/// requests did reach redis-server is checked by its counters.
///
/// One line for the machine, one per load and server with the medians and their range, then the ratios with their targets.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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
    load: Vec<Load>,
    /// Core of redis-server as the source of the misses
    #[arg(long, value_name = "CORE")]
    source_core: Option<usize>,
}

/// A way of loading servers: each compares a subject with a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Load {
    /// GET, one command at a time: larder and redis-server
    GetP1,
    /// GET, 16 commands at a time: larder and redis-server
    GetP16,
    /// HTTP GET of a value: larder and nginx
    HttpKv,
    /// HTTP GET /lookup: larder and nginx
    HttpLookup,
    /// GET, one command at a time: larder with keys that only its source has, and larder with keys in memory
    MissesP1,
    /// The same, 16 commands at a time
    MissesP16,
}

impl Load {
    /// Bounds on the ratios subject/reference of CPU time per request and of throughput.
    fn targets(self) -> (Option<Target>, Option<Target>) {
        match self {
            Load::GetP1 => (Some(Target::AtMost(0.95)), None),
            Load::GetP16 => (Some(Target::AtMost(0.6)), Some(Target::AtLeast(1.5))),
            Load::HttpKv => (Some(Target::AtMost(0.85)), None),
            Load::HttpLookup => (Some(Target::AtMost(0.9)), None),
            Load::MissesP1 => (None, Some(Target::AtLeast(0.5))),
            Load::MissesP16 => (None, None),
        }
    }
}

/// One server under one load.
#[derive(Debug, Serialize)]
struct Row {
    program: &'static str,
    load: Load,
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
struct Machine {
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
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let (server_core, client_core) = machine::server_and_client_core()?;
    let setting = Setting {
        larder: &args.larder,
        seconds: args.seconds,
        server_core,
        client_core,
        source_core: args.source_core.unwrap_or(client_core),
    };
<<<<<<< HEAD
    report::line(out, &machine(&setting)?)?;
=======
    report::line(out, &bench.machine()?)?;
>>>>>>> net
    let loads = if args.load.is_empty() { Load::value_variants() } else { &args.load };
    let mut figures = Vec::new();
    for &load in loads {
        let [subject, reference] = compare(&setting, args.runs, load)?;
        let (cpu, throughput) = load.targets();
        let name = |what| {
            let load = load.to_possible_value().map(|value| value.get_name().to_owned());
            format!("{} {what} {}/{}", load.unwrap_or_default(), subject.server, reference.server)
        };
        let quotient = subject.cpu_us_per_request / reference.cpu_us_per_request;
        figures.push(Figure::new("server", name("cpu"), quotient, cpu));
        let quotient = subject.per_second / reference.per_second;
        figures.push(Figure::new("server", name("throughput"), quotient, throughput));
        report::line(out, &subject)?;
        report::line(out, &reference)?;
    }
    for figure in figures {
        report::line(out, &figure)?;
    }
    Ok(())
}

/// Subject and reference under one load, run by run in turn.
fn compare(setting: &Setting<'_>, runs: u64, load: Load) -> anyhow::Result<[Row; 2]> {
    let rivals = setting.rivals(load)?;
    let sizes = [setting.warm_up(&rivals[0])?, setting.warm_up(&rivals[1])?];
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for ((rival, size), samples) in rivals.iter().zip(sizes).zip(&mut samples) {
            samples.push(setting.sample(rival, size)?);
        }
    }
<<<<<<< HEAD
    let row = |rival: &Rival, samples: &[Sample]| {
        let cpu: Vec<f64> = samples.iter().map(|sample| sample.cpu_us).collect();
        let rate: Vec<f64> = samples.iter().map(|sample| sample.per_second).collect();
        let low = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        Row {
            program: "server",
            load,
            server: rival.name,
            runs,
            requests: samples.iter().map(|sample| sample.requests).sum(),
            cpu_us_per_request: report::rounded(median(&cpu)),
            cpu_us_min: report::rounded(low(&cpu)),
            cpu_us_max: report::rounded(high(&cpu)),
            per_second: median(&rate).round(),
            per_second_min: low(&rate).round(),
            per_second_max: high(&rate).round(),
        }
    };
    Ok([row(&rivals[0], &samples[0]), row(&rivals[1], &samples[1])])
}

/// The machine and the versions.
fn machine(setting: &Setting<'_>) -> anyhow::Result<Machine> {
    let cpus = std::fs::read_to_string("/proc/cpuinfo")?;
    let cpu = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let version = |program: &Path, argument| -> anyhow::Result<String> {
        let output = Command::new(program).arg(argument).output()?;
        // nginx writes it to standard error.
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    };
    Ok(Machine {
        program: "server",
        cpu: cpu.map_or("unknown", |(_, model)| model).to_owned(),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        cores: machine::cores()?.len(),
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
=======

    fn redis(&self, pipeline: u32) -> anyhow::Result<Rival> {
        let server = servers::redis(Some(self.server_core))?;
        preload(&server)?;
        Ok(Rival { name: "redis-server", server, way: Way::Redis(pipeline), source: None })
    }

    fn larder(&self, way: Way) -> anyhow::Result<Rival> {
        let server = servers::larder(self.larder, Some(self.server_core), &["--max-memory", "256MiB"])?;
        preload(&server)?;
        Ok(Rival { name: "larder", server, way, source: None })
    }

    /// A larder that can keep one key of all those that its source has.
    fn misses(&self, pipeline: u32) -> anyhow::Result<Rival> {
        let source = servers::redis(Some(self.source_core))?;
        preload(&source)?;
        let url = format!("redis://{}", source.address);
        let arguments = ["--source", &url, "--max-keys", "1", "--max-memory", "256MiB"];
        Ok(Rival {
            name: "larder, all misses",
            server: servers::larder(self.larder, Some(self.server_core), &arguments)?,
            way: Way::Redis(pipeline),
            source: Some(source),
        })
    }

    /// Larder on `path`, and nginx with the very bytes that larder answers as a file.
    fn http(&self, path: &'static str) -> anyhow::Result<[Rival; 2]> {
        let larder = self.larder(Way::Http(path))?;
        let mut client = Http::connect(larder.http_address()?, TIMEOUT)?;
        let answer = client.get(path)?;
        ensure!(answer.status == 200, "larder answers {path} with {}", answer.status);
        let nginx = Rival {
            name: "nginx",
            server: servers::nginx(Some(self.server_core), &[("file", &answer.body)])?,
            way: Way::Http("/file"),
            source: None,
        };
        Ok([larder, nginx])
    }

    /// A short load; the number of requests that makes the load long enough.
    fn warm_up(&self, rival: &Rival) -> anyhow::Result<u64> {
        const FIRST: u64 = 50_000;
        let done = match rival.way {
            Way::Redis(pipeline) => {
                let requests = FIRST * u64::from(pipeline);
                clients::redis_benchmark(self.client_core, rival.server.address, KEYS, pipeline, requests)?
            }
            Way::Http(path) => clients::wrk(self.client_core, rival.http_address()?, path, 1)?,
        };
        Ok((done.per_second * self.seconds as f64) as u64)
    }

    fn sample(&self, rival: &Rival, requests: u64) -> anyhow::Result<Sample> {
        let process = rival.server.process();
        let found_by = rival.source.as_ref().unwrap_or(&rival.server);
        let found = |way: &Way| match way {
            Way::Redis(_) => keyspace_hits(found_by),
            // wrk looks at every answer's status.
            Way::Http(_) => Ok(0),
        };
        let (hits_before, cpu_before) = (found(&rival.way)?, process.cpu_time()?);
        let done = match rival.way {
            Way::Redis(pipeline) => {
                clients::redis_benchmark(self.client_core, rival.server.address, KEYS, pipeline, requests)?
            }
            Way::Http(path) => clients::wrk(self.client_core, rival.http_address()?, path, self.seconds)?,
        };
        let cpu = process.cpu_time()? - cpu_before;
        if let Way::Redis(_) = rival.way {
            let found = found(&rival.way)? - hits_before;
            // Concurrent misses of one key may share a fetch, so a source sees somewhat less.
            let expected = done.requests - done.requests / 20;
            ensure!(
                found >= expected,
                "{}: {} requests, but only {found} keys found by {}",
                rival.name,
                done.requests,
                found_by.name
            );
        }
        Ok(Sample {
            requests: done.requests,
            cpu_us: cpu.as_secs_f64() * 1e6 / done.requests as f64,
            per_second: done.per_second,
        })
    }

    fn machine(&self) -> anyhow::Result<Machine> {
        let cpus = std::fs::read_to_string("/proc/cpuinfo")?;
        let cpu = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let version = |program: &Path, argument| -> anyhow::Result<String> {
            let output = Command::new(program).arg(argument).output()?;
            // nginx writes it to standard error.
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            Ok(text.lines().next().unwrap_or_default().trim().to_owned())
        };
        Ok(Machine {
            program: "server",
            cpu: cpu.map_or("unknown", |(_, model)| model).to_owned(),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cores: machine::cores()?.len(),
            server_core: self.server_core,
            client_core: self.client_core,
            source_core: self.source_core,
            versions: vec![
                version(self.larder, "--version")?,
                version(&servers::require("redis-server")?, "--version")?,
                version(&servers::require("nginx")?, "-v")?,
                version(&servers::require("wrk")?, "-v")?,
            ],
        })
    }
}

impl Rival {
    fn http_address(&self) -> anyhow::Result<std::net::SocketAddr> {
        let http = self.server.http;
        http.with_context(|| format!("{} has no HTTP address", self.name))
    }
}

/// Stores all keys, and sees that they are there.
fn preload(server: &Server) -> anyhow::Result<()> {
    let mut client = Resp::connect(server.address, TIMEOUT)?;
    client.load(KEYS, |number, key, value| {
        *key = format!("key:{number:012}").into_bytes();
        value.clear();
        value.extend_from_slice(&VALUE);
    })?;
    let held = client.count()?;
    ensure!(held == KEYS, "{} holds {held} of {KEYS} keys", server.name);
    Ok(())
}

/// `keyspace_hits` of INFO: how often the server found a key.
fn keyspace_hits(server: &Server) -> anyhow::Result<u64> {
    let reply = Resp::connect(server.address, TIMEOUT)?.call(&[b"INFO", b"stats"])?;
    let Reply::Bulk(Some(info)) = reply else {
        bail!("{} answered INFO with {reply:?}", server.name);
    };
    String::from_utf8_lossy(&info)
        .lines()
        .find_map(|line| line.strip_prefix("keyspace_hits:")?.trim().parse().ok())
        .with_context(|| format!("{}'s INFO has no keyspace_hits", server.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(larder: &Path) -> Bench<'_> {
        let cores = machine::cores().expect("cores");
        let (first, last) = (cores[0], cores[cores.len() - 1]);
        Bench { larder, runs: 1, seconds: 1, server_core: first, client_core: last, source_core: last }
    }

    #[test]
    fn a_load_is_measured_and_counted() {
        let bench = bench(Path::new("/bin/true"));
        let redis = bench.redis(16).expect("redis-server starts");
        let sample = bench.sample(&redis, 20_000).expect("measured");
        assert_eq!(sample.requests, 20_000);
        assert!(sample.per_second > 0.0);
    }

    #[test]
    fn keys_that_are_not_there_end_the_program() {
        let bench = bench(Path::new("/bin/true"));
        let redis = bench.redis(1).expect("redis-server starts");
        let mut client = Resp::connect(redis.server.address, TIMEOUT).expect("connect");
        client.call(&[b"FLUSHALL"]).expect("answers");
        let error = bench.sample(&redis, 2000).expect_err("nothing was found");
        assert!(error.to_string().contains("only 0 keys"), "{error}");
    }

    #[test]
    fn http_answers_are_counted() {
        let bench = bench(Path::new("/bin/true"));
        let nginx = Rival {
            name: "nginx",
            server: servers::nginx(None, &[("file", &VALUE)]).expect("nginx starts"),
            way: Way::Http("/file"),
            source: None,
        };
        assert!(bench.sample(&nginx, 0).expect("measured").requests > 100);
        let absent = Rival { way: Way::Http("/absent"), ..nginx };
        let error = bench.sample(&absent, 0).expect_err("404s");
        assert!(error.to_string().contains("Non-2xx"), "{error}");
    }
>>>>>>> net
}
