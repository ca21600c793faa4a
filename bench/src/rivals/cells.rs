//! The raw data as figures: medians of the runs with their range, by load, shape and server.
use super::record::{Load, Memory, Record, Sample, Section};
use crate::report::median;
use std::collections::BTreeMap;

/// Where a figure belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) section: Section,
    pub(super) load: Load,
    pub(super) pipeline: usize,
    pub(super) connections: usize,
    /// Closed loop, or at a rate.
    pub(super) open: bool,
}

/// The median of several runs, the least and the most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Spread {
    fn of(samples: &[&Sample], figure: impl Fn(&Sample) -> f64) -> Spread {
        let values: Vec<f64> = samples.iter().map(|sample| figure(sample)).collect();
        let (low, high) =
            values.iter().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), &v| (low.min(v), high.max(v)));
        Spread { median: median(&values), low, high }
    }
}

/// One server under one load.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) cpu_us: Spread,
    pub(super) per_second: Spread,
    pub(super) p50_ms: Spread,
    pub(super) p99_ms: Spread,
    pub(super) p999_ms: Spread,
    pub(super) max_ms: Spread,
    /// In any run the generator was the bottleneck.
    pub(super) saturated: bool,
    /// What went wrong in any run, by kind.
    pub(super) errors: BTreeMap<String, u64>,
}

impl Cell {
    fn of(samples: &[&Sample]) -> Cell {
        let mut errors = BTreeMap::new();
        for (kind, count) in samples.iter().flat_map(|sample| &sample.errors) {
            *errors.entry(kind.clone()).or_insert(0) += count;
        }
        Cell {
            cpu_us: Spread::of(samples, |sample| sample.cpu_us),
            per_second: Spread::of(samples, |sample| sample.per_second),
            p50_ms: Spread::of(samples, |sample| sample.latency_ms.p50),
            p99_ms: Spread::of(samples, |sample| sample.latency_ms.p99),
            p999_ms: Spread::of(samples, |sample| sample.latency_ms.p999),
            max_ms: Spread::of(samples, |sample| sample.latency_ms.max),
            saturated: samples.iter().any(|sample| sample.client_saturated),
            errors,
        }
    }
}

/// All figures, servers in the order in which they were first loaded.
#[derive(Debug, Default)]
pub(super) struct Cells {
    cells: BTreeMap<Key, Vec<(String, Cell)>>,
    pub(super) memory: Vec<Memory>,
}

/// The server that the others are compared with.
pub(super) const BASE: &str = "larder";

impl Cells {
    /// Of the raw data.
    pub(super) fn of(records: &[Record]) -> Cells {
        let mut samples = BTreeMap::<Key, Vec<(&str, Vec<&Sample>)>>::new();
        let mut memory = Vec::new();
        for record in records {
            match record {
                Record::Sample(sample) => {
                    let &Sample { section, load, pipeline, connections, rate, .. } = sample;
                    let servers =
                        samples.entry(Key { section, load, pipeline, connections, open: rate.is_some() }).or_default();
                    match servers.iter_mut().find(|(server, _)| *server == sample.server) {
                        Some((_, samples)) => samples.push(sample),
                        None => servers.push((&sample.server, vec![sample])),
                    }
                }
                Record::Memory(row) => memory.push(row.clone()),
                _ => {}
            }
        }
        let cell = |(server, samples): (&str, Vec<&Sample>)| (server.to_owned(), Cell::of(&samples));
        let cells = samples.into_iter().map(|(key, servers)| (key, servers.into_iter().map(cell).collect())).collect();
        Cells { cells, memory }
    }

    /// The servers under one load.
    pub(super) fn at(&self, key: Key) -> &[(String, Cell)] {
        self.cells.get(&key).map_or(&[], |servers| servers)
    }

    /// One server under one load, if it has figures.
    pub(super) fn cell(&self, key: Key, server: &str) -> Option<&Cell> {
        self.at(key).iter().find(|(name, _)| name == server).map(|(_, cell)| cell)
    }

    /// Where there are figures.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.cells.keys().copied()
    }

    /// The servers under any of these loads.
    pub(super) fn servers(&self, keys: &[Key]) -> Vec<&str> {
        let mut servers = Vec::new();
        for (server, _) in keys.iter().flat_map(|&key| self.at(key)) {
            if !servers.contains(&server.as_str()) {
                servers.push(server.as_str());
            }
        }
        servers
    }
}
