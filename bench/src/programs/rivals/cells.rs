//! The raw data as figures: medians of the runs with their range, by load, shape and server.
use super::record::{MemoryRecord, PageSection, RawRecord, RivalLoad, SampleRecord};
use crate::lib::{
    figures::{Spread, median},
    results::chart::plain,
};
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
    /// Requests per second that were asked for; absent: as many as possible.
    pub(super) rate: Option<u64>,
}

impl CellKey {
    /// A closed loop of one request at a time on each connection.
    pub(super) fn lone(section: PageSection, load: RivalLoad, connections: usize) -> CellKey {
        CellKey { section, load, pipeline: 1, batches: false, connections, rate: None }
    }
}

/// A figure of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    Cpu,
    Rate,
    P50,
    P99,
    P999,
    Max,
}

impl Figure {
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Figure::Cpu => format!("{value:.2}"),
            Figure::Rate => plain(value),
            _ => format!("{value:.3}"),
        }
    }
}

/// One server under one load.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    /// By [`Figure`], of each run.
    runs: [Vec<f64>; 6],
    /// CPU time of the source behind Larder, if it was measured in every run.
    pub(super) source_cpu_us: Option<f64>,
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
        let figures: [fn(&SampleRecord) -> f64; 6] = [
            |sample| sample.cpu_us,
            |sample| sample.per_second,
            |sample| sample.latency_ms.p50,
            |sample| sample.latency_ms.p99,
            |sample| sample.latency_ms.p999,
            |sample| sample.latency_ms.max,
        ];
        let source: Option<Vec<f64>> = samples.iter().map(|sample| sample.source_cpu_us).collect();
        Cell {
            runs: figures.map(|figure| samples.iter().map(|sample| figure(sample)).collect()),
            source_cpu_us: source.map(|values| median(&values)),
            saturated: samples.iter().any(|sample| sample.client_saturated),
            errors,
        }
    }

    pub(super) fn figure(&self, figure: Figure) -> Spread {
        Spread::of(&self.runs[figure as usize], |value| *value)
    }

    pub(super) fn median(&self, figure: Figure) -> f64 {
        self.figure(figure).median
    }

    /// A figure as a multiple of another server's, run by run: both were loaded one after the other.
    pub(super) fn ratio(&self, base: &Cell, figure: Figure) -> Spread {
        let [own, base] = [self, base].map(|cell| &cell.runs[figure as usize]);
        let ratios: Vec<f64> = own.iter().zip(base).map(|(own, base)| own / base).collect();
        Spread::of(&ratios, |ratio| *ratio)
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
                    let rate = rate.map(|rate| rate as u64);
                    let key = CellKey { section, load, pipeline, batches, connections, rate };
                    let servers = samples.entry(key).or_default();
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

    /// A cell without errors.
    pub(super) fn good(&self, key: CellKey, server: &str) -> Option<&Cell> {
        self.cell(key, server).filter(|cell| cell.errors.is_empty())
    }

    /// Where there are figures.
    pub(super) fn keys(&self) -> impl Iterator<Item = CellKey> {
        self.cells.keys().copied()
    }

    /// The servers under any of these loads.
    pub(super) fn servers(&self, keys: &[CellKey]) -> Vec<String> {
        distinct(keys.iter().flat_map(|&key| self.at(key)).map(|(server, _)| server.clone()))
    }

    /// The servers whose memory was measured.
    pub(super) fn memory_servers(&self) -> Vec<String> {
        distinct(self.memory.iter().map(|row| row.server.clone()))
    }

    /// The lengths of values whose memory was measured.
    pub(super) fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.memory.iter().map(|row| row.value_size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The memory of an entry.
    pub(super) fn bytes(&self, server: &str, size: usize) -> Option<f64> {
        let row = self.memory.iter().find(|row| row.server == server && row.value_size == size)?;
        Some(row.growth as f64 / row.entries as f64)
    }
}

/// In the order of their first occurrence.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
