//! `larder-bench hot-keys`: whether the lists of hot keys have the keys that were read most, and
//! what a read costs.
use crate::lib::{
    figures,
    load::zipf::Zipf,
    trace::{TraceFile, TraceFormat},
};
use anyhow::ensure;
use fastrand::Rng;
use larder::telemetry::{HotKeys, Measure};
use serde::Serialize;
use std::{collections::HashMap, io::Write, path::PathBuf, time::Instant};

/// Reads are spread over so many workers in turn, as the connections of a server are.
const WORKERS: usize = 2;
/// Bytes of every value.
const VALUE: usize = 64;

/// Share of the keys with the most reads that `/v1/hot-keys` lists, on Zipf traces or recorded ones
///
/// Each read of the trace goes through what a server notes on a hit, at the same moment of time, so
/// that nothing is halved. The list is compared with exact counts. One line per trace: trace,
/// requests, distinct, top (length of the list), recall (share of the true top that the list has;
/// keys with as many reads as the last of it count as true), noted (share of the reads that were
/// noted), ns_per_read (one thread, counting and noting, without the read itself).
#[derive(Debug, clap::Args)]
pub(crate) struct HotKeysArgs {
    /// Trace files; may end in .zst or .xz
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    trace: Vec<PathBuf>,
    /// How the traces are written; without it the name tells
    #[arg(long)]
    format: Option<TraceFormat>,
    /// Exponents of Zipf traces
    #[arg(long, value_name = "THETA", value_delimiter = ',', default_values_t = [0.8, 0.9, 0.99, 1.1])]
    theta: Vec<f64>,
    /// Keys of a Zipf trace
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [100_000, 1_000_000])]
    keys: Vec<u64>,
    /// Reads of a Zipf trace
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    requests: u64,
    /// Keys of the list
    #[arg(long, value_name = "N", default_value_t = 50)]
    top: usize,
}

#[derive(Debug, Serialize)]
struct Row {
    trace: String,
    requests: u64,
    distinct: usize,
    top: usize,
    recall: f64,
    noted: f64,
    ns_per_read: f64,
}

/// Runs the program.
pub(crate) fn run(args: &HotKeysArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.top > 0, "--top is above 0");
    for path in &args.trace {
        let trace = TraceFile::new(path, args.format)?;
        let keys = trace.keys()?.collect::<anyhow::Result<Vec<u64>>>()?;
        figures::line(out, &replay(trace.name(), &keys, args.top))?;
    }
    for &theta in args.theta.iter().filter(|_| args.trace.is_empty()) {
        for &count in &args.keys {
            let (zipf, mut rng) = (Zipf::new(count, theta), Rng::with_seed(7));
            let keys: Vec<u64> = (0..args.requests).map(|_| zipf.sample(&mut rng)).collect();
            figures::line(out, &replay(format!("zipf:{theta}:{count}"), &keys, args.top))?;
        }
    }
    Ok(())
}

fn replay(trace: String, keys: &[u64], top: usize) -> Row {
    let hot_keys = HotKeys::default();
    let workers: Vec<_> = (0..WORKERS).map(|_| hot_keys.join(0)).collect();
    let mut noted = 0u64;
    let begun = Instant::now();
    for (number, key) in keys.iter().enumerate() {
        let worker = &workers[number % WORKERS];
        if worker.is_due() {
            noted += 1;
            worker.note_read(&name(*key), Some(VALUE), 0);
        }
    }
    let took = begun.elapsed();
    let mut counts: HashMap<u64, u64> = HashMap::new();
    keys.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
    let mut exact: Vec<u64> = counts.values().copied().collect();
    exact.sort_unstable_by(|a, b| b.cmp(a));
    let top = top.min(exact.len());
    let least = exact.get(top.saturating_sub(1)).copied().unwrap_or_default();
    let by_name: HashMap<Vec<u8>, u64> = counts.iter().map(|(key, count)| (name(*key).to_vec(), *count)).collect();
    let report = hot_keys.report(top, 0);
    let listed = report.keys[Measure::Reads as usize].iter();
    let right = listed.filter(|key| by_name.get(&key.name).is_some_and(|count| *count >= least)).count();
    let requests = keys.len() as u64;
    Row {
        trace,
        requests,
        distinct: counts.len(),
        top,
        recall: figures::rounded(right as f64 / top.max(1) as f64),
        noted: figures::rounded(noted as f64 / requests.max(1) as f64),
        ns_per_read: figures::rounded(took.as_nanos() as f64 / requests.max(1) as f64),
    }
}

/// A key as applications write them, with a prefix.
fn name(key: u64) -> [u8; 21] {
    let mut name = *b"user:0000000000000000";
    for (at, digit) in name[5..].iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(key >> (4 * at)) as usize & 15];
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_keys_that_were_read_most() {
        for (theta, seed) in [(0.9, 1), (0.99, 2), (1.1, 3)] {
            let (zipf, mut rng) = (Zipf::new(200_000, theta), Rng::with_seed(seed));
            let keys: Vec<u64> = (0..2_000_000).map(|_| zipf.sample(&mut rng)).collect();
            let row = replay(theta.to_string(), &keys, 50);
            assert!(row.recall >= 0.9, "{row:?}");
            assert!(row.noted < 0.5, "{row:?}");
        }
    }

    #[test]
    fn names_are_those_of_their_numbers() {
        assert_eq!(&name(0), b"user:0000000000000000");
        assert_eq!(&name(0x12_abcd), b"user:000000000012abcd");
    }
}
