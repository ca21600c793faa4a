//! The raw data as figures: medians of the runs with their range, by load, shape and server.
use super::record::{MemoryRecord, PageSection, RawRecord, RivalLoad, SampleRecord};
use crate::lib::figures::median;
use std::collections::BTreeMap;

/// Where a figure belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellKey {
    pub(super) section: PageSection,
    pub(super) load: RivalLoad,
    pub(super) pipeline: usize,
    /// The pipeline is sent and awaited together.
    pub(super) batches: bool,
    pub(super) connections: usize,
    /// Closed loop, or at a rate.
    pub(super) open: bool,
}

impl CellKey {
    /// A closed loop of one request at a time on each connection.
    pub(super) fn lone(section: PageSection, load: RivalLoad, connections: usize) -> CellKey {
        CellKey { section, load, pipeline: 1, batches: false, connections, open: false }
    }
}

/// The median of several runs, the least and the most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RunSpread {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl RunSpread {
    fn of(samples: &[&SampleRecord], figure: impl Fn(&SampleRecord) -> f64) -> RunSpread {
        let values: Vec<f64> = samples.iter().map(|sample| figure(sample)).collect();
        let (low, high) =
            values.iter().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), &v| (low.min(v), high.max(v)));
        RunSpread { median: median(&values), low, high }
    }
}

/// One server under one load.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) cpu_us: RunSpread,
    /// Of the source behind Larder, if it was measured in every run.
    pub(super) source_cpu_us: Option<f64>,
    pub(super) per_second: RunSpread,
    pub(super) p50_ms: RunSpread,
    pub(super) p99_ms: RunSpread,
    pub(super) p999_ms: RunSpread,
    pub(super) max_ms: RunSpread,
    /// In any run the generator was the bottleneck.
    pub(super) saturated: bool,
    /// What went wrong in any run, by kind.
    pub(super) errors: BTreeMap<String, u64>,
}

impl Cell {
    fn of(samples: &[&SampleRecord]) -> Cell {
        let mut errors = BTreeMap::new();
        for (kind, count) in samples.iter().flat_map(|sample| &sample.errors) {
            *errors.entry(kind.clone()).or_insert(0) += count;
        }
        Cell {
            cpu_us: RunSpread::of(samples, |sample| sample.cpu_us),
            source_cpu_us: samples
                .iter()
                .map(|sample| sample.source_cpu_us)
                .collect::<Option<Vec<f64>>>()
                .map(|values| median(&values)),
            per_second: RunSpread::of(samples, |sample| sample.per_second),
            p50_ms: RunSpread::of(samples, |sample| sample.latency_ms.p50),
            p99_ms: RunSpread::of(samples, |sample| sample.latency_ms.p99),
            p999_ms: RunSpread::of(samples, |sample| sample.latency_ms.p999),
            max_ms: RunSpread::of(samples, |sample| sample.latency_ms.max),
            saturated: samples.iter().any(|sample| sample.client_saturated),
            errors,
        }
    }
}

/// All figures, servers in the order in which they were first loaded.
#[derive(Debug, Default)]
pub(super) struct Cells {
    cells: BTreeMap<CellKey, Vec<(String, Cell)>>,
    pub(super) memory: Vec<MemoryRecord>,
}

/// The server that the others are compared with.
pub(super) const BASE: &str = "larder";

impl Cells {
    /// Of the raw data.
    pub(super) fn of(records: &[RawRecord]) -> Cells {
        let mut samples = BTreeMap::<CellKey, Vec<(&str, Vec<&SampleRecord>)>>::new();
        let mut memory = Vec::new();
        for record in records {
            match record {
                RawRecord::Sample(sample) => {
                    let &SampleRecord { section, load, pipeline, batches, connections, rate, .. } = sample;
                    let servers = samples
                        .entry(CellKey { section, load, pipeline, batches, connections, open: rate.is_some() })
                        .or_default();
                    match servers.iter_mut().find(|(server, _)| *server == sample.server) {
                        Some((_, samples)) => samples.push(sample),
                        None => servers.push((&sample.server, vec![sample])),
                    }
                }
                RawRecord::Memory(row) => memory.push(row.clone()),
                _ => {}
            }
        }
        let cell = |(server, samples): (&str, Vec<&SampleRecord>)| (server.to_owned(), Cell::of(&samples));
        let cells = samples.into_iter().map(|(key, servers)| (key, servers.into_iter().map(cell).collect())).collect();
        Cells { cells, memory }
    }

    /// The servers under one load.
    pub(super) fn at(&self, key: CellKey) -> &[(String, Cell)] {
        self.cells.get(&key).map_or(&[], |servers| servers)
    }

    /// One server under one load, if it has figures.
    pub(super) fn cell(&self, key: CellKey, server: &str) -> Option<&Cell> {
        self.at(key).iter().find(|(name, _)| name == server).map(|(_, cell)| cell)
    }

    /// Where there are figures.
    pub(super) fn keys(&self) -> impl Iterator<Item = CellKey> {
        self.cells.keys().copied()
    }

    /// The servers under any of these loads.
    pub(super) fn servers(&self, keys: &[CellKey]) -> Vec<&str> {
        let mut servers = Vec::new();
        for (server, _) in keys.iter().flat_map(|&key| self.at(key)) {
            if !servers.contains(&server.as_str()) {
                servers.push(server.as_str());
            }
        }
        servers
    }
}
