//! `larder-bench bound`: does the memory bound hold, whatever is written?
mod caches_under_test;
#[cfg(test)]
mod tests;

use crate::lib::{dataset::Dataset, figures, servers, value_stamp};
use anyhow::ensure;
use caches_under_test::{CacheUnderTest, EngineUnderTest, ServerUnderTest};
use larder_engine::Millis;
use serde::Serialize;
use std::{io::Write, path::PathBuf};

/// Writes many times more data than the memory bound and checks that the bound holds
///
/// Writes entries of mixed sizes (80 bytes to 1/64 of the bound, most of them small) and lifetimes
/// (half of them without expiry, the others 1 ms to 5 s), new keys and overwrites, and reads some
/// back. Checked: the bytes that the engine counts as used are within the bound after every single
/// write; resident memory (/proc/PID/statm, sampled) stays within the bound plus --slack; no value
/// read is another key's, damaged, older than the last write or past its expiry.
///
/// Without --url and --larder the engine is tested in this process, with a clock that runs 1 ms in
/// 20 writes. With --larder a server is started from that binary with `--max-memory`; with --url a
/// running server is used, whose bound must be the same --max-memory and whose process is --pid, or
/// what its INFO calls process_id.
///
/// Prints one line; ends with an error if a check failed.
#[derive(Debug, clap::Args)]
pub(crate) struct BoundArgs {
    /// The bound
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = larder_units::parse_size)]
    max_memory: u64,
    /// Bytes of keys and values to write
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = larder_units::parse_size)]
    write: u64,
    /// What a process may hold beyond the bound: its program, stacks, connections
    #[arg(long, value_name = "SIZE", default_value = "24MiB", value_parser = larder_units::parse_size)]
    slack: u64,
    /// A running server, such as redis://127.0.0.1:6380
    #[arg(long, conflicts_with = "larder")]
    url: Option<String>,
    /// Process of the running server
    #[arg(long, requires = "url")]
    pid: Option<u32>,
    /// Start this larder binary and use it
    #[arg(long, value_name = "PATH")]
    larder: Option<PathBuf>,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The result.
#[derive(Debug, Default, Serialize)]
struct Row {
    program: &'static str,
    cache: &'static str,
    max_memory: u64,
    writes: u64,
    written_bytes: u64,
    reads: u64,
    hits: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_used: Option<u64>,
    max_resident: u64,
    allowed_resident: u64,
    failures: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    first_failures: Vec<String>,
}

impl Row {
    fn fail(&mut self, what: impl FnOnce() -> String) {
        const SHOWN: usize = 5;
        self.failures += 1;
        if self.first_failures.len() < SHOWN {
            self.first_failures.push(what());
        }
    }
}

/// Runs the program.
pub(crate) fn run(args: &BoundArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let row = if let Some(binary) = &args.larder {
        let bound = args.max_memory.to_string();
        let server = servers::larder(binary, None, &["--max-memory", &bound])?;
        exercise(args, &mut ServerUnderTest::started(server)?)?
    } else if let Some(url) = &args.url {
        exercise(args, &mut ServerUnderTest::running(url, args.pid)?)?
    } else {
        exercise(args, &mut EngineUnderTest::new(args.max_memory as usize))?
    };
    figures::line(out, &row)?;
    ensure!(row.failures == 0, "the bound or the contents failed {} checks", row.failures);
    Ok(())
}

/// The last write of a key.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    sequence: u64,
    expiry: Option<Millis>,
}

/// Keys that are remembered, so that they can be overwritten and checked.
const RECENT: u64 = 10_000;

fn exercise<S: CacheUnderTest>(args: &BoundArgs, cache: &mut S) -> anyhow::Result<Row> {
    const READ_EVERY: u64 = 4;
    const SAMPLE_EVERY: u64 = 64;
    let bound = args.max_memory;
    let mut row = Row {
        program: "bound",
        cache: S::NAME,
        max_memory: bound,
        allowed_resident: bound + args.slack,
        ..Row::default()
    };
    let dataset = Dataset::uuid();
    let mut random = fastrand::Rng::with_seed(args.seed);
    let mut recent = vec![Last::default(); RECENT as usize];
    let (mut key, mut value, mut keys) = (Vec::new(), Vec::new(), 0_u64);
    while row.written_bytes < args.write {
        // Seven of ten writes bring a new key, which takes the place of the oldest that is remembered.
        let number = if keys == 0 || random.u8(0..10) < 7 {
            keys += 1;
            keys - 1
        } else {
            random.u64(keys.saturating_sub(RECENT)..keys)
        };
        dataset.key(number, &mut key);
        row.writes += 1;
        value_stamp::write(&key, row.writes, size(&mut random, bound), &mut value);
        let lifetime = lifetime(&mut random);
        cache.advance()?;
        cache.set(&key, &value, lifetime)?;
        let now = cache.advance()?;
        recent[(number % RECENT) as usize] =
            Last { sequence: row.writes, expiry: lifetime.map(|lifetime| now + lifetime) };
        row.written_bytes += (key.len() + value.len()) as u64;
        if let Some(used) = cache.used() {
            row.max_used = row.max_used.max(Some(used));
            if used > bound {
                let write = row.writes;
                row.fail(|| format!("{used} bytes in use after write {write}"));
            }
        }
        if row.writes.is_multiple_of(READ_EVERY) {
            let number = random.u64(keys.saturating_sub(RECENT)..keys);
            dataset.key(number, &mut key);
            check_read(cache, &key, recent[(number % RECENT) as usize], &mut row)?;
        }
        if row.writes.is_multiple_of(SAMPLE_EVERY) {
            sample(cache, &mut row)?;
        }
    }
    sample(cache, &mut row)?;
    Ok(row)
}

fn check_read<S: CacheUnderTest>(cache: &mut S, key: &[u8], last: Last, row: &mut Row) -> anyhow::Result<()> {
    let mut value = Vec::new();
    let now = cache.advance()?;
    row.reads += 1;
    if !cache.get(key, &mut value)? {
        return Ok(());
    }
    row.hits += 1;
    if last.expiry.is_some_and(|expiry| now > expiry) {
        row.fail(|| format!("read at {now} what expired at {:?}", last.expiry));
    }
    match value_stamp::read(key, &value) {
        Ok(sequence) if sequence == last.sequence => {}
        Ok(sequence) => row.fail(|| format!("read write {sequence} where {} was the last", last.sequence)),
        Err(error) => row.fail(|| format!("the value read {error}")),
    }
    Ok(())
}

fn sample<S: CacheUnderTest>(cache: &S, row: &mut Row) -> anyhow::Result<()> {
    let resident = cache.process().resident_bytes()?;
    row.max_resident = row.max_resident.max(resident);
    if resident > row.allowed_resident {
        let write = row.writes;
        row.fail(|| format!("{resident} bytes resident after write {write}"));
    }
    Ok(())
}

/// Of 100 values, 70 have up to 200 bytes, 20 up to 4 KiB, 9 up to 64 KiB and one up to a 64th of
/// the bound.
fn size(random: &mut fastrand::Rng, bound: u64) -> usize {
    let largest = (bound / 64) as usize;
    let size = match random.u8(0..100) {
        0..70 => random.usize(80..=200),
        70..90 => random.usize(200..=4 << 10),
        90..99 => random.usize(4 << 10..=64 << 10),
        _ => random.usize(..=largest),
    };
    size.min(largest)
}

fn lifetime(random: &mut fastrand::Rng) -> Option<u64> {
    match random.u8(0..4) {
        0 => Some(random.u64(1..=100)),
        1 => Some(random.u64(100..=5000)),
        _ => None,
    }
}
