//! `larder-bench bound`: does the memory bound hold, whatever is written?
use crate::lib::{
    blocking_clients::{RedisReply, RespClient},
    dataset::Dataset,
    figures,
    machine::MeasuredProcess,
    rival_caches::NOW,
    servers::{self, ServerProcess},
    value_stamp,
};
use anyhow::{bail, ensure};
use larder_engine::{Attributes, Cache, Condition, Config, Expiry, Millis};
use serde::Serialize;
use std::{
    io::Write,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// Writes many times more data than the memory bound and checks that the bound holds
///
/// Writes entries of mixed sizes (80 bytes to 1/64 of the bound, most of them small) and lifetimes
/// (half of them without expiry, the others 1 ms to 5 s), new keys and overwrites, and reads some
/// back. Checked: the bytes that the engine counts as used are within the bound after every single
/// write; resident memory (/proc/PID/statm, sampled) stays within the bound plus --slack; no value
/// read is another key's, damaged, older than the last write or past its expiry.
///
/// Without --larder the engine is tested in this process, with a clock that runs 1 ms in 20 writes.
/// With --larder a server is started from that binary with `--max-memory`.
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
    let row = match &args.larder {
        Some(binary) => {
            let server = servers::larder(binary, None, &["--max-memory", &args.max_memory.to_string()])?;
            exercise(args, &mut ServerUnderTest::started(server)?)?
        }
        None => exercise(args, &mut EngineUnderTest::new(args.max_memory as usize))?,
    };
    report(&row, out)
}

fn report(row: &Row, out: &mut dyn Write) -> anyhow::Result<()> {
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

/// What is written to.
trait CacheUnderTest {
    /// Its name in results.
    const NAME: &'static str;
    /// Moves on to the next operation and returns the time.
    fn advance(&mut self) -> anyhow::Result<Millis>;
    /// Stores an entry that lives so many milliseconds.
    fn set(&mut self, key: &[u8], value: &[u8], lifetime: Option<u64>) -> anyhow::Result<()>;
    /// Copies a value to `out`; false if there is none.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool>;
    /// Bytes in use by its own count, if they can be had after each write.
    fn used(&self) -> Option<u64>;
    /// Where it holds its memory.
    fn process(&self) -> MeasuredProcess;
}

/// The engine in this process.
struct EngineUnderTest {
    cache: Arc<Cache>,
    now: Millis,
    operations: u64,
}

impl EngineUnderTest {
    fn new(max_memory: usize) -> EngineUnderTest {
        let config = Config { max_memory, ..Config::default() };
        EngineUnderTest { cache: Cache::new(config), now: NOW, operations: 0 }
    }
}

impl CacheUnderTest for EngineUnderTest {
    const NAME: &'static str = "engine";

    fn advance(&mut self) -> anyhow::Result<Millis> {
        self.operations += 1;
        if self.operations.is_multiple_of(20) {
            self.now += 1;
            if self.now.is_multiple_of(100) {
                self.cache.tick(self.now);
            }
        }
        Ok(self.now)
    }

    fn set(&mut self, key: &[u8], value: &[u8], lifetime: Option<u64>) -> anyhow::Result<()> {
        let write = larder_engine::Write {
            value,
            expiry: lifetime.map_or(Expiry::Never, |lifetime| Expiry::At(self.now + lifetime)),
            attributes: Attributes::NONE,
            condition: Condition::Always,
        };
        let stored = self.cache.tier().set(self.cache.key(key), write, self.now);
        match stored {
            Ok(_) => Ok(()),
            Err(error) => bail!("the engine refused {} bytes: {error:?}", value.len()),
        }
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let read = self.cache.tier().get(self.cache.key(key), self.now, |entry| {
            out.clear();
            out.extend_from_slice(entry.value.as_bytes());
        });
        Ok(read.is_some())
    }

    fn used(&self) -> Option<u64> {
        Some(self.cache.stats().used_bytes)
    }

    fn process(&self) -> MeasuredProcess {
        MeasuredProcess::Own
    }
}

/// A server over the Redis protocol.
struct ServerUnderTest {
    client: RespClient,
    process: MeasuredProcess,
    start: Instant,
    _server: ServerProcess,
}

const TIMEOUT: Duration = Duration::from_secs(30);

impl ServerUnderTest {
    fn started(server: ServerProcess) -> anyhow::Result<ServerUnderTest> {
        Ok(ServerUnderTest {
            client: RespClient::connect(server.address, TIMEOUT)?,
            process: server.process(),
            start: Instant::now(),
            _server: server,
        })
    }
}

impl CacheUnderTest for ServerUnderTest {
    const NAME: &'static str = "server";

    fn advance(&mut self) -> anyhow::Result<Millis> {
        Ok(self.start.elapsed().as_millis() as Millis)
    }

    fn set(&mut self, key: &[u8], value: &[u8], lifetime: Option<u64>) -> anyhow::Result<()> {
        let reply = match lifetime {
            None => self.client.call(&[b"SET", key, value]),
            Some(lifetime) => {
                let lifetime = lifetime.to_string();
                self.client.call(&[b"SET", key, value, b"PX", lifetime.as_bytes()])
            }
        }?;
        ensure!(reply == RedisReply::Status("OK".into()), "SET was answered {reply:?}");
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        match self.client.call(&[b"GET", key])? {
            RedisReply::Bulk(None) => Ok(false),
            RedisReply::Bulk(Some(value)) => {
                *out = value;
                Ok(true)
            }
            other => bail!("GET was answered {other:?}"),
        }
    }

    fn used(&self) -> Option<u64> {
        None
    }

    fn process(&self) -> MeasuredProcess {
        self.process
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: BoundArgs,
    }

    fn args(arguments: &[&str]) -> BoundArgs {
        Cli::parse_from([&["bound"], arguments].concat()).args
    }

    fn result(args: &BoundArgs) -> (anyhow::Result<()>, serde_json::Value) {
        let mut out = Vec::new();
        let ended = run(args, &mut out);
        (ended, serde_json::from_slice(&out).expect("one object"))
    }

    #[test]
    fn the_engine_keeps_a_small_bound() {
        // Its own count only: what else the tests of this process hold is not the engine's.
        let (ended, row) = result(&args(&["--max-memory", "4MiB", "--write", "32MiB", "--slack", "100GiB"]));
        ended.expect("the bound holds");
        assert!(row["max_used"].as_u64() <= Some(4 << 20), "{row}");
        assert!(row["written_bytes"].as_u64() >= Some(32 << 20) && row["hits"].as_u64() > Some(0), "{row}");
    }

    #[test]
    fn a_server_without_a_bound_is_found_out() {
        let server = ServerUnderTest::started(servers::redis(None).expect("redis-server starts"));
        let args = args(&["--max-memory", "1MiB", "--write", "8MiB", "--slack", "1MiB"]);
        let row = exercise(&args, &mut server.expect("connects")).expect("runs");
        let mut out = Vec::new();
        report(&row, &mut out).expect_err("redis-server holds more");
        let row: serde_json::Value = serde_json::from_slice(&out).expect("one object");
        assert!(row["failures"].as_u64() > Some(0), "{row}");
        // All of it is its memory; what it returned was right.
        let first = row["first_failures"][0].as_str().expect("shown");
        assert!(first.contains("resident"), "{row}");
    }

    #[test]
    fn wrong_contents_are_found_out() {
        struct Liar(Vec<u8>);
        impl CacheUnderTest for Liar {
            const NAME: &'static str = "liar";
            fn advance(&mut self) -> anyhow::Result<Millis> {
                Ok(0)
            }
            fn set(&mut self, _: &[u8], value: &[u8], _: Option<u64>) -> anyhow::Result<()> {
                self.0 = value.to_vec();
                Ok(())
            }
            fn get(&mut self, _: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
                out.clone_from(&self.0);
                Ok(true)
            }
            fn used(&self) -> Option<u64> {
                None
            }
            fn process(&self) -> MeasuredProcess {
                MeasuredProcess::Own
            }
        }
        let row = exercise(&args(&["--write", "1MiB", "--slack", "100GiB"]), &mut Liar(Vec::new()));
        let row = row.expect("runs");
        assert!(row.failures * 10 > row.reads * 9, "{row:?}");
    }
}
