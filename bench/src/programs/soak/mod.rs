//! `larder-bench soak`: does the service hold while its source comes and goes?
//!
//! ```text
//! main thread:   source up ── kill ── down ── restart ── recovery ── up … ; samples larder's memory; asks it to end at the end
//! workers:       Redis protocol and HTTP, closed loop; every reply is judged
//! ```
//! The source's data are saved once at the start, so the read-only keys exist whenever it answers:
//! an absent one is a wrong reply.
mod model;
#[cfg(test)]
mod tests;
mod worker;

use crate::lib::{
    blocking_clients::{RedisReply, RespClient},
    figures,
    servers::{self, ServerProcess},
    value_stamp,
};
use anyhow::{Context, bail, ensure};
use model::{COLD, HOT, PROBE, SoakSource, SoakTally};
use serde_json::json;
use std::{
    io::Write,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use worker::Worker;

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

/// Runs the program.
pub(crate) fn run(args: &SoakArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let redis = servers::redis(None)?;
    load_source(&redis, args.timeout)?;
    let url = format!("redis://{}", redis.address);
    let bound = args.max_memory.to_string();
    // With a lifetime, and only so, copies may be served while the source cannot be asked: longer than
    // the run.
    let larder = servers::larder(&args.larder, None, &["--source", &url, "--max-memory", &bound, "--ttl", "1d"])?;
    let (address, http) = (larder.address, larder.http.context("larder's ready line names no HTTP address")?);
    let source = SoakSource::new(args.recovery);
    let (source, timeout) = (&source, args.timeout);
    let (start, max_resident, probes) = (Instant::now(), 0, 0);
    let mut watch = Watch { args, start, redis, larder, outages: 0, probes, max_resident, failures: Vec::new() };
    let mut tally = thread::scope(|scope| {
        let redis_workers = (0..args.redis_connections)
            .map(|id| scope.spawn(move || Worker::new(source, id).over_redis(address, timeout)));
        let http_workers = (0..args.http_connections)
            .map(|id| scope.spawn(move || Worker::new(source, 1000 + id).over_http(http, timeout)));
        let threads: Vec<_> = redis_workers.chain(http_workers).collect();
        let disturbed = watch.disturb(source, out);
        source.end();
        let mut tally = SoakTally::default();
        for thread in threads {
            tally.add(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        disturbed.map(|()| tally)
    })?;
    if !watch.larder.terminate()?.success() {
        watch.failures.push("SIGTERM did not end larder with status 0".into());
    }
    let (max_resident, allowed) = (watch.max_resident, args.max_memory + args.slack);
    if max_resident > allowed {
        watch.failures.push(format!("{max_resident} bytes resident"));
    }
    let failures = watch.failures.len() as u64 + tally.wrong;
    let mut total = json!({
        "program": "soak", "duration_s": figures::rounded(start.elapsed().as_secs_f64()), "outages": watch.outages,
        "requests": tally.requests, "values": tally.values, "absent": tally.absent, "writes": tally.writes,
        "errors": tally.errors, "slowest_ms": tally.slowest_ms, "wrong": tally.wrong,
        "max_resident": max_resident, "allowed_resident": allowed, "failures": failures,
    });
    if failures > 0 {
        watch.failures.append(&mut tally.first_wrong);
        watch.failures.truncate(SoakTally::SHOWN);
        total["first_failures"] = watch.failures.into();
    }
    figures::line(out, &total)?;
    ensure!(failures == 0, "{failures} checks failed");
    Ok(())
}

/// Fills the source with what is only read, and has it saved for its restarts.
fn load_source(redis: &ServerProcess, timeout: Duration) -> anyhow::Result<()> {
    let mut client = RespClient::connect(redis.address, timeout)?;
    for family in [HOT, COLD, PROBE] {
        client.load(family.keys, |number, key, value| {
            *key = family.key(number);
            value_stamp::write(key, 0, 200 + (number % 800) as usize, value);
        })?;
    }
    let saved = client.call(&[b"SAVE"])?;
    ensure!(saved == RedisReply::Status("OK".into()), "redis-server answered SAVE with {saved:?}");
    Ok(())
}

/// What the main thread does and sees.
struct Watch<'a> {
    args: &'a SoakArgs,
    start: Instant,
    redis: ServerProcess,
    larder: ServerProcess,
    outages: u64,
    /// Keys of the family `PROBE` that were used.
    probes: u64,
    max_resident: u64,
    failures: Vec<String>,
}

impl Watch<'_> {
    /// Samples larder's memory until `until`; an end of the process ends the program.
    fn over(&mut self, until: Instant) -> anyhow::Result<()> {
        const EVERY: Duration = Duration::from_millis(100);
        loop {
            if let Some(status) = self.larder.ended()? {
                bail!("larder ended with {status}");
            }
            self.max_resident = self.max_resident.max(self.larder.process().resident_bytes()?);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(EVERY));
        }
    }

    /// Kills and restarts the source until the time is over; one line per outage.
    fn disturb(&mut self, source: &SoakSource, out: &mut dyn Write) -> anyhow::Result<()> {
        const ANSWERED: f64 = 0.99;
        let &SoakArgs { duration, up, down, recovery, .. } = self.args;
        let end = self.start + duration;
        loop {
            self.over(end.min(Instant::now() + up))?;
            if Instant::now() + down + recovery >= end {
                return self.over(end);
            }
            let at_s = figures::rounded(self.start.elapsed().as_secs_f64());
            source.goes();
            self.redis.kill()?;
            source.has_gone();
            self.over(Instant::now() + down)?;
            servers::restart(&mut self.redis)?;
            source.is_back();
            let returned = self.recovery();
            let (hot_reads, hot_answered) = source.hot_reads();
            self.outages += 1;
            let mut outage = json!({
                "program": "soak", "outage": self.outages, "at_s": at_s, "hot_reads": hot_reads,
                "hot_answered": hot_answered,
            });
            match returned {
                Some(time) => outage["recovery_ms"] = (time.as_millis() as u64).into(),
                None => self.failures.push(format!("no service {recovery:?} after the source's return")),
            }
            figures::line(out, &outage)?;
            if (hot_answered as f64) < hot_reads as f64 * ANSWERED || hot_reads == 0 {
                let what = format!("{hot_answered} of {hot_reads} reads of hot keys were answered in an outage");
                self.failures.push(what);
            }
        }
    }

    /// Reads keys that were never read until three in a row are answered; the time this took, or
    /// nothing if it was too long.
    fn recovery(&mut self) -> Option<Duration> {
        const IN_A_ROW: u32 = 3;
        const EVERY: Duration = Duration::from_millis(10);
        let (start, mut answered) = (Instant::now(), 0);
        while start.elapsed() < self.args.recovery {
            let key = PROBE.key(self.probes % PROBE.keys);
            self.probes += 1;
            let client = RespClient::connect(self.larder.address, self.args.timeout);
            answered = match client.and_then(|mut client| client.call(&[b"GET", &key])) {
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
}
