//! `larder-bench snapshot`: what snapshots cost those who are served meanwhile, and what they bring
//! after a restart.
use crate::lib::{
    blocking_clients::RespClient,
    dataset::Dataset,
    figures::{self, Figure, FigureTarget, median},
    load::{
        self, GeneratorOptions, Interrupt, LoadPlan, RunEnd,
        keys::{KeyDistribution, KeySpace, Names},
        ops::{Mix, Verb},
        target::TargetUrl,
        zipf::Zipf,
    },
    machine,
    servers::{self, ServerProcess},
};
use anyhow::{Context, ensure};
use fastrand::Rng;
use larder_engine::{Cache, Config, Write as Stored};
use larder_store::snapshot::{Load, SnapshotCompression, SnapshotReader, save};
use rustix::time::{ClockId, clock_gettime};
use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// What snapshots cost and what they bring
///
/// Starts the larder binary on one core, with one thread and --entries entries (UUIDs, values of 64
/// bytes), and sends --rate GETs per second from another core, on a fixed schedule (latency from
/// the intended start), in turns: without snapshots, and while one follows the other without a
/// pause. The first figure is the quotient of the medians of both p99 over --runs turns. The
/// server's memory is looked at 100 times a second; what the snapshots add to it is divided by the
/// bound.
///
/// Then in process, on one core: the CPU time of a load of that file, for each compression its
/// bytes per entry, and hit ratios: a cache that holds a tenth of the keys of a Zipf distribution
/// (exponent 0.9) is filled by misses; then the same reads go to it and to one that was restored
/// from a snapshot of it, as many as a minute has at --rate.
#[derive(Debug, clap::Args)]
pub(crate) struct SnapshotArgs {
    /// The larder binary
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// Number of entries
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    entries: u64,
    /// GETs per second
    #[arg(long, default_value_t = 20_000.0)]
    rate: f64,
    /// Connections of the client
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Length of each measurement
    #[arg(long, default_value = "10s", value_parser = larder_units::parse_duration)]
    duration: Duration,
    /// Turns, of which the medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// The compression that is served with
    #[arg(long, default_value = "lz4")]
    compression: String,
}

const PROGRAM: &str = "snapshot";
const VALUE: usize = 64;
const MAX_MEMORY: u64 = 256 << 20;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the program.
pub(crate) fn run(args: &SnapshotArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("snapshot");
    served(args, &file, out)?;
    // The rest is measured on one core.
    machine::pin(machine::server_and_client_core()?.0)?;
    restores(args, &file, out)?;
    hit_ratios(args, &file, out)
}

/// Latencies and memory of a server.
fn served(args: &SnapshotArgs, file: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let (server_core, client_core) = machine::server_and_client_core()?;
    let bound = MAX_MEMORY.max(args.entries * 256).to_string();
    let path = file.display().to_string();
    let options = ["--max-memory", &bound, "--snapshot-file", &path, "--snapshot-compression", &args.compression];
    let server = servers::larder(&args.larder, Some(server_core), &options)?;
    let plan = |verb| -> anyhow::Result<LoadPlan> {
        Ok(LoadPlan {
            target: TargetUrl::parse(&format!("redis://{}", server.address))?,
            mix: Mix::new(vec![(verb, 1.0)])?,
            keys: KeySpace {
                count: args.entries,
                names: Names::pattern("{uuid}")?,
                distribution: KeyDistribution::Uniform,
            },
            sizes: VALUE.to_string().parse()?,
            rate: Some(args.rate),
            played: None,
            stop: RunEnd::After(args.duration),
            warm_up: Duration::from_millis(500),
            slice: load::slice(args.duration),
            interrupt: Interrupt::default(),
            client: GeneratorOptions {
                connections: args.connections,
                timeout: TIMEOUT,
                error_status: "4xx,5xx".parse().expect("statuses"),
                spin: true,
                pin: vec![client_core],
                ..GeneratorOptions::default()
            },
        })
    };
    load::preload(&plan(Verb::Set)?, "")?;
    let mut client = RespClient::connect(server.address, TIMEOUT)?;
    ensure!(client.count()? == args.entries, "{} of {} entries are there", client.count()?, args.entries);
    let (mut without, mut with, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.runs {
        for (snapshots, p99s) in [(false, &mut without), (true, &mut with)] {
            let watch = Watch::default();
            let outcome = std::thread::scope(|scope| {
                let saving = snapshots.then(|| scope.spawn(|| watch.keep_saving(&server)));
                let outcome = load::run(&plan(Verb::Get)?, &mut |_| {});
                watch.stop.store(true, Relaxed);
                saving.map(|saving| saving.join().expect("it does not panic")).transpose()?;
                outcome
            })?;
            ensure!(outcome.total.counts.all_errors() == 0, "some GETs failed");
            let micros = |quantile| outcome.total.latency.value_at_quantile(quantile) as f64 / 1000.0;
            let name = if snapshots { "during snapshots" } else { "without" };
            for (label, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
                figures::line(out, &Figure::new(PROGRAM, format!("GET {name}, {label}, us"), micros(quantile), None))?;
            }
            p99s.push(micros(0.99));
            if snapshots {
                let saves = watch.saves.load(Relaxed);
                figures::line(out, &Figure::new(PROGRAM, "snapshots in one run".into(), saves as f64, None))?;
                added.push(watch.peak.load(Relaxed).saturating_sub(watch.before.load(Relaxed)) as f64);
            }
        }
    }
    let ratio = median(&with) / median(&without);
    figures::line(
        out,
        &Figure::new(PROGRAM, "p99 of GETs during snapshots / without".into(), ratio, Some(FigureTarget::AtMost(1.5))),
    )?;
    let bound: f64 = bound.parse()?;
    let share = median(&added) / bound * 100.0;
    let name = "memory that a snapshot adds, per cent of max-memory".to_owned();
    figures::line(out, &Figure::new(PROGRAM, name, share, Some(FigureTarget::AtMost(5.0))))?;
    // What was written last is what is loaded below.
    client.call(&[b"SAVE"]).context("SAVE")?;
    Ok(())
}

/// Has a server write snapshots, and looks at its memory meanwhile.
#[derive(Default)]
struct Watch {
    stop: AtomicBool,
    saves: AtomicU64,
    before: AtomicU64,
    peak: AtomicU64,
}

impl Watch {
    fn keep_saving(&self, server: &ServerProcess) -> anyhow::Result<()> {
        let mut client = RespClient::connect(server.address, TIMEOUT)?;
        self.before.store(server.process().resident_bytes()?, Relaxed);
        while !self.stop.load(Relaxed) {
            client.call(&[b"BGSAVE"])?;
            while client.info("persistence", "rdb_bgsave_in_progress:")? == Some(1) {
                self.peak.fetch_max(server.process().resident_bytes()?, Relaxed);
                std::thread::sleep(Duration::from_millis(10));
                if self.stop.load(Relaxed) {
                    break;
                }
            }
            self.saves.fetch_add(1, Relaxed);
        }
        // The next run is without.
        while client.info("persistence", "rdb_bgsave_in_progress:")? == Some(1) {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

fn cache(max_memory: u64) -> Arc<Cache> {
    Cache::new(Config { max_memory: max_memory as usize, seed: None, ..Config::default() })
}

/// CPU time of this thread: what else runs on the machine does not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The time of a load of the server's file, and bytes per entry.
fn restores(args: &SnapshotArgs, file: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut times = Vec::new();
    let mut loaded = None;
    for _ in 0..args.runs {
        let to = cache(MAX_MEMORY.max(args.entries * 256));
        let begun = cpu_time();
        let load = Load::new([("default", &to)]);
        let done = load.run(SnapshotReader::open(file)?, &mut |_, _| Ok(()))?;
        drop(load);
        times.push((cpu_time() - begun).as_secs_f64());
        ensure!(done.restored == args.entries, "{} of {} entries were restored", done.restored, args.entries);
        loaded = Some(to);
    }
    let seconds = median(&times) * 1e6 / args.entries as f64;
    let name = format!("CPU seconds to load 1 million entries, {}", args.compression);
    figures::line(out, &Figure::new(PROGRAM, name, seconds, Some(FigureTarget::AtMost(1.0))))?;
    let Some(loaded) = loaded else { return Ok(()) };
    for name in SnapshotCompression::NAMES {
        let begun = cpu_time();
        let other = file.with_extension(name);
        let saved =
            save(&other, None, &[("default", &*loaded).into()], SnapshotCompression::from_name(name), &mut |_| Ok(()))?;
        let took = (cpu_time() - begun).as_secs_f64();
        let each = saved.bytes as f64 / saved.entries() as f64;
        figures::line(out, &Figure::new(PROGRAM, format!("bytes of the file per entry, {name}"), each, None))?;
        figures::line(out, &Figure::new(PROGRAM, format!("CPU seconds to write it, {name}"), took, None))?;
        let begun = cpu_time();
        let to = cache(MAX_MEMORY.max(args.entries * 256));
        Load::new([("default", &to)]).run(SnapshotReader::open(&other)?, &mut |_, _| Ok(()))?;
        let took = (cpu_time() - begun).as_secs_f64();
        figures::line(out, &Figure::new(PROGRAM, format!("CPU seconds to load it, {name}"), took, None))?;
    }
    Ok(())
}

/// Reads that store what they miss.
struct Reads {
    zipf: Zipf,
    dataset: Dataset,
    random: Rng,
}

impl Reads {
    fn run(&mut self, cache: &Cache, reads: u64) -> anyhow::Result<f64> {
        let (mut key, mut value, mut hits) = (Vec::new(), Vec::new(), 0);
        for _ in 0..reads {
            let number = self.zipf.sample(&mut self.random);
            self.dataset.key(number, &mut key);
            let key = cache.key(&key);
            if cache.tier().get(key, 0, |_| ()).is_some() {
                hits += 1;
            } else {
                self.dataset.value(number, 0, &mut value);
                cache.tier().set(key, Stored::new(&value), 0)?;
            }
        }
        Ok(hits as f64 / reads as f64)
    }
}

fn hit_ratios(args: &SnapshotArgs, file: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let keys = args.entries;
    // About a tenth of them.
    let bound = (keys * 11).max(8 << 20);
    let reads = || Reads { zipf: Zipf::new(keys, 0.9), dataset: Dataset::uuid(), random: Rng::with_seed(1) };
    let minute = (args.rate * 60.0) as u64;
    let (mut warm, first) = (reads(), cache(bound));
    warm.run(&first, 10 * keys)?;
    let state = warm.random.get_seed();
    save(file, None, &[("default", &*first).into()], SnapshotCompression::None, &mut |_| Ok(()))?;
    let measured = |cache: &Cache| {
        let mut next = Reads { random: Rng::with_seed(state), ..reads() };
        next.run(cache, minute)
    };
    let before = measured(&first)?;
    let (restored, empty) = (cache(bound), cache(bound));
    Load::new([("default", &restored)]).run(SnapshotReader::open(file)?, &mut |_, _| Ok(()))?;
    let after = measured(&restored)?;
    let from_nothing = measured(&empty)?;
    for (name, ratio) in
        [("without a restart", before), ("after a restore", after), ("after a start without", from_nothing)]
    {
        figures::line(
            out,
            &Figure::new(PROGRAM, format!("hit ratio in a minute, per cent, {name}"), ratio * 100.0, None),
        )?;
    }
    let lost = (before - after) * 100.0;
    let name = "points of hit ratio that a restart costs in the first minute".to_owned();
    figures::line(out, &Figure::new(PROGRAM, name, lost, Some(FigureTarget::AtMost(1.0))))
}
