//! `larder-bench cassandra`: Larder in front of Cassandra.
use crate::lib::{
    blocking_clients::{RedisReply, RespClient},
    cql_client::CqlClient,
    figures::{self, Figure, FigureTarget, in_turn},
    load::zipf::Zipf,
    machine,
    results::{chart::Axis, chart_file::file, origin, server_use::ServerWatch},
    servers::{self, ServerProcess, Start},
};
use anyhow::{Context, ensure};
use serde::Serialize;
use std::{
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Measures Larder in front of one node of Cassandra: misses, writes, hot keys, the node's CPU time
///
/// The node and Larder run on one core, all clients on another. miss: GETs of keys that were never
/// read, one at a time, beside the same read prepared by the driver, and hits; in turn, medians
/// count. set: the same with SET, and the driver's write. hot: 64 clients read 100 keys through one
/// Larder and through three; how often the cluster was asked, for each key and lifetime. cpu: reads
/// of keys by Zipf's law (0.99), so many a second, by the driver and through Larder; CPU time of the
/// node.
///
/// Prints a line for each figure; with --out also a chart.
#[derive(Debug, clap::Args)]
pub(crate) struct CassandraArgs {
    /// The larder binary (a release build)
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// Only these parts: miss, set, hot, cpu
    #[arg(long, value_delimiter = ',')]
    part: Vec<String>,
    /// Length of each load
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Folder for the chart
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const PARTS: [&str; 4] = ["miss", "set", "hot", "cpu"];
const TIMEOUT: Duration = Duration::from_secs(10);
const KEYS: u64 = 40_000;
/// Reads a second of the part `cpu`.
const RATES: [u64; 4] = [500, 1_000, 2_000, 4_000];
/// How often they are sent.
const BEAT: Duration = Duration::from_millis(10);

struct Bench<'a> {
    args: &'a CassandraArgs,
    database: ServerProcess,
    cql: CqlClient,
    cores: (usize, usize),
    length: Duration,
}

/// Runs the program.
pub(crate) fn run(args: &CassandraArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let unknown = args.part.iter().find(|part| !PARTS.contains(&&part[..]));
    ensure!(unknown.is_none(), "--part {} is none of {}", unknown.map_or("", |part| part), PARTS.join(", "));
    let cores = machine::server_and_client_core()?;
    machine::pin(cores.1)?;
    let database = node(cores.0)?;
    let cql = CqlClient::connect(database.address)?;
    let all: Vec<String> = (0..KEYS).map(name).collect();
    all.chunks(100).try_for_each(|some| cql.set(some, 0))?;
    let bench = Bench { args, database, cql, cores, length: Duration::from_secs(args.seconds) };
    for part in PARTS.iter().filter(|part| args.part.is_empty() || args.part.iter().any(|of| of == *part)) {
        match *part {
            "miss" => bench.beside_the_driver(out, false)?,
            "set" => bench.beside_the_driver(out, true)?,
            "hot" => [1, 3].into_iter().try_for_each(|larders| bench.hot_keys(out, larders))?,
            _ => {
                let loads = bench.cpu(out)?;
                let Some(folder) = &args.out else { continue };
                std::fs::create_dir_all(folder)?;
                let path = folder.join("node-cpu.svg");
                std::fs::write(&path, chart(&loads, &origin::of_this_run()?))
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// A node of its own, from the jars of the tests.
fn node(core: usize) -> anyhow::Result<ServerProcess> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let jars = repository.join(".deps/cassandra").canonicalize().context("`make tools` brings Cassandra's jars")?;
    let text = |file: &str| std::fs::read(repository.join("tests/cassandra").join(file));
    let files = ["cassandra.yaml", "jvm.options", "logback.xml"].map(|file| Ok((file.to_owned(), text(file)?)));
    let files: Vec<_> = files.into_iter().collect::<std::io::Result<_>>()?;
    let ports = [servers::free_port()?, servers::free_port()?];
    let [storage, tls_storage] = ports.each_ref().map(|port| port.address.port().to_string());
    let set = [("jars", &*jars.to_string_lossy()), ("storage", &storage[..]), ("tls-storage", &tls_storage)];
    servers::start("cassandra", Start { core: Some(core), files: &files, set: &set, ..Start::default() })
}

fn name(number: u64) -> String {
    format!("key:{number}")
}

fn figure(out: &mut dyn Write, name: String, value: f64, target: Option<FigureTarget>) -> anyhow::Result<()> {
    figures::line(out, &Figure::new("cassandra", name, value, target))
}

impl Bench<'_> {
    fn larder(&self, ttl: &str) -> anyhow::Result<ServerProcess> {
        let source = format!("cassandra://{}/shop", self.database.address);
        let more = ["--source", &source, "--max-memory", "256MiB", "--ttl", ttl];
        servers::larder(&self.args.larder, Some(self.cores.0), &more)
    }

    fn beside_the_driver(&self, out: &mut dyn Write, writes: bool) -> anyhow::Result<()> {
        const TURNS: u64 = 9;
        const REQUESTS: u64 = 1_000;
        let larder = self.larder("1h")?;
        let mut client = RespClient::connect(larder.address, TIMEOUT)?;
        let [driver, through, hit] = in_turn(TURNS, REQUESTS, |turn, kind| {
            let first = turn * 2 * REQUESTS;
            let (through, direct) = (first..first + REQUESTS, first + REQUESTS..first + 2 * REQUESTS);
            let is_right = |value| {
                ensure!(value == Some(0), "a wrong row");
                anyhow::Ok(())
            };
            match (kind, writes) {
                (0, true) => direct.into_iter().try_for_each(|key| self.cql.set(&[name(key)], 0)),
                (1, true) => through.into_iter().try_for_each(|key| {
                    let reply = client.call(&[b"SET", name(key).as_bytes(), b"0"])?;
                    ensure!(reply == RedisReply::Status("OK".into()), "SET was answered {reply:?}");
                    Ok(())
                }),
                (0, false) => direct.into_iter().try_for_each(|key| is_right(self.cql.values(&[name(key)])?[0])),
                // Not found, then found.
                _ => through.into_iter().try_for_each(|key| is_right(client.value(&name(key))?)),
            }
        })?;
        let (what, of_driver) = if writes { ("SET", "write") } else { ("miss", "read") };
        figure(out, format!("{of_driver} by the driver, us"), driver, None)?;
        figure(out, format!("{what}, us"), through, None)?;
        figure(out, format!("hit beside {what}, us"), hit, None)?;
        let target = Some(FigureTarget::AtMost(1.2));
        figure(out, format!("{what}/({of_driver}+hit)"), through / (driver + hit), target)
    }

    /// Clients of all Larders, which read the same keys.
    fn hot_keys(&self, out: &mut dyn Write, larders: usize) -> anyhow::Result<()> {
        const CLIENTS: usize = 64;
        const HOT: u64 = 100;
        const TTL: Duration = Duration::from_secs(2);
        let larders: Vec<_> = (0..larders).map(|_| self.larder("2s")).collect::<anyhow::Result<_>>()?;
        let keys: Vec<String> = (0..HOT).map(name).collect();
        let begun = Instant::now();
        let reads = thread::scope(|scope| {
            let read = |client: usize| {
                let (larder, keys) = (&larders[client % larders.len()], &keys);
                let length = self.length;
                scope.spawn(move || {
                    let (mut client, mut reads) = (RespClient::connect(larder.address, TIMEOUT)?, 0);
                    while begun.elapsed() < length {
                        ensure!(client.values(keys)?.iter().all(|value| *value == Some(0)), "a wrong row");
                        reads += HOT;
                    }
                    anyhow::Ok(reads)
                })
            };
            let threads: Vec<_> = (0..CLIENTS).map(read).collect();
            let joined =
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(|of| std::panic::resume_unwind(of)));
            joined.sum::<anyhow::Result<u64>>()
        })?;
        // A lifetime that has begun counts whole.
        let lifetimes = 1 + begun.elapsed().as_millis() / TTL.as_millis();
        let mut fetches = 0;
        for larder in &larders {
            let counted = RespClient::connect(larder.address, TIMEOUT)?.info("larder", "larder_source_fetches:")?;
            fetches += counted.context("INFO names the fetches")?;
        }
        let (count, asked) = (larders.len(), fetches as f64 / (HOT as f64 * lifetimes as f64));
        figure(out, format!("reads of hot keys through {count} Larders"), reads as f64, None)?;
        let target = Some(FigureTarget::AtMost(count as f64));
        figure(out, format!("fetches per hot key and lifetime, {count} Larders"), asked, target)
    }

    fn cpu(&self, out: &mut dyn Write) -> anyhow::Result<Vec<Load>> {
        let larder = self.larder("10s")?;
        let most = RATES.into_iter().max().unwrap_or(1);
        // The node compiles its own code meanwhile, and Larder is filled.
        for through in [None, Some(&larder)] {
            self.load(through, most)?;
        }
        let (watch, begun) = (ServerWatch::begin(self.database.id())?, Instant::now());
        thread::sleep(self.length);
        figure(out, "cores of the idle node".to_owned(), watch.end(1)?.cpu_s / begun.elapsed().as_secs_f64(), None)?;
        let mut loads = Vec::new();
        for rate in RATES {
            for through in [None, Some(&larder)] {
                let load = self.load(through, rate)?;
                figures::line(out, &load)?;
                loads.push(load);
            }
        }
        Ok(loads)
    }

    /// Reads so many keys a second.
    fn load(&self, larder: Option<&ServerProcess>, reads_per_second: u64) -> anyhow::Result<Load> {
        let mut client = larder.map(|of| RespClient::connect(of.address, TIMEOUT)).transpose()?;
        let (zipf, mut random) = (Zipf::new(KEYS, 0.99), fastrand::Rng::with_seed(reads_per_second));
        let (watch, begun, mut sent) = (ServerWatch::begin(self.database.id())?, Instant::now(), 0u64);
        while begun.elapsed() < self.length {
            let due = (begun.elapsed().as_secs_f64() * reads_per_second as f64) as u64;
            let keys: Vec<String> = (sent..due).map(|_| name(zipf.sample(&mut random))).collect();
            sent = due;
            match &mut client {
                Some(client) => drop(client.values(&keys)?),
                None => drop(self.cql.values(&keys)?),
            }
            thread::sleep(BEAT);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let node_cores = figures::rounded(watch.end(sent)?.cpu_s / seconds);
        let read = sent as f64 / seconds;
        ensure!(read > 0.9 * reads_per_second as f64, "only {read:.0} reads a second were made");
        let through = if larder.is_some() { "Larder" } else { "the driver alone" };
        Ok(Load { program: "cassandra", through, reads_per_second, node_cores })
    }
}

/// What the node used under a load.
#[derive(Debug, Clone, Serialize)]
struct Load {
    program: &'static str,
    through: &'static str,
    reads_per_second: u64,
    node_cores: f64,
}

fn chart(loads: &[Load], origin: &str) -> String {
    let lines = ["Larder", "the driver alone"].map(|through| {
        let points = loads.iter().filter(|load| load.through == through);
        (through, points.map(|load| (load.reads_per_second as f64, load.node_cores)).collect::<Vec<_>>())
    });
    let x = Axis::linear(RATES.into_iter().max().unwrap_or(1) as f64, "reads per second");
    let y = Axis::linear(loads.iter().map(|load| load.node_cores).fold(0.0, f64::max), "cores of the node");
    file("CPU time of the node, keys by Zipf's law (0.99)", &x, &y, lines.into_iter().map(Into::into).collect(), origin)
}

#[test]
fn the_chart_has_both() {
    let load = |through| Load { program: "cassandra", through, reads_per_second: 500, node_cores: 0.5 };
    let chart = chart(&["Larder", "the driver alone"].map(load), "then");
    assert!(chart.contains(">Larder<") && chart.contains(">the driver alone<"));
}
