//! `larder-bench memory`: resident bytes per entry.
use crate::lib::{
    blocking_clients::RespClient,
    dataset::Dataset,
    entry_memory::{EntryMemory, in_child},
    figures::{self, Figure, FigureTarget},
    machine::MeasuredProcess,
    rival_caches::{Larder, Lru, Moka, QuickCache, RivalCache},
    servers::{self, ServerProcess, Start},
};
use anyhow::{Context, bail, ensure};
use std::{
    io::{Read, Write},
    net::TcpStream,
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

/// Resident memory per entry: larder's engine, other caches in process, and servers
///
/// Loads UUID keys (36 bytes) with values of 20 to 50 bytes and compares the resident set
/// (/proc/PID/statm) after with that before the cache was made (of a server: before the first key).
/// Keys and values are computed, not stored, so nothing else grows. Each cache in process (larder,
/// quick_cache, moka, lru) is measured in a child process of its own, with capacity for just these
/// entries (larder: max_keys, memory in abundance) and the system's allocator, as larder has; the
/// number of entries held at the end divides the growth.
///
/// Servers are loaded over the wire: redis-server and memcached if they are installed, `larder
/// serve` if --larder names its binary.
///
/// One line per cache: entries held, resident_growth, bytes_per_entry, raw_bytes_per_entry (mean
/// bytes of key and value) and their ratio. The last line holds larder's bytes_per_entry against
/// its target, 90, which is meant for the default key set.
#[derive(Debug, clap::Args)]
pub(crate) struct MemoryArgs {
    /// Number of entries the caches have room for
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    entries: u64,
    /// Number of distinct keys stored one after the other; more than the entries turns the caches
    /// over (default: the entries)
    #[arg(long)]
    inserts: Option<u64>,
    /// Bytes of a key (36: UUIDs; at least 16)
    #[arg(long, default_value_t = 36)]
    key_size: usize,
    /// Bytes of a value: one number or a range
    #[arg(long, default_value = "20-50", value_parser = parse_range)]
    value_size: RangeInclusive<usize>,
    /// Measure `larder serve` too: its binary
    #[arg(long, value_name = "PATH")]
    larder: Option<PathBuf>,
    /// Measure this cache only, in this very process: larder, moka, quick_cache or lru
    #[arg(long, value_name = "NAME")]
    in_process: Option<String>,
}

fn parse_range(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) if low <= high => Ok(low..=high),
        _ => Err("give a number of bytes or a range such as 20-50".into()),
    }
}

/// Runs the program.
pub(crate) fn run(args: &MemoryArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    const TARGET: FigureTarget = FigureTarget::AtMost(90.0);
    ensure!(
        args.key_size >= Dataset::MIN_KEY,
        "--key-size {} is below {}: shorter keys cannot all differ",
        args.key_size,
        Dataset::MIN_KEY
    );
    let dataset = Dataset { key_size: args.key_size, value_size: args.value_size.clone() };
    let (entries, inserts) = (args.entries, args.inserts.unwrap_or(args.entries));
    if let Some(name) = &args.in_process {
        return figures::line(out, &in_process(name, entries, inserts, &dataset)?);
    }
    let larder = in_child(Larder::NAME, entries, inserts, &dataset)?;
    figures::line(out, &larder)?;
    for name in [QuickCache::NAME, Moka::NAME, Lru::NAME] {
        figures::line(out, &in_child(name, entries, inserts, &dataset)?)?;
    }
    // Room for all the servers' entries, so that none evicts.
    let room_mib = (entries as f64 * (dataset.raw_bytes() + 256.0) / 1e6) as u64 + 128;
    if servers::require("redis-server").is_ok() {
        figures::line(out, &over_redis(&servers::redis(None)?, entries, &dataset)?)?;
    }
    if servers::require("memcached").is_ok() {
        let memcached = servers::start("memcached", Start { memory_mib: room_mib, ..Start::default() })?;
        figures::line(out, &over_memcached(&memcached, entries, &dataset)?)?;
    }
    if let Some(binary) = &args.larder {
        let server = servers::larder(binary, None, &["--max-memory", &format!("{room_mib}MiB")])?;
        figures::line(out, &over_redis(&server, entries, &dataset)?)?;
    }
    let figure = "larder bytes per entry".into();
    figures::line(out, &Figure::new("memory", figure, larder.bytes_per_entry, Some(TARGET)))
}

fn in_process(name: &str, entries: u64, inserts: u64, dataset: &Dataset) -> anyhow::Result<EntryMemory> {
    match name {
        Larder::NAME => load::<Larder>(entries, inserts, dataset),
        Moka::NAME => load::<Moka>(entries, inserts, dataset),
        QuickCache::NAME => load::<QuickCache>(entries, inserts, dataset),
        Lru::NAME => load::<Lru>(entries, inserts, dataset),
        _ => bail!("there is no cache {name:?}: give larder, moka, quick_cache or lru"),
    }
}

fn load<C: RivalCache>(entries: u64, inserts: u64, dataset: &Dataset) -> anyhow::Result<EntryMemory> {
    const UPKEEP_EVERY: u64 = 1 << 14;
    let (mut key, mut value) = (Vec::with_capacity(1024), Vec::with_capacity(1024));
    let before = MeasuredProcess::Own.resident_bytes()?;
    let cache = C::new(entries as usize, dataset.raw_bytes() as usize);
    for number in 0..inserts {
        dataset.key(number, &mut key);
        dataset.value(number, 0, &mut value);
        cache.set(&key, &value);
        if number % UPKEEP_EVERY == 0 {
            cache.upkeep();
        }
    }
    cache.upkeep();
    let held = cache.entries();
    let growth = MeasuredProcess::Own.resident_bytes()?.saturating_sub(before);
    ensure!(
        held > 0 && held <= entries,
        "{} says it holds {held} entries where {entries} were allowed and {inserts} stored",
        C::NAME
    );
    Ok(EntryMemory::new(C::NAME, held, inserts, growth, dataset))
}

const TIMEOUT: Duration = Duration::from_secs(60);

fn over_redis(server: &ServerProcess, entries: u64, dataset: &Dataset) -> anyhow::Result<EntryMemory> {
    let mut client = RespClient::connect(server.address, TIMEOUT)?;
    let before = server.process().resident_bytes()?;
    client.load(entries, |number, key, value| {
        dataset.key(number, key);
        dataset.value(number, 0, value);
    })?;
    let held = client.count()?;
    let growth = server.process().resident_bytes()?.saturating_sub(before);
    ensure!(held == entries, "{} holds {held} of {entries} entries", server.name);
    let name = if server.name == "larder" { "larder serve" } else { server.name };
    Ok(EntryMemory::new(name, held, entries, growth, dataset))
}

fn over_memcached(server: &ServerProcess, entries: u64, dataset: &Dataset) -> anyhow::Result<EntryMemory> {
    let mut stream = TcpStream::connect_timeout(&server.address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let before = server.process().resident_bytes()?;
    let (mut key, mut value, mut batch) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..entries {
        dataset.key(number, &mut key);
        dataset.value(number, 0, &mut value);
        // noreply: the check is the item count at the end.
        batch.extend_from_slice(b"set ");
        batch.extend_from_slice(&key);
        batch.extend_from_slice(format!(" 0 0 {} noreply\r\n", value.len()).as_bytes());
        batch.extend_from_slice(&value);
        batch.extend_from_slice(b"\r\n");
        if batch.len() > 32 * 1024 || number + 1 == entries {
            stream.write_all(&batch)?;
            batch.clear();
        }
    }
    stream.write_all(b"stats\r\n")?;
    let mut stats = String::new();
    let mut part = [0; 4096];
    while !stats.ends_with("END\r\n") {
        let read = stream.read(&mut part)?;
        ensure!(read > 0, "memcached closed the connection");
        stats.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    let held: u64 = stats
        .lines()
        .find_map(|line| line.strip_prefix("STAT curr_items ")?.trim().parse().ok())
        .context("memcached's stats have no curr_items")?;
    let growth = server.process().resident_bytes()?.saturating_sub(before);
    ensure!(held == entries, "memcached holds {held} of {entries} entries");
    Ok(EntryMemory::new(server.name, held, entries, growth, dataset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_sizes_are_read() {
        assert_eq!(parse_range("20-50"), Ok(20..=50));
        assert_eq!(parse_range("64"), Ok(64..=64));
        for bad in ["", "50-20", "a", "1-", "-1"] {
            parse_range(bad).expect_err(bad);
        }
    }

    #[test]
    fn servers_are_loaded_and_counted() {
        let row = |row: anyhow::Result<EntryMemory>| row.expect("measured");
        let redis = servers::redis(None).expect("redis-server starts");
        assert_eq!(row(over_redis(&redis, 5000, &Dataset::uuid())).entries, 5000);
        let memcached = servers::start("memcached", Start::default()).expect("memcached starts");
        assert_eq!(row(over_memcached(&memcached, 5000, &Dataset::uuid())).entries, 5000);
    }

    #[test]
    fn an_unknown_cache_is_refused() {
        let error = in_process("nope", 1, 1, &Dataset::uuid()).expect_err("unknown");
        assert!(error.to_string().contains("quick_cache"), "{error}");
    }
}
