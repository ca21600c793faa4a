//! `larder-bench what-if`: whether the curves of what-if are those of whole replays.
mod replays;
mod shapes;

use self::{
    replays::{Entries, Lru},
    shapes::{Shape, Step},
};
use crate::lib::{
    figures,
    trace::{OperationKind, TraceFile, TraceFormat},
};
use anyhow::{Context, ensure};
use clap::ValueEnum;
use larder_engine::{Cache, Config, WhatIf};
use serde::Serialize;
use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

/// The hit ratios of `/v1/what-if` beside those of replaying the whole trace at each size
///
/// The trace goes through a tier that simulates, and then, for each of the six sizes, through a
/// tier of that size and through an exact LRU that holds as much. A miss is followed by a write.
///
/// One line per trace and size: trace, steps, factor (of the tier's bound), estimated, replayed
/// (hit ratios), points (the difference in per cent points), lru_estimated, lru_replayed,
/// lru_points, sampled_share (of the keys, at the end), sampled_keys, bytes (of the simulation),
/// ns_per_step (by how much a step takes longer with the simulation, one thread; on a busy machine
/// this may be below zero). The seed of the tier's hash, which decides the sample, is --seed.
#[derive(Debug, clap::Args)]
pub(crate) struct WhatIfArgs {
    /// Trace files; may end in .zst or .xz
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    trace: Vec<PathBuf>,
    /// How the traces are written; without it the name tells
    #[arg(long)]
    format: Option<TraceFormat>,
    /// Shapes of made traces, used without --trace (all)
    #[arg(long, value_delimiter = ',')]
    shape: Vec<Shape>,
    /// Keys of a made trace
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    keys: u64,
    /// Steps of a made trace
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    steps: u64,
    /// The tier's bound in per cent of the trace's distinct keys
    #[arg(long, value_name = "P", value_delimiter = ',', default_values_t = [5.0])]
    percent: Vec<f64>,
    /// Seeds
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1])]
    seed: Vec<u64>,
}

/// One line of the result.
#[derive(Debug, Serialize)]
struct Row {
    trace: String,
    percent: f64,
    seed: u64,
    steps: u64,
    factor: f64,
    estimated: f64,
    replayed: f64,
    points: f64,
    lru_estimated: f64,
    lru_replayed: f64,
    lru_points: f64,
    sampled_share: f64,
    sampled_keys: u64,
    bytes: u64,
    ns_per_step: f64,
}

/// A trace in memory.
struct Trace {
    name: String,
    steps: Vec<Step>,
    distinct: usize,
    entries: Entries,
    is_bound_by_bytes: bool,
}

impl Trace {
    fn made(shape: Shape, keys: u64, steps: u64, seed: u64) -> Trace {
        let name = shape.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let entries = Entries {
            value_size: Box::new(move |key| shape.value_size(key)),
            lifetime: Box::new(move |key| shape.lifetime(key)),
        };
        Trace::new(name, shape.steps(keys, steps, seed).collect(), entries, shape.is_bound_by_bytes())
    }

    fn read(path: &Path, format: Option<TraceFormat>) -> anyhow::Result<Trace> {
        let file = TraceFile::new(path, format)?;
        let steps: Vec<Step> = match file.operations() {
            Ok(operations) => {
                let step = |operation: anyhow::Result<crate::lib::trace::TracedOperation>| {
                    operation.map(|operation| match operation.kind {
                        OperationKind::Get => Step::Get(operation.key),
                        OperationKind::Set(_) => Step::Set(operation.key),
                        OperationKind::Del => Step::Delete(operation.key),
                    })
                };
                operations.map(step).collect::<anyhow::Result<_>>()?
            }
            Err(_) => file.keys()?.map(|key| key.map(Step::Get)).collect::<anyhow::Result<_>>()?,
        };
        let entries = Entries { value_size: Box::new(|_| 16), lifetime: Box::new(|_| None) };
        Ok(Trace::new(file.name(), steps, entries, false))
    }

    fn new(name: String, steps: Vec<Step>, entries: Entries, is_bound_by_bytes: bool) -> Trace {
        let keys = steps.iter().map(|step| match step {
            Step::Get(key) | Step::Set(key) | Step::Delete(key) => *key,
        });
        let distinct = keys.collect::<std::collections::HashSet<u64>>().len();
        Trace { name, steps, distinct, entries, is_bound_by_bytes }
    }

    /// The tier at a bound of so many per cent of the keys, times `factor`.
    fn tier(&self, percent: f64, factor: f64, what_if: Option<u32>, seed: u64) -> Arc<Cache> {
        let keys = (self.distinct as f64 * percent / 100.0 * factor).max(1.0);
        let bounds = match self.is_bound_by_bytes {
            true => Config { max_memory: (keys * 1000.0) as usize, ..Config::default() },
            false => Config { max_memory: 8 << 30, max_keys: Some(keys as usize), ..Config::default() },
        };
        Cache::new(Config { what_if, seed: Some(seed), ..bounds })
    }

    fn steps(&self) -> impl Iterator<Item = Step> {
        self.steps.iter().copied()
    }

    /// The curve, and how long a step took, ns.
    fn simulated(&self, percent: f64, seed: u64) -> anyhow::Result<(WhatIf, f64)> {
        let run = |what_if| {
            let (tier, begun) = (self.tier(percent, 1.0, what_if, seed), Instant::now());
            replays::tier(&tier, self.steps(), &self.entries);
            let took = begun.elapsed().as_nanos() as f64 / self.steps.len().max(1) as f64;
            (tier.what_if(replays::end(self.steps.len() as u64)), took)
        };
        let (_, without) = run(None);
        let (curve, with) = run(Some(0));
        Ok((curve.context("the tier simulates")?, with - without))
    }

    /// The hit ratios of the tier and of LRU.
    fn replayed(&self, percent: f64, factor: f64, seed: u64) -> (f64, f64) {
        let tier = self.tier(percent, factor, None, seed);
        let ratio = replays::tier(&tier, self.steps(), &self.entries).ratio();
        let stats = tier.stats();
        // As many bytes of records as the tier holds, unless it holds all.
        let max_bytes = match self.is_bound_by_bytes && stats.evictions > 0 {
            true => stats.live_bytes as usize,
            false => usize::MAX,
        };
        let lru = Lru::new(tier.max_keys().unwrap_or(usize::MAX), max_bytes);
        (ratio, lru.replay(self.steps(), &self.entries).ratio())
    }

    fn rows(&self, percent: f64, seed: u64) -> anyhow::Result<Vec<Row>> {
        let (curve, ns_per_step) = self.simulated(percent, seed)?;
        let row = |point: &larder_engine::WhatIfPoint| {
            let (replayed, lru_replayed) = self.replayed(percent, point.factor, seed);
            let points = |estimated: f64, replayed: f64| figures::rounded(100.0 * (estimated - replayed));
            Row {
                trace: self.name.clone(),
                percent,
                seed,
                steps: self.steps.len() as u64,
                factor: point.factor,
                estimated: figures::rounded(point.hit_ratio),
                replayed: figures::rounded(replayed),
                points: points(point.hit_ratio, replayed),
                lru_estimated: figures::rounded(point.lru_hit_ratio),
                lru_replayed: figures::rounded(lru_replayed),
                lru_points: points(point.lru_hit_ratio, lru_replayed),
                sampled_share: curve.sampled_share,
                sampled_keys: curve.sampled_keys,
                bytes: curve.bytes,
                ns_per_step: figures::rounded(ns_per_step),
            }
        };
        Ok(curve.points.iter().map(row).collect())
    }
}

/// Runs the program.
pub(crate) fn run(args: &WhatIfArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.percent.iter().all(|&p| p > 0.0 && p <= 100.0), "--percent takes numbers above 0 and up to 100");
    ensure!(args.keys >= 4, "--keys is at least 4");
    let shapes = if args.shape.is_empty() { Shape::value_variants() } else { &args.shape };
    for &seed in &args.seed {
        let files = args.trace.iter().map(|path| Trace::read(path, args.format));
        let made = shapes.iter().filter(|_| args.trace.is_empty());
        for trace in files.chain(made.map(|shape| Ok(Trace::made(*shape, args.keys, args.steps, seed)))) {
            let trace = trace?;
            for &percent in &args.percent {
                for row in trace.rows(percent, seed)? {
                    figures::line(out, &row)?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest difference to whole replays, in points: of the policy and of LRU.
    fn worst(shape: Shape) -> (f64, f64) {
        let rows = Trace::made(shape, 30_000, 300_000, 3).rows(5.0, 3).expect("it simulates");
        let largest = |points: fn(&Row) -> f64| rows.iter().map(points).map(f64::abs).fold(0.0, f64::max);
        assert!(rows[0].sampled_keys <= 16 << 10 && rows[0].bytes < 6 << 20, "{:?}", rows[0]);
        (largest(|row| row.points), largest(|row| row.lru_points))
    }

    #[test]
    fn the_curves_are_those_of_whole_replays() {
        // In a tier of less than 1 MiB, values of several KiB leave gaps that are not simulated.
        for shape in Shape::value_variants().iter().filter(|shape| !shape.is_bound_by_bytes()) {
            let (policy, lru) = worst(*shape);
            assert!(policy <= 1.5 && lru <= 2.0, "{shape:?}: {policy} points, LRU {lru}");
        }
    }
}
