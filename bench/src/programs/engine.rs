//! `larder-bench engine`: throughput of the memory tier in process.
use crate::lib::{
    dataset::Dataset,
    figures::{self, Figure, FigureTarget, median},
    machine,
    rival_caches::{Larder, Moka, QuickCache, RivalCache},
};
use anyhow::ensure;
use serde::Serialize;
use std::{
    io::Write,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

/// Get and set throughput in process: larder's engine, moka and quick_cache
///
/// The key set is that of `larder-bench memory`: UUID keys (36 bytes), values of 20 to 50 bytes.
/// Every cache holds all of them. A run goes through all keys once, in a random order, shuffled
/// beforehand and laid out in memory in that order, so that walking it costs next to nothing;
/// threads share it in equal parts, are pinned to one core each and start together; the time is
/// from the first start to the last end.
///
/// Operations: `fill` (all keys into a new cache, by one thread), `get` (all hits; by borrowed key;
/// larder copies the value into a buffer of the caller, the others clone an Arc<[u8]>) and `set`
/// (overwrites with another value; the others must allocate an owned key and value, as their
/// interfaces ask of a server that has borrowed bytes). All with their default hashers and shards;
/// larder is ticked meanwhile as the server does.
///
/// Each run measures every cache once before the next run begins; the median of the runs counts.
/// One line per cache, operation and number of threads with median, minimum and maximum in
/// operations per second; then the ratios with their targets: get at least 3 times moka's and 1.3
/// times quick_cache's, set at least 3 times moka's (one thread), two threads at least 1.7 times
/// one (larder).
#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Number of keys
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    entries: u64,
    /// Runs, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
}

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum EngineOperation {
    Fill,
    Get,
    Set,
}

#[derive(Debug, Serialize)]
struct Row {
    program: &'static str,
    // Kept results have this name.
    #[serde(rename = "contender")]
    cache: &'static str,
    operation: EngineOperation,
    threads: usize,
    entries: u64,
    runs: u64,
    per_second: f64,
    min: f64,
    max: f64,
}

/// A key, and a value with its length.
type WalkEntry = ([u8; 36], [u8; 50], u8);

/// All keys in a random order, each with a value. `seed` fixes the order and the values.
fn walk(entries: u64, seed: u64) -> Vec<WalkEntry> {
    let dataset = Dataset::uuid();
    let mut numbers: Vec<u64> = (0..entries).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let entry = |number| {
        dataset.key(number, &mut key);
        dataset.value(number, seed, &mut value);
        let length = value.len() as u8;
        value.resize(50, 0);
        (key[..].try_into().expect("UUID keys have 36 bytes"), value[..].try_into().expect("resized"), length)
    };
    numbers.into_iter().map(entry).collect()
}

/// The walk in equal parts, one for each thread.
fn parts(walk: &[WalkEntry], threads: usize) -> impl ExactSizeIterator<Item = &[WalkEntry]> {
    walk.chunks(walk.len().div_ceil(threads).max(1))
}

/// A cache with its measurements, whatever its type.
trait MeasuredCache {
    fn name(&self) -> &'static str;
    /// Operations per second of this operation by as many threads as there are cores given.
    fn measure(&mut self, operation: EngineOperation, walk: &[WalkEntry], cores: &[usize]) -> anyhow::Result<f64>;
}

struct Filled<C>(C);

impl<C: RivalCache> Filled<C> {
    fn empty(walk: &[WalkEntry]) -> C {
        // Room to spare, because a sharded cache evicts where one shard is full while others are not.
        C::new(walk.len() + walk.len() / 16 + 1000, 71)
    }

    fn new(walk: &[WalkEntry]) -> Filled<C> {
        let cache = Self::empty(walk);
        set_all(&cache, walk, true);
        Filled(cache)
    }
}

impl<C: RivalCache> MeasuredCache for Filled<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn measure(&mut self, operation: EngineOperation, walk: &[WalkEntry], cores: &[usize]) -> anyhow::Result<f64> {
        if operation == EngineOperation::Fill {
            self.0 = Self::empty(walk);
        }
        let time = together(walk, cores, |part, first| match operation {
            EngineOperation::Get => get_all(&self.0, part, first),
            EngineOperation::Fill | EngineOperation::Set => set_all(&self.0, part, first),
        })?;
        Ok(walk.len() as f64 / time.as_secs_f64())
    }
}

/// Operations between two calls of the housekeeping, by the first thread only: some 20 ms, where
/// the server lets 100 pass.
const UPKEEP_EVERY: usize = 1 << 17;

fn get_all<C: RivalCache>(cache: &C, part: &[WalkEntry], first: bool) {
    let mut out = Vec::with_capacity(64);
    let mut hits = 0;
    for (index, (key, ..)) in part.iter().enumerate() {
        hits += usize::from(cache.get(key, &mut out));
        if first && index % UPKEEP_EVERY == 0 {
            cache.upkeep();
        }
    }
    // A cache that lost entries would be fast at nothing.
    assert!(hits * 1000 >= part.len() * 999, "{} found {hits} of {} keys", C::NAME, part.len());
}

fn set_all<C: RivalCache>(cache: &C, part: &[WalkEntry], first: bool) {
    for (index, (key, value, length)) in part.iter().enumerate() {
        cache.set(key, &value[..usize::from(*length)]);
        if first && index % UPKEEP_EVERY == 0 {
            cache.upkeep();
        }
    }
    cache.upkeep();
}

/// Runs `work` on a part of the walk in a thread on each core; the time from the first start to the
/// last end.
fn together(walk: &[WalkEntry], cores: &[usize], work: impl Fn(&[WalkEntry], bool) + Sync) -> anyhow::Result<Duration> {
    let parts: Vec<&[WalkEntry]> = parts(walk, cores.len()).collect();
    let barrier = Barrier::new(parts.len());
    let times: Vec<anyhow::Result<(Instant, Instant)>> = thread::scope(|scope| {
        let threads: Vec<_> = parts
            .iter()
            .zip(cores)
            .enumerate()
            .map(|(index, (&part, &core))| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    let pinned = machine::pin(core);
                    barrier.wait();
                    pinned?;
                    let start = Instant::now();
                    work(part, index == 0);
                    Ok((start, Instant::now()))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let times: Vec<(Instant, Instant)> = times.into_iter().collect::<anyhow::Result<_>>()?;
    let first = times.iter().map(|time| time.0).min();
    let last = times.iter().map(|time| time.1).max();
    Ok(last.zip(first).map_or(Duration::ZERO, |(last, first)| last - first))
}

/// Runs the program.
pub(crate) fn run(args: &EngineArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let cores = machine::cores()?;
    let most = args.threads.iter().copied().max().unwrap_or(0);
    ensure!(
        args.threads.iter().all(|&threads| threads > 0) && most <= cores.len(),
        "--threads: {most} threads need a core each, and this process may use {}",
        cores.len()
    );
    // The caches are filled in an order of its own: gets in the order of the fill would find each entry
    // beside the one before.
    let load = walk(args.entries, 0);
    // Runs take turns between two walks: what a run sets lies in that run's order.
    let walks = [1, 2].map(|seed| walk(args.entries, seed));
    let mut caches: [Box<dyn MeasuredCache>; 3] = [
        Box::new(Filled::<Larder>::new(&load)),
        Box::new(Filled::<Moka>::new(&load)),
        Box::new(Filled::<QuickCache>::new(&load)),
    ];
    let mut cells = vec![(EngineOperation::Fill, 1)];
    for &threads in &args.threads {
        cells.extend([(EngineOperation::Get, threads), (EngineOperation::Set, threads)]);
    }
    let mut medians = Vec::new();
    for (operation, threads) in cells {
        let mut rates = [const { Vec::new() }; 3];
        for run in 0..args.runs {
            let walk = if operation == EngineOperation::Fill { &load } else { &walks[run as usize % 2] };
            for (cache, rates) in caches.iter_mut().zip(&mut rates) {
                rates.push(cache.measure(operation, walk, &cores[..threads])?);
            }
        }
        for (cache, rates) in caches.iter().zip(&rates) {
            let row = Row {
                program: "engine",
                cache: cache.name(),
                operation,
                threads,
                entries: args.entries,
                runs: args.runs,
                per_second: median(rates).round(),
                min: rates.iter().copied().fold(f64::INFINITY, f64::min).round(),
                max: rates.iter().copied().fold(0.0, f64::max).round(),
            };
            figures::line(out, &row)?;
            medians.push(row);
        }
    }
    for figure in figures(&medians) {
        figures::line(out, &figure)?;
    }
    Ok(())
}

/// Larder over each rival, and more threads over one.
fn figures(rows: &[Row]) -> Vec<Figure> {
    let find = |cache, operation, threads| {
        rows.iter().find(|r| (r.cache, r.operation, r.threads) == (cache, operation, threads))
    };
    let mut figures = Vec::new();
    for row in rows.iter().filter(|row| row.cache == Larder::NAME) {
        let (operation, threads) = (row.operation, row.threads);
        let label = format!("{operation:?}").to_lowercase();
        for rival in [Moka::NAME, QuickCache::NAME] {
            let target = match (operation, threads, rival) {
                (EngineOperation::Get | EngineOperation::Set, 1, Moka::NAME) => Some(FigureTarget::AtLeast(3.0)),
                (EngineOperation::Get, 1, QuickCache::NAME) => Some(FigureTarget::AtLeast(1.3)),
                _ => None,
            };
            if let Some(other) = find(rival, operation, threads) {
                let name = format!("{label} larder/{rival}, threads={threads}");
                let quotient = row.per_second / other.per_second;
                figures.push(Figure::new("engine", name, quotient, target));
            }
        }
        if threads > 1
            && let Some(one) = find(Larder::NAME, operation, 1)
        {
            let target = (threads == 2).then_some(FigureTarget::AtLeast(1.7));
            let name = format!("{label} larder, threads={threads}/threads=1");
            let quotient = row.per_second / one.per_second;
            figures.push(Figure::new("engine", name, quotient, target));
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn walks_hold_all_keys_in_different_orders() {
        let (first, second) = (walk(1000, 1), walk(1000, 2));
        let keys = |walk: &[WalkEntry]| walk.iter().map(|entry| entry.0).collect::<Vec<_>>();
        assert_ne!(keys(&first), keys(&second));
        let distinct = |walk: &[WalkEntry]| keys(walk).into_iter().collect::<HashSet<_>>();
        assert_eq!(distinct(&first).len(), 1000);
        assert_eq!(distinct(&first), distinct(&second));
        assert!(first.iter().all(|entry| (20..=50).contains(&entry.2)));
        for threads in [1, 3] {
            assert_eq!(parts(&first, threads).len(), threads);
            assert_eq!(parts(&first, threads).map(<[WalkEntry]>::len).sum::<usize>(), 1000);
        }
    }

    #[test]
    fn a_small_run_yields_every_cell_and_ratio() {
        let args = EngineArgs { threads: vec![1], entries: 2000, runs: 1 };
        let mut out = Vec::new();
        run(&args, &mut out).expect("runs");
        let text = String::from_utf8(out).expect("JSON is UTF-8");
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect();
        // Three operations of three caches; then larder against two rivals in each.
        assert_eq!(rows.len(), 9 + 6);
        assert!(rows[..9].iter().all(|row| row["per_second"].as_f64() > Some(0.0)));
        assert_eq!(rows.iter().filter(|row| row.get("target").is_some()).count(), 3);
    }

    #[test]
    fn more_threads_than_cores_are_refused() {
        let args = EngineArgs { threads: vec![1 << 20], entries: 1, runs: 1 };
        let error = run(&args, &mut Vec::new()).expect_err("refused");
        assert!(error.to_string().contains("--threads"), "{error}");
    }
}
