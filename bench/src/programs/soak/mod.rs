//! `larder-bench soak`: does the service hold while its source comes and goes?
//!
//! ```text
//! main thread:   source up ── kill ── down ── restart ── recovery ── up … ; samples larder's memory; asks it to end at the end
//! workers:       Redis protocol and HTTP, closed loop; every reply is checked against `model`
//! ```
//! The source's data are saved once at the start, so the read-only keys exist whenever it answers:
//! an absent one is a wrong reply.
mod model;
#[cfg(test)]
mod tests;
mod workers;

use crate::lib::{
    blocking_clients::{RedisReply, RespClient},
    figures,
    servers::{self, ServerProcess},
    value_stamp,
};
use anyhow::{Context, bail, ensure};
use model::{COLD, HOT, PROBE, SoakSource, SoakTally};
use serde::Serialize;
use std::{
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// Mixed load on larder while its source is killed and restarted; checks every reply
///
/// Starts redis-server with 100,000 read-only keys (about 60 MB), and the larder binary with it as
/// source, a `ttl` longer than any outage and a memory bound of half that, so that there are always
/// hits, misses, fills and evictions. Connections over the Redis protocol read hot keys, cold keys
/// and keys of their own (singly and 16 in a pipeline), set and delete their own; others read over
/// HTTP (/lookup and /v1/kv/). Every --up seconds redis-server is killed (SIGKILL), and --down
/// seconds later restarted.
///
/// Values carry their key, a sequence number and a checksum. Checked: no reply belongs to another
/// key, is damaged, is older than the connection's last acknowledged write or newer than its last
/// attempt; no read-only key is absent; errors come only while the source is away, or for
/// --recovery after, and only as "ERR source unavailable: ..." or HTTP 503; every reply comes
/// within --timeout; while the source is away, 99 % of the reads of hot keys are answered; within
/// --recovery after its return, keys that were never read before are answered; larder's resident
/// memory stays within its bound plus --slack; at the end SIGTERM ends it with status 0.
///
/// One line per outage, and one with the totals; ends with an error if a check failed.
#[derive(Debug, clap::Args)]
pub(crate) struct SoakArgs {
    /// The larder binary
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// How long
    #[arg(long, default_value = "10m", value_parser = larder_units::parse_duration)]
    duration: Duration,
    /// Time between an outage's end and the next
    #[arg(long, default_value = "15s", value_parser = larder_units::parse_duration)]
    up: Duration,
    /// Length of an outage
    #[arg(long, default_value = "5s", value_parser = larder_units::parse_duration)]
    down: Duration,
    /// Time within which service must return
    #[arg(long, default_value = "5s", value_parser = larder_units::parse_duration)]
    recovery: Duration,
    /// Time within which every request must be answered
    #[arg(long, default_value = "10s", value_parser = larder_units::parse_duration)]
    timeout: Duration,
    /// Larder's memory bound
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = larder_units::parse_size)]
    max_memory: u64,
    /// What larder may hold beyond it
    #[arg(long, value_name = "SIZE", default_value = "24MiB", value_parser = larder_units::parse_size)]
    slack: u64,
    /// Connections over the Redis protocol
    #[arg(long, default_value_t = 6)]
    redis_connections: u64,
    /// Connections over HTTP
    #[arg(long, default_value_t = 2)]
    http_connections: u64,
}

/// One outage.
#[derive(Debug, Serialize)]
struct Outage {
    program: &'static str,
    outage: u64,
    at_s: f64,
    hot_reads: u64,
    hot_answered: u64,
    /// Absent if service did not return in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_ms: Option<u64>,
}

/// The totals.
#[derive(Debug, Serialize)]
struct Total {
    program: &'static str,
    duration_s: f64,
    outages: u64,
    #[serde(flatten)]
    tally: SoakTally,
    max_resident: u64,
    allowed_resident: u64,
    failures: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    first_failures: Vec<String>,
}

/// Runs the program.
pub(crate) fn run(args: &SoakArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut redis = servers::redis(None)?;
    load_source(&redis, args.timeout)?;
    let url = format!("redis://{}", redis.address);
    let bound = args.max_memory.to_string();
    // With a lifetime, and only so, copies may be served while the source cannot be asked: longer than
    // the run.
    let options = ["--source", &url, "--max-memory", &bound, "--ttl", "1d"];
    let mut larder = servers::larder(&args.larder, None, &options)?;
    let http = larder.http.context("larder's ready line names no HTTP address")?;
    let source = SoakSource::new(args.recovery);
    let mut watch = Watch::new(args);
    let workers = workers::SoakWorkers { source: &source, redis: larder.address, http, timeout: args.timeout };
    let tally = thread::scope(|scope| {
        let redis_workers = (0..args.redis_connections).map(|id| scope.spawn(move || workers.over_redis(id)));
        let http_workers = (0..args.http_connections).map(|id| scope.spawn(move || workers.over_http(id)));
        let threads: Vec<_> = redis_workers.chain(http_workers).collect();
        let disturbed = disturb(args, &mut redis, &mut larder, &source, &mut watch, out);
        source.end();
        let mut tally = SoakTally::default();
        for thread in threads {
            tally.add(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        disturbed.map(|()| tally)
    })?;
    if !larder.terminate()?.success() {
        watch.fail("SIGTERM did not end larder with status 0".into());
    }
    let total = watch.total(tally);
    figures::line(out, &total)?;
    ensure!(total.failures == 0, "{} checks failed", total.failures);
    Ok(())
}

/// Fills the source with what is only read, and has it saved for its restarts.
fn load_source(redis: &ServerProcess, timeout: Duration) -> anyhow::Result<()> {
    let mut client = RespClient::connect(redis.address, timeout)?;
    for family in [HOT, COLD, PROBE] {
        client.load(family.keys, |number, key, value| {
            family.key(number, key);
            value_stamp::write(key, 0, 200 + (number % 800) as usize, value);
        })?;
    }
    let saved = client.call(&[b"SAVE"])?;
    ensure!(saved == RedisReply::Status("OK".into()), "redis-server answered SAVE with {saved:?}");
    Ok(())
}

/// What the main thread sees.
struct Watch {
    start: Instant,
    outages: u64,
    /// Keys of the family `PROBE` that were used.
    probes: u64,
    max_resident: u64,
    allowed_resident: u64,
    failures: Vec<String>,
}

impl Watch {
    fn new(args: &SoakArgs) -> Watch {
        Watch {
            start: Instant::now(),
            outages: 0,
            probes: 0,
            max_resident: 0,
            allowed_resident: args.max_memory + args.slack,
            failures: Vec::new(),
        }
    }

    fn fail(&mut self, what: String) {
        self.failures.push(what);
    }

    /// Samples larder's memory until `until`; an end of the process ends the program.
    fn over(&mut self, larder: &mut ServerProcess, until: Instant) -> anyhow::Result<()> {
        const EVERY: Duration = Duration::from_millis(100);
        loop {
            if let Some(status) = larder.ended()? {
                bail!("larder ended with {status}");
            }
            self.max_resident = self.max_resident.max(larder.process().resident_bytes()?);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(EVERY));
        }
    }

    fn total(mut self, mut tally: SoakTally) -> Total {
        if self.max_resident > self.allowed_resident {
            self.failures.push(format!("{} bytes resident", self.max_resident));
        }
        let failures = self.failures.len() as u64 + tally.wrong;
        let mut first_failures = self.failures;
        first_failures.append(&mut tally.first_wrong);
        first_failures.truncate(SoakTally::SHOWN);
        Total {
            program: "soak",
            duration_s: figures::rounded(self.start.elapsed().as_secs_f64()),
            outages: self.outages,
            tally,
            max_resident: self.max_resident,
            allowed_resident: self.allowed_resident,
            failures,
            first_failures,
        }
    }
}

/// Kills and restarts the source until the time is over; one line per outage.
fn disturb(
    args: &SoakArgs,
    redis: &mut ServerProcess,
    larder: &mut ServerProcess,
    source: &SoakSource,
    watch: &mut Watch,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    const ANSWERED: f64 = 0.99;
    let end = watch.start + args.duration;
    loop {
        watch.over(larder, end.min(Instant::now() + args.up))?;
        if Instant::now() + args.down + args.recovery >= end {
            return watch.over(larder, end);
        }
        let at_s = figures::rounded(watch.start.elapsed().as_secs_f64());
        source.goes();
        redis.kill()?;
        source.has_gone();
        watch.over(larder, Instant::now() + args.down)?;
        servers::restart_redis(redis)?;
        source.is_back();
        let recovery = recovery(larder.address, args, watch);
        let (hot_reads, hot_answered) = source.hot_reads();
        watch.outages += 1;
        let outage = Outage {
            program: "soak",
            outage: watch.outages,
            at_s,
            hot_reads,
            hot_answered,
            recovery_ms: recovery.map(|time| time.as_millis() as u64),
        };
        figures::line(out, &outage)?;
        if (hot_answered as f64) < hot_reads as f64 * ANSWERED || hot_reads == 0 {
            watch.fail(format!("{hot_answered} of {hot_reads} reads of hot keys were answered in an outage"));
        }
        if recovery.is_none() {
            watch.fail(format!("no service {:?} after the source's return", args.recovery));
        }
    }
}

/// Reads keys that were never read until three in a row are answered; the time this took, or
/// nothing if it was too long.
fn recovery(address: SocketAddr, args: &SoakArgs, watch: &mut Watch) -> Option<Duration> {
    const IN_A_ROW: u32 = 3;
    const EVERY: Duration = Duration::from_millis(10);
    let start = Instant::now();
    let (mut answered, mut key) = (0, Vec::new());
    while start.elapsed() < args.recovery {
        PROBE.key(watch.probes % PROBE.keys, &mut key);
        watch.probes += 1;
        let reply = RespClient::connect(address, args.timeout).and_then(|mut client| client.call(&[b"GET", &key]));
        answered = match reply {
            Ok(RedisReply::Bulk(Some(value))) if value_stamp::read(&key, &value).is_ok() => answered + 1,
            _ => 0,
        };
        if answered == IN_A_ROW {
            return Some(start.elapsed());
        }
        thread::sleep(EVERY);
    }
    None
}
