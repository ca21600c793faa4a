//! `larder-bench hit-ratio`: replays a trace of requests against Larder's engine and its rivals.
mod policies;
#[cfg(test)]
mod tests;

use crate::{
    lib::entry_memory::in_child,
    lib::{
        dataset::Dataset,
        figures,
        rival_caches::{Larder, Lru, Moka, QuickCache, RivalCache},
        trace::{MadeTrace, Requests, TraceFile, TraceFormat, TraceSummary},
    },
};
use anyhow::ensure;
use serde::Serialize;
use std::{io::Write, path::PathBuf};

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

/// Resident bytes per entry of the caches that do not bound their memory.
#[derive(Debug, Clone, Copy)]
struct Footprints {
    moka: f64,
    quick_cache: f64,
    lru: f64,
}

impl Footprints {
    fn measure(dataset: &Dataset) -> anyhow::Result<Footprints> {
        Ok(Footprints {
            moka: footprint::<Moka>(dataset)?,
            quick_cache: footprint::<QuickCache>(dataset)?,
            lru: footprint::<Lru>(dataset)?,
        })
    }
}

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
    let footprints = bytes_wanted.then(|| Footprints::measure(&dataset)).transpose()?;
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
        row(Larder::NAME, policies::LarderPolicy::at_entries(n).replay(&self.trace)?)?;
        row(Moka::NAME, policies::moka(n, &self.trace)?)?;
        row(QuickCache::NAME, policies::quick_cache(n, &self.trace)?)?;
        row(Lru::NAME, policies::lru(n, &self.trace)?)
    }

    fn at_bytes(&self, budget: u64, footprints: Footprints, out: &mut dyn Write) -> anyhow::Result<()> {
        let percent = 100.0 * budget as f64 / self.dataset.raw_bytes() / self.summary.distinct as f64;
        let mut larder = policies::LarderPolicy::at_bytes(budget as usize, &self.dataset);
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
        let rivals: [(&'static str, f64, Policy); 3] = [
            (Moka::NAME, footprints.moka, policies::moka),
            (QuickCache::NAME, footprints.quick_cache, policies::quick_cache),
            (Lru::NAME, footprints.lru, policies::lru),
        ];
        for (name, bytes_per_entry, policy) in rivals {
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
