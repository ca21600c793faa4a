//! `larder-bench hit-ratio`: replays a trace of requests against Larder's engine and its rivals.
use crate::lib::{
    dataset::Dataset,
    entry_memory::in_child,
    figures,
    rival_caches::{Larder, Lru, Moka, NOW, QuickCache, RivalCache, larder_config, plain_write},
    trace::{MadeTrace, Requests, TraceFile, TraceFormat, TraceSummary},
};
use anyhow::ensure;
use larder_engine::{Cache, Config, Stats};
use serde::Serialize;
use std::{io::Write, num::NonZeroUsize, path::PathBuf, sync::Arc};

/// Hit ratios on a trace: larder, moka, quick_cache and lru, at the same number of entries and of
/// bytes
///
/// Each request of the trace is a get and, on a miss, an insert; one thread, one pass, caches empty
/// at the start. The trace is streamed and never held in memory.
///
/// Mode `entries`: every cache may hold N entries. larder is the real engine with `max_keys` N and
/// memory in abundance; quick_cache and lru have capacity N; moka is replayed twice, with
/// `run_pending_tasks` after every request and, from 6,400 entries on, after every 64th, and its
/// better run counts.
///
/// Mode `bytes`: every cache gets the memory that N entries of raw data need, N x (key-size +
/// value-size), or what --bytes says. larder runs with `max_memory` set to it, keys and values of
/// those sizes really stored; its own accounting (index, ghost and bookkeeping included) is the
/// bound. The others, which cannot bound their memory, hold as many entries as fit at the resident
/// bytes that one entry of that shape costs them. This is measured in this run, each in a process
/// of its own, and to their advantage: filled once (evictions leave ghosts and gaps that are not
/// charged), freed memory given back at once, what a cache needs however small it is (moka's
/// buffers and sketch) shared by 100,000 entries and more, and the mean taken over four sizes
/// between two doublings of a table.
///
/// One line per cache: trace, mode, capacity (entries that the cache may hold; bytes for larder in
/// mode `bytes`), percent (of the trace's distinct keys), policy, requests, hits, hit_ratio; in
/// mode `bytes` also bytes_budget, bytes_measured (what the cache held at the end, by its own count
/// for larder, entries x bytes_per_entry for the others) and bytes_per_entry.
#[derive(Debug, clap::Args)]
pub(crate) struct HitRatioArgs {
    /// Trace files; may end in .zst or .xz
    #[arg(long, value_name = "FILE", value_delimiter = ',', required_unless_present = "made")]
    trace: Vec<PathBuf>,
    /// Made traces that trap policies of one kind or another
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    made: Vec<MadeTrace>,
    /// N of made traces
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Requests of a made trace
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// How the trace is written; without it the name tells: .lis (arc), .trace (cache2k), .u64,
    /// .ops
    #[arg(long)]
    format: Option<TraceFormat>,
    /// Capacities in entries
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    entries: Vec<u64>,
    /// Capacities in per cent of the trace's distinct keys (1,5,10,25 if no capacity is given at
    /// all)
    #[arg(long, value_name = "P", value_delimiter = ',')]
    percent: Vec<f64>,
    /// Capacities in bytes, such as 10MiB (mode `bytes` only)
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = larder_units::parse_size)]
    bytes: Vec<u64>,
    /// Run one mode only
    #[arg(long)]
    mode: Option<EqualBy>,
    /// Bytes of a key in mode `bytes` (36: UUIDs; at least 16)
    #[arg(long, default_value_t = 36)]
    key_size: usize,
    /// Bytes of a value in mode `bytes`
    #[arg(long, default_value_t = 64)]
    value_size: usize,
}

/// What is equal among the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EqualBy {
    /// The number of entries
    Entries,
    /// The memory
    Bytes,
}

/// One line of the result.
#[derive(Debug, Serialize)]
struct Row<'t> {
    trace: &'t str,
    mode: EqualBy,
    capacity: u64,
    percent: f64,
    policy: &'static str,
    requests: u64,
    hits: u64,
    hit_ratio: f64,
    distinct: u64,
    #[serde(flatten)]
    memory: Option<Memory>,
}

/// What a row of mode `bytes` adds.
#[derive(Debug, Serialize)]
struct Memory {
    bytes_budget: u64,
    bytes_measured: u64,
    bytes_per_entry: f64,
}

/// Resident bytes per entry of moka, quick_cache and lru, which do not bound their memory.
type Footprints = [f64; 3];

/// Mean over sizes spread evenly (by ratio) between two doublings: no cache is caught with its
/// table just grown or just full.
fn footprint<C: RivalCache>(dataset: &Dataset) -> anyhow::Result<f64> {
    const SIZES: [u64; 4] = [100_000, 119_000, 141_000, 168_000];
    let mut sum = 0.0;
    for entries in SIZES {
        sum += in_child(C::NAME, entries, entries, dataset)?.bytes_per_entry;
    }
    Ok(sum / SIZES.len() as f64)
}

/// Runs the program.
pub(crate) fn run(args: &HitRatioArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(
        args.key_size >= Dataset::MIN_KEY,
        "--key-size {} is below {}: shorter keys cannot all differ",
        args.key_size,
        Dataset::MIN_KEY
    );
    ensure!(args.percent.iter().all(|&p| p > 0.0 && p <= 100.0), "--percent takes numbers above 0 and up to 100");
    let dataset = Dataset { key_size: args.key_size, value_size: args.value_size..=args.value_size };
    let bytes_wanted = args.mode != Some(EqualBy::Entries);
    let footprints = match bytes_wanted {
        true => Some([footprint::<Moka>(&dataset)?, footprint::<QuickCache>(&dataset)?, footprint::<Lru>(&dataset)?]),
        false => None,
    };
    let files = args.trace.iter().map(|path| TraceFile::new(path, args.format).map(Requests::File));
    let made =
        args.made.iter().map(|kind| Ok(Requests::Made { kind: *kind, keys: args.keys, requests: args.requests }));
    for trace in files.chain(made) {
        let trace: Requests = trace?;
        let replay = Replay { summary: trace.summary()?, name: trace.name(), trace, dataset: dataset.clone() };
        replay.at_all(args, footprints, out)?;
    }
    Ok(())
}

/// The capacities asked for, in entries.
fn capacities(args: &HitRatioArgs, summary: TraceSummary) -> Vec<u64> {
    const DEFAULT: [f64; 4] = [1.0, 5.0, 10.0, 25.0];
    let none_given = args.entries.is_empty() && args.percent.is_empty() && args.bytes.is_empty();
    let percent = if none_given { &DEFAULT[..] } else { &args.percent };
    let share = |p: &f64| ((summary.distinct as f64 * p / 100.0) as u64).max(1);
    args.entries.iter().copied().chain(percent.iter().map(share)).collect()
}

/// A trace ready to be replayed.
struct Replay {
    trace: Requests,
    name: String,
    summary: TraceSummary,
    dataset: Dataset,
}

impl Replay {
    fn at_all(&self, args: &HitRatioArgs, footprints: Option<Footprints>, out: &mut dyn Write) -> anyhow::Result<()> {
        for entries in capacities(args, self.summary) {
            if args.mode != Some(EqualBy::Bytes) {
                self.at_entries(entries, out)?;
            }
            if let Some(footprints) = footprints {
                let budget = entries * (args.key_size + args.value_size) as u64;
                self.at_bytes(budget, footprints, out)?;
            }
        }
        if let Some(footprints) = footprints {
            for &budget in &args.bytes {
                self.at_bytes(budget, footprints, out)?;
            }
        }
        Ok(())
    }

    fn at_entries(&self, entries: u64, out: &mut dyn Write) -> anyhow::Result<()> {
        let n = entries as usize;
        let mut row = |policy, hits| {
            let percent = 100.0 * entries as f64 / self.summary.distinct as f64;
            figures::line(out, &self.row(EqualBy::Entries, entries, percent, policy, hits, None))
        };
        row(Larder::NAME, LarderPolicy::at_entries(n).replay(&self.trace)?)?;
        row(Moka::NAME, moka(n, &self.trace)?)?;
        row(QuickCache::NAME, quick_cache(n, &self.trace)?)?;
        row(Lru::NAME, lru(n, &self.trace)?)
    }

    fn at_bytes(&self, budget: u64, footprints: Footprints, out: &mut dyn Write) -> anyhow::Result<()> {
        let percent = 100.0 * budget as f64 / self.dataset.raw_bytes() / self.summary.distinct as f64;
        let mut larder = LarderPolicy::at_bytes(budget as usize, &self.dataset);
        let hits = larder.replay(&self.trace)?;
        let stats = larder.stats();
        let memory = Memory {
            bytes_budget: budget,
            bytes_measured: stats.used_bytes,
            bytes_per_entry: figures::rounded(stats.used_bytes as f64 / stats.entries.max(1) as f64),
        };
        let row = self.row(EqualBy::Bytes, budget, percent, Larder::NAME, hits, Some(memory));
        figures::line(out, &row)?;

        type Policy = fn(usize, &Requests) -> anyhow::Result<u64>;
        let rivals: [(&str, Policy); 3] = [(Moka::NAME, moka), (QuickCache::NAME, quick_cache), (Lru::NAME, lru)];
        for ((name, policy), bytes_per_entry) in rivals.into_iter().zip(footprints) {
            let entries = (budget as f64 / bytes_per_entry) as u64;
            // A budget below one entry is a cache that holds nothing.
            let hits = if entries == 0 { 0 } else { policy(entries as usize, &self.trace)? };
            let memory = Memory {
                bytes_budget: budget,
                bytes_measured: (entries.min(self.summary.distinct) as f64 * bytes_per_entry) as u64,
                bytes_per_entry: figures::rounded(bytes_per_entry),
            };
            let row = self.row(EqualBy::Bytes, entries, percent, name, hits, Some(memory));
            figures::line(out, &row)?;
        }
        Ok(())
    }

    fn row(
        &self,
        mode: EqualBy,
        capacity: u64,
        percent: f64,
        policy: &'static str,
        hits: u64,
        memory: Option<Memory>,
    ) -> Row<'_> {
        Row {
            trace: &self.name,
            mode,
            capacity,
            percent: figures::rounded(percent),
            policy,
            requests: self.summary.requests,
            hits,
            hit_ratio: figures::rounded(hits as f64 / self.summary.requests as f64),
            distinct: self.summary.distinct,
            memory,
        }
    }
}

// The caches as a replay uses them: request a key, learn whether it was a hit, insert it if not. The
// rivals are keyed by the trace's numbers: what they keep does not depend on a key's length. Larder
// stores real bytes, because in mode `bytes` its policy works on them.

/// The engine, with a clock of its own: 10 microseconds pass per request, and it is ticked every
/// 100 ms of that, as the server does.
struct LarderPolicy {
    cache: Arc<Cache>,
    shape: Option<Dataset>,
}

impl LarderPolicy {
    /// At most `entries` entries, memory in abundance.
    fn at_entries(entries: usize) -> LarderPolicy {
        LarderPolicy { cache: Cache::new(larder_config(entries, 16)), shape: None }
    }

    /// At most `budget` bytes for keys and values of this shape.
    fn at_bytes(budget: usize, shape: &Dataset) -> LarderPolicy {
        let config = Config { max_memory: budget, ..Config::default() };
        LarderPolicy { cache: Cache::new(config), shape: Some(shape.clone()) }
    }

    /// Replays the trace once.
    fn replay(&mut self, trace: &Requests) -> anyhow::Result<u64> {
        const REQUESTS_PER_MS: u64 = 100;
        const TICK_MS: u64 = 100;
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        let (mut hits, mut requests) = (0, 0);
        for key in trace.keys()? {
            let number = key?;
            match &self.shape {
                Some(shape) => shape.key(number, &mut bytes),
                None => {
                    bytes.clear();
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
            }
            let now = NOW + requests / REQUESTS_PER_MS;
            let key = self.cache.key(&bytes);
            if self.cache.tier().get(key, now, |_| ()).is_some() {
                hits += 1;
            } else {
                match &self.shape {
                    Some(shape) => shape.value(number, 0, &mut value),
                    None => value.clone_from(&bytes),
                }
                // An entry that the bound can never hold is a miss each time, like any other that is not kept.
                let _ = self.cache.tier().set(key, plain_write(&value), now);
            }
            requests += 1;
            if requests % (REQUESTS_PER_MS * TICK_MS) == 0 {
                self.cache.tick(now);
            }
        }
        Ok(hits)
    }

    /// The engine's counters.
    fn stats(&self) -> Stats {
        self.cache.stats()
    }
}

/// From this many entries on, 64 more are at most one per cent.
const MOKA_BATCHES: usize = 6400;

/// moka at its best: its maintenance run after every request (the most exact order) or every 64th
/// (fuller batches for its frequency sketch); which one is better depends on the trace, so both are
/// tried. Until its maintenance runs, moka holds what was inserted meanwhile beyond its capacity; so
/// a small cache has the first way only.
fn moka(entries: usize, trace: &Requests) -> anyhow::Result<u64> {
    let run = |every: u64| {
        let cache: moka::sync::Cache<u64, ()> = moka::sync::Cache::new(entries as u64);
        let mut requests = 0_u64;
        hits(
            trace,
            |key| cache.get(&key).is_some(),
            |key| cache.insert(key, ()),
            || {
                requests += 1;
                if requests.is_multiple_of(every) {
                    cache.run_pending_tasks();
                }
            },
        )
    };
    let exact = run(1)?;
    if entries < MOKA_BATCHES { Ok(exact) } else { Ok(exact.max(run(64)?)) }
}

/// quick_cache, the concurrent cache with its defaults.
fn quick_cache(entries: usize, trace: &Requests) -> anyhow::Result<u64> {
    let cache = quick_cache::sync::Cache::new(entries);
    hits(trace, |key| cache.get(&key).is_some(), |key| cache.insert(key, ()), || {})
}

/// Least recently used.
fn lru(entries: usize, trace: &Requests) -> anyhow::Result<u64> {
    let entries = NonZeroUsize::new(entries).unwrap_or(NonZeroUsize::MIN);
    let cache = std::cell::RefCell::new(lru::LruCache::new(entries));
    let insert = |key| {
        cache.borrow_mut().put(key, ());
    };
    hits(trace, |key| cache.borrow_mut().get(&key).is_some(), insert, || {})
}

/// Requests each key, inserts it if it is not there, and then calls `after`.
fn hits(
    trace: &Requests,
    get: impl Fn(u64) -> bool,
    insert: impl Fn(u64),
    mut after: impl FnMut(),
) -> anyhow::Result<u64> {
    let mut hits = 0;
    for key in trace.keys()? {
        let key = key?;
        match get(key) {
            true => hits += 1,
            false => insert(key),
        }
        after();
    }
    Ok(hits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A little-endian u64 trace of these keys.
    fn with_trace<T>(keys: impl IntoIterator<Item = u64>, test: impl FnOnce(&Requests) -> T) -> T {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("made.u64");
        let bytes: Vec<u8> = keys.into_iter().flat_map(u64::to_le_bytes).collect();
        std::fs::write(&path, bytes).expect("write the trace");
        test(&Requests::File(TraceFile::new(&path, None).expect("the name tells the format")))
    }

    #[test]
    fn lru_hits_what_theory_says() {
        // A loop of 10 keys: LRU of 10 hits all but the first round, LRU of 9 nothing.
        with_trace((0..100).map(|i| i % 10), |trace| {
            assert_eq!(lru(10, trace).expect("replays"), 90);
            assert_eq!(lru(9, trace).expect("replays"), 0);
        });
        // 1 2 3 1 4 2: with 3 entries the 1 hits, 4 evicts 2, 2 misses.
        with_trace([1, 2, 3, 1, 4, 2], |trace| {
            assert_eq!(lru(3, trace).expect("replays"), 1);
        });
    }

    #[test]
    fn everyone_hits_every_return_when_all_fits() {
        with_trace((0..3000).map(|i| i % 300), |trace| {
            let expected = 2700;
            assert_eq!(LarderPolicy::at_entries(3000).replay(trace).expect("replays"), expected);
            assert_eq!(moka(3000, trace).expect("replays"), expected);
            assert_eq!(quick_cache(3000, trace).expect("replays"), expected);
            assert_eq!(lru(3000, trace).expect("replays"), expected);
        });
    }

    #[test]
    fn larder_at_bytes_stays_within_its_budget() {
        let shape = Dataset { key_size: 36, value_size: 64..=64 };
        with_trace(0..100_000, |trace| {
            let mut larder = LarderPolicy::at_bytes(4 << 20, &shape);
            assert_eq!(larder.replay(trace).expect("replays"), 0);
            let stats = larder.stats();
            assert!(stats.used_bytes <= 4 << 20, "{stats:?}");
            assert!(stats.entries > 20_000, "{stats:?}");
        });
    }

    #[test]
    fn rows_come_for_each_capacity_and_policy() {
        with_trace((0..2000).map(|i| i % 1000), |trace| {
            let replay = Replay {
                summary: trace.summary().expect("well-formed"),
                name: trace.name(),
                trace: trace.clone(),
                dataset: Dataset::uuid(),
            };
            let mut out = Vec::new();
            let footprints = [400.0, 200.0, 1e9];
            replay.at_entries(2000, &mut out).expect("replays");
            replay.at_bytes(4 << 20, footprints, &mut out).expect("replays");
            let rows: Vec<serde_json::Value> = String::from_utf8(out)
                .expect("JSON is UTF-8")
                .lines()
                .map(|line| serde_json::from_str(line).expect("each line is an object"))
                .collect();
            let names: Vec<&str> = rows.iter().map(|r| r["policy"].as_str().expect("text")).collect();
            assert_eq!(names, ["larder", "moka", "quick_cache", "lru"].repeat(2));
            let (at_entries, rows) = rows.split_at(4);
            for row in at_entries {
                assert_eq!((&row["mode"], &row["capacity"]), (&"entries".into(), &2000.into()));
                assert_eq!((&row["hits"], &row["hit_ratio"]), (&1000.into(), &0.5.into()), "{row}");
                assert_eq!(row["percent"], 200.0);
                assert!(row.get("bytes_budget").is_none());
            }
            assert_eq!(rows[0]["capacity"], 4 << 20);
            assert_eq!(rows[2]["capacity"], (4 << 20) / 200);
            assert_eq!(rows[2]["bytes_measured"], 200_000);
            // Less than one entry fits.
            assert_eq!((&rows[3]["capacity"], &rows[3]["hits"]), (&0.into(), &0.into()));
        });
    }

    #[test]
    fn made_traces_are_what_their_names_say() {
        use clap::ValueEnum;
        let made = |kind, requests| Requests::Made { kind, keys: 1000, requests };
        let of_lru = |kind, entries| lru(entries, &made(kind, 20_000)).expect("replays");
        for kind in MadeTrace::value_variants() {
            let trace = made(*kind, 20_000);
            assert_eq!(trace.summary().expect("it is made").requests, 20_000);
            let keys = || trace.keys().expect("it is made").map(|key| key.expect("made")).collect::<Vec<_>>();
            assert_eq!(keys(), keys(), "{kind:?} is the same each time");
        }
        // A loop: nothing with one entry less than keys, all with as many.
        assert_eq!((of_lru(MadeTrace::Loop, 999), of_lru(MadeTrace::Loop, 1000)), (0, 19_000));
        // Each key comes back after 51 requests, once.
        assert_eq!(of_lru(MadeTrace::Returns, 20), 0);
        assert!((9_970..=10_000).contains(&of_lru(MadeTrace::Returns, 60)));
        let summary = made(MadeTrace::Returns, 20_000).summary().expect("it is made");
        assert!((10_000..10_100).contains(&summary.distinct), "{summary:?}");
        // The short one of three loops fits.
        assert!(of_lru(MadeTrace::Loops, 400) > 6_000);
        // Up and down: what was read last comes back first.
        assert!((9_000..11_000).contains(&of_lru(MadeTrace::Zigzag, 500)));
    }
}
