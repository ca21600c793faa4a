//! `larder-bench store`: Larder's disk store beside fjall in process, on the same operations.
use crate::lib::{
    figures,
    load::{
        self, GeneratorOptions, Interrupt, LoadPlan, RunEnd,
        keys::{KeyDistribution, KeySpace, Names},
        ops::{Mix, Verb},
        target::TargetUrl,
    },
    results::summary::{RunSummary, Series},
    servers,
};
use anyhow::{Context, ensure};
use fastrand::Rng;
use serde::Serialize;
use std::{
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Larder's disk store against fjall in process
///
/// Loads --keys keys `1..N` with values of --value bytes into fjall, then writes and reads random
/// ones for --duration each, with one thread and with two. Then the same through larder: loads the
/// keys over the Redis protocol, sends --rate PUT/s and GET/s of random keys over one connection on
/// a fixed schedule (latency from the intended start) for --duration each, and then as many writes
/// and reads as --connections connections get answered in a closed loop, over HTTP (`/v0/entity`)
/// and over the Redis protocol, with one request in flight on each and with 16. The memory tier is
/// small (64 MiB), so that most reads go to the store. Everything is written under --dir, and
/// removed.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The larder binary
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// Where the stores are made
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Number of keys
    #[arg(long, default_value_t = 5_000_000)]
    keys: u64,
    /// Bytes of each value
    #[arg(long, default_value_t = 103)]
    value: usize,
    /// Length of each measurement
    #[arg(long, default_value = "60s", value_parser = larder_units::parse_duration)]
    duration: Duration,
    /// Requests per second of the open loop
    #[arg(long, default_value_t = 20_000.0)]
    rate: f64,
    /// Connections of the closed loop
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Leave fjall out
    #[arg(long)]
    no_fjall: bool,
}

/// One measurement in process.
#[derive(Debug, Serialize)]
struct InProcess {
    program: &'static str,
    name: String,
    threads: usize,
    operations: u64,
    duration_s: f64,
    throughput: f64,
}

/// Runs the program.
pub(crate) fn run(args: &StoreArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.dir)?;
    let (fjall, larder) = (args.dir.join("fjall"), args.dir.join("larder"));
    ensure!(!fjall.exists() && !larder.exists(), "{} holds stores already", args.dir.display());
    if !args.no_fjall {
        let done = in_process(args, &fjall, out);
        std::fs::remove_dir_all(&fjall)?;
        done?;
    }
    let done = through_larder(args, &larder, out);
    std::fs::remove_dir_all(&larder)?;
    done
}

fn in_process(args: &StoreArgs, dir: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let db = fjall::Database::builder(dir).cache_size(256 << 20).open()?;
    let entries = db.keyspace("entries", fjall::KeyspaceCreateOptions::default)?;
    let value = vec![b'v'; args.value];
    let begun = Instant::now();
    for key in 1..=args.keys {
        entries.insert(key.to_string(), value.as_slice())?;
    }
    let took = begun.elapsed();
    let line = |name: &str, threads, operations, took: Duration| InProcess {
        program: "store",
        name: format!("fjall in process, {name}"),
        threads,
        operations,
        duration_s: took.as_secs_f64(),
        throughput: operations as f64 / took.as_secs_f64(),
    };
    figures::line(out, &line("load", 1, args.keys, took))?;
    for threads in [1, 2] {
        for (name, writes) in [("put", true), ("get", false)] {
            let begun = Instant::now();
            let count = |seed| -> anyhow::Result<u64> {
                let (mut random, mut count) = (Rng::with_seed(seed), 0);
                while begun.elapsed() < args.duration {
                    // The clock is looked at now and then.
                    for _ in 0..64 {
                        let key = random.u64(1..=args.keys).to_string();
                        match writes {
                            true => entries.insert(key, value.as_slice())?,
                            false => ensure!(entries.get(key)?.is_some(), "a key is missing"),
                        }
                        count += 1;
                    }
                }
                Ok(count)
            };
            let operations = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..threads).map(|seed| scope.spawn(move || count(seed))).collect();
                let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                threads.into_iter().map(join).sum::<anyhow::Result<u64>>()
            })?;
            figures::line(out, &line(name, threads as usize, operations, begun.elapsed()))?;
        }
    }
    Ok(())
}

fn through_larder(args: &StoreArgs, dir: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let source = format!("disk:{}", dir.display());
    let options = ["--source", &source, "--max-memory", "64MiB", "--store-block-cache", "256MiB", "--threads", "2"];
    let server = servers::larder(&args.larder, None, &options)?;
    // As fjall's, its `PUT` does not look for what was there before.
    let entity = "/v0/entity?id={key}";
    let http = format!("http://{}{entity}", server.http.context("larder's ready line names no HTTP address")?);
    let redis = format!("redis://{}", server.address);
    let client = |connections, pipeline| GeneratorOptions { connections, pipeline, ..GeneratorOptions::default() };
    let plan = |url: &str, verb: Verb, client: GeneratorOptions, rate| -> anyhow::Result<LoadPlan> {
        Ok(LoadPlan {
            target: TargetUrl::parse(url)?,
            mix: Mix::new(vec![(verb, 1.0)])?,
            keys: KeySpace { count: args.keys, names: Names::pattern("{n}")?, distribution: KeyDistribution::Uniform },
            sizes: args.value.to_string().parse()?,
            rate,
            played: None,
            stop: RunEnd::After(args.duration),
            warm_up: Duration::ZERO,
            slice: load::slice(args.duration),
            interrupt: Interrupt::default(),
            client,
        })
    };
    let mut measure = |name: &str, plan: &LoadPlan| -> anyhow::Result<()> {
        let mut series = Series::default();
        let outcome = load::run(plan, &mut |slice| series.add(slice, plan.slice.as_secs_f64()))?;
        figures::line(out, &RunSummary::new("store", Some(name), plan, &outcome, series))
    };
    let begun = Instant::now();
    load::preload(&plan(&redis, Verb::Set, client(1, 1), None)?, "")?;
    eprintln!("loaded {} keys in {:?}", args.keys, begun.elapsed());
    let protocols = [("HTTP", &http), ("Redis", &redis)];
    for (protocol, url) in protocols {
        for (name, verb) in [("put", Verb::Set), ("get", Verb::Get)] {
            let plan = plan(url, verb, client(1, 64), Some(args.rate))?;
            measure(&format!("larder, {name}, {protocol}, 1 connection, open loop"), &plan)?;
        }
    }
    for (protocol, url) in protocols {
        for pipeline in [1, 16] {
            for (name, verb) in [("put", Verb::Set), ("get", Verb::Get)] {
                let plan = plan(url, verb, client(args.connections, pipeline), None)?;
                measure(&format!("larder, {name}, {protocol}, closed loop, {pipeline} in flight"), &plan)?;
            }
        }
    }
    Ok(())
}
