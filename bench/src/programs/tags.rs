//! `larder-bench tags`: what tags cost, in process.
use crate::lib::{
    dataset::Dataset,
    figures::{self, Figure, FigureTarget, median},
    machine::MeasuredProcess,
};
use larder_engine::{Attributes, Cache, Config, Stats, Write as Stored};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::{
    hint::black_box,
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

/// Time and memory that tags take in the memory tier, in process
///
/// First hits: two caches with the same keys (UUIDs, values of 20 to 50 bytes), one whose entries
/// have no tags and one whose entries have four of --tags; both are read in the same random order,
/// in turns, and the medians of the times per hit are compared: as they are, and while the tags of
/// other entries have just been cleared, so that reads have to compare versions.
///
/// Then clears: --entries entries with two tags each, and --clears clears of random names, of which
/// one in ten is a tag that entries carry; each of those is followed by as many writes as it
/// cleared entries. The housekeeping runs meanwhile as in the server. Before the first clear, each
/// entry is written twice more, in random order, as in a cache that has run for a while. One line
/// for each tenth: bytes of the tier, of the tags in it, and of the process, and the time of the
/// slowest clear. What clears leave behind would show in the bytes of the tags. All bytes also have
/// the log's dead records in them, up to a quarter of all records, which come and go with writes.
///
/// All times are CPU time of the thread: what else runs on the machine does not count.
#[derive(Debug, clap::Args)]
pub(crate) struct TagsArgs {
    /// Number of keys
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    entries: u64,
    /// Number of different tags
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    tags: u64,
    /// Number of clears
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(10..))]
    clears: u64,
    /// Turns of reads, of which the median counts
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
}

/// Tags of an entry in the comparison of hits.
const TAGS: u64 = 4;
/// Hits of an entry with tags may cost so much of one without.
const HIT: FigureTarget = FigureTarget::AtMost(1.05);

#[derive(Debug, Serialize)]
struct ClearsRow {
    program: &'static str,
    clears: u64,
    entries: u64,
    used_bytes: u64,
    tags: u64,
    tag_bytes: u64,
    resident_bytes: u64,
    mean_us: f64,
    slowest_us: f64,
}

struct Tier {
    cache: Arc<Cache>,
    dataset: Dataset,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Tier {
    fn new(entries: u64) -> Tier {
        let max_memory = (64 << 20) + 512 * entries as usize;
        let cache = Cache::new(Config { max_memory, ..Config::default() });
        Tier { cache, dataset: Dataset::uuid(), key: Vec::new(), value: Vec::new() }
    }

    /// Stores entry number `number` with these tags.
    fn set(&mut self, number: u64, tags: &[u64], now: u64) -> anyhow::Result<()> {
        self.dataset.key(number, &mut self.key);
        self.dataset.value(number, 0, &mut self.value);
        let names: Vec<[u8; 12]> = tags.iter().map(|tag| name(*tag)).collect();
        let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        let attributes = Attributes { tags: &names, ..Attributes::NONE };
        let write = Stored { attributes, ..Stored::new(&self.value) };
        self.cache.tier().set(self.cache.key(&self.key), write, now)?;
        Ok(())
    }

    /// Nanoseconds for each hit of these keys in turn.
    fn read(&self, keys: &[[u8; 36]]) -> anyhow::Result<f64> {
        let mut out = Vec::with_capacity(64);
        let begun = cpu_time();
        let mut hits = 0;
        for key in keys {
            let read = self.cache.tier().get(self.cache.key(key), 0, |entry| {
                out.clear();
                out.extend_from_slice(black_box(entry.value.as_bytes()));
            });
            hits += usize::from(read.is_some());
        }
        anyhow::ensure!(hits == keys.len(), "{hits} of {} keys were found", keys.len());
        Ok((cpu_time() - begun).as_nanos() as f64 / keys.len() as f64)
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The name of a tag.
fn name(tag: u64) -> [u8; 12] {
    let mut name = *b"tag:00000000";
    name[4..].copy_from_slice(&tag.to_be_bytes());
    name
}

/// Runs the program.
pub(crate) fn run(args: &TagsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    for figure in hits(args)? {
        figures::line(out, &figure)?;
    }
    clears(args, out)
}

fn hits(args: &TagsArgs) -> anyhow::Result<Vec<Figure>> {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut plain, mut tagged) = (Tier::new(args.entries), Tier::new(args.entries));
    let mut key = Vec::new();
    let mut keys = Vec::with_capacity(args.entries as usize);
    for number in 0..args.entries {
        plain.set(number, &[], 0)?;
        let tags: Vec<u64> = (0..TAGS).map(|_| random.u64(..args.tags)).collect();
        tagged.set(number, &tags, 0)?;
        Dataset::uuid().key(number, &mut key);
        keys.push(key[..].try_into()?);
    }
    random.shuffle(&mut keys);
    let mut figures = Vec::new();
    for clears in [false, true] {
        // The sweep would end what makes the reads compare.
        if clears {
            for tier in [&mut plain, &mut tagged] {
                let number = args.entries + 1;
                tier.set(number, &[args.tags + 1], 0)?;
                tier.cache.tier().clear_tag(&name(args.tags + 1), false, 0);
            }
        }
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..args.runs {
            without.push(plain.read(&keys)?);
            with.push(tagged.read(&keys)?);
        }
        let (without, with) = (median(&without), median(&with));
        let when = if clears { ", tags of others just cleared" } else { "" };
        figures.push(Figure::new("tags", format!("hit without tags, ns{when}"), without, None));
        figures.push(Figure::new("tags", format!("hit with {TAGS} tags/without{when}"), with / without, Some(HIT)));
    }
    Ok(figures)
}

fn clears(args: &TagsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(2);
    let mut tier = Tier::new(args.entries);
    // The second tag of an entry is its own.
    let of = |number: u64, random: &mut fastrand::Rng| [random.u64(..args.tags), args.tags + number];
    for number in 0..args.entries {
        let tags = of(number, &mut random);
        tier.set(number, &tags, 0)?;
    }
    for write in 0..2 * args.entries {
        let number = random.u64(..args.entries);
        let tags = of(number, &mut random);
        tier.set(number, &tags, 0)?;
        if write % 10_000 == 0 {
            tier.cache.tick(0);
        }
    }
    let before = tier.cache.stats();
    let (mut slowest, mut spent, mut slowest_of_all) = (0, 0, 0);
    let started = Instant::now();
    for clear in 1..=args.clears {
        let now = started.elapsed().as_millis() as u64;
        // One in ten is an entry's own tag; no entry carries the others.
        let number = random.u64(..args.entries);
        let carried = clear % 10 == 0;
        let tag = if carried { args.tags + number } else { 2 * (args.tags + args.entries) + random.u32(..) as u64 };
        let begun = cpu_time();
        tier.cache.tier().clear_tag(&name(tag), false, now);
        let took = (cpu_time() - begun).as_nanos() as u64;
        slowest = slowest.max(took);
        spent += took;
        if carried {
            let tags = of(number, &mut random);
            tier.set(number, &tags, now)?;
        }
        if clear % 10_000 == 0 {
            tier.cache.tick(now);
        }
        if clear % (args.clears / 10) == 0 {
            let stats = tier.cache.stats();
            slowest_of_all = slowest_of_all.max(slowest);
            let row = ClearsRow {
                program: "tags",
                clears: clear,
                entries: stats.entries,
                used_bytes: stats.used_bytes,
                tags: stats.tags,
                tag_bytes: stats.tag_bytes,
                resident_bytes: MeasuredProcess::Own.resident_bytes()?,
                mean_us: figures::rounded(spent as f64 / 1000.0 / (args.clears / 10) as f64),
                slowest_us: slowest as f64 / 1000.0,
            };
            figures::line(out, &row)?;
            (slowest, spent) = (0, 0);
        }
    }
    let after = tier.cache.stats();
    let ratio = |bytes: fn(&Stats) -> u64| bytes(&after) as f64 / bytes(&before) as f64;
    let flat = Some(FigureTarget::AtMost(1.02));
    for (what, ratio, target) in
        [("bytes of tags", ratio(|stats| stats.tag_bytes), flat), ("all bytes", ratio(|stats| stats.used_bytes), None)]
    {
        figures::line(out, &Figure::new("tags", format!("{what} after all clears/before them"), ratio, target))?;
    }
    let slowest = slowest_of_all as f64 / 1e6;
    figures::line(out, &Figure::new("tags", "slowest clear, ms".into(), slowest, Some(FigureTarget::AtMost(1.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_yields_every_figure() {
        let args = TagsArgs { entries: 500, tags: 50, clears: 1000, runs: 1 };
        let mut out = Vec::new();
        run(&args, &mut out).expect("runs");
        let text = String::from_utf8(out).expect("JSON is UTF-8");
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect();
        assert_eq!(rows.len(), 4 + 10 + 3);
        assert!(rows[4..14].iter().all(|row| row["entries"] == 500 && row["tag_bytes"].as_u64() > Some(0)));
    }
}
