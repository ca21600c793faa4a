//! Counters, histograms, logs.
//!
//! ```text
//!  worker 0: Counters ─┐
//!  worker 1: Counters ─┤ summed when read      ┌─> /metrics   (text.rs)
//!  engine, sources ────┼─> Snapshot ─> FAMILIES┤
//!  /proc/self ─────────┘                       └─> /v1/stats  (json.rs)
//! ```
//!
//! Each thread adds to its own [`Counters`] and to no other. A metric has one row in [`FAMILIES`], which names it, explains it and
//! reads it from a [`Snapshot`]; both outputs are made from that row, so they cannot disagree.
mod counters;
mod families;
mod histogram;
mod json;
mod logs;
mod process;
mod tap;
mod text;

pub use counters::{Counter, Counters, Sums};
pub use families::{FAMILIES, Family, Kind, Labels, Sink};
pub use histogram::{Distribution, Histogram};
pub use json::json;
pub use logs::Logs;
pub use process::Process;
pub use tap::{Operation, Tap};
pub use text::text;

use crate::store::disk::StoreStats;
use larder_engine::Stats;
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// What the process counts; shared by all threads.
#[derive(Debug)]
pub struct Telemetry {
    /// The level of the logs.
    pub logs: Logs,
    /// What is recorded of the operations, if anybody does.
    pub tap: Tap,
    started: Instant,
    started_at: SystemTime,
    /// One for each worker, and the last for the control thread.
    threads: Vec<Arc<Counters>>,
    /// The sums at the latest CONFIG RESETSTAT.
    reset: Mutex<Sums>,
}

impl Telemetry {
    /// For so many workers, beginning now.
    pub fn new(workers: usize, logs: Logs) -> Telemetry {
        Telemetry {
            logs,
            tap: Tap::new(workers),
            started: Instant::now(),
            started_at: SystemTime::now(),
            threads: (0..=workers).map(|_| Arc::default()).collect(),
            reset: Mutex::default(),
        }
    }
    /// A worker's counters.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn worker(&self, id: usize) -> &Arc<Counters> {
        assert!(id + 1 < self.threads.len(), "worker {id} was not announced to Telemetry::new");
        &self.threads[id]
    }
    /// The control thread's counters: what happens before a connection has a worker.
    pub fn control(&self) -> &Arc<Counters> {
        self.threads.last().expect("there is one more than workers")
    }
    /// Connections open now, of either protocol, worker by worker.
    fn worker_connections(&self) -> impl Iterator<Item = u64> {
        let (_control, workers) = self.threads.split_last().expect("there is one more than workers");
        workers.iter().map(|counters| {
            let opened = counters.http_connections_opened.get() + counters.redis_connections_opened.get();
            let closed = counters.http_connections_closed.get() + counters.redis_connections_closed.get();
            // Read one after the other: one that ends in between must not count below zero.
            opened.saturating_sub(closed)
        })
    }
    /// All threads' counts since the start. Never goes back.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        self.threads.iter().for_each(|counters| sums.add(counters));
        sums
    }
    /// All threads' counts since the latest [`reset`](Self::reset), for INFO.
    pub fn sums_since_reset(&self) -> Sums {
        self.sums().since(&self.reset.lock())
    }
    /// CONFIG RESETSTAT: INFO begins at zero again. `/metrics` goes on, as its readers expect of counters.
    pub fn reset(&self) {
        *self.reset.lock() = self.sums();
    }
    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
    /// Everything at this moment. `groups` in the order of the configuration.
    pub fn snapshot(&self, groups: Vec<GroupSnapshot>, unasked: UnaskedSnapshot, buffers: BuffersSnapshot) -> Snapshot {
        let mut http_seconds = Distribution::default();
        self.threads.iter().for_each(|counters| http_seconds.add(&counters.http_seconds));
        Snapshot {
            version: env!("CARGO_PKG_VERSION"),
            started: self.started_at.duration_since(UNIX_EPOCH).unwrap_or_default(),
            uptime: self.uptime(),
            process: Process::read(),
            sums: self.sums(),
            worker_connections: self.worker_connections().collect(),
            http_seconds,
            groups,
            unasked,
            buffers,
        }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Telemetry::new(0, Logs::default())
    }
}

/// Everything that is counted, at one moment.
#[derive(Debug, Clone)]
#[expect(missing_docs)]
pub struct Snapshot {
    pub version: &'static str,
    /// Since the Unix epoch.
    pub started: Duration,
    pub uptime: Duration,
    pub process: Process,
    pub sums: Sums,
    pub worker_connections: Vec<u64>,
    pub http_seconds: Distribution,
    pub groups: Vec<GroupSnapshot>,
    pub unasked: UnaskedSnapshot,
    pub buffers: BuffersSnapshot,
}

/// What is held for clients besides the memory tiers.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs)]
pub struct BuffersSnapshot {
    pub max_bytes: u64,
    /// By kind.
    pub bytes: Vec<(&'static str, u64)>,
    /// Connections, by protocol.
    pub cut: Vec<(&'static str, u64)>,
    pub refused: u64,
}

/// What Redis clients are told without having asked.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs)]
pub struct UnaskedSnapshot {
    pub tracking_clients: u64,
    /// As far as it is Larder that remembers them.
    pub tracked_keys: u64,
    /// Channels, patterns and shard channels with subscribers, without a source.
    pub subscribed: [u64; 3],
    pub cut_off: u64,
}

/// One group's numbers.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs)]
pub struct GroupSnapshot {
    pub name: String,
    pub cache: Stats,
    pub source: SourceSnapshot,
    /// Of a `disk:` source.
    pub store: Option<StoreStats>,
}

/// One source's numbers; of `none:` only that it is up.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs)]
pub struct SourceSnapshot {
    pub up: bool,
    pub in_flight: u64,
    pub fetches: u64,
    pub errors: u64,
    pub reconnects: u64,
    pub tracking: u64,
    pub untracked: u64,
    pub invalidations: u64,
    pub tracking_losses: u64,
    pub seconds: Distribution,
    /// Of no other source.
    pub table: TableSnapshot,
}

/// A table's numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct TableSnapshot {
    pub entries: u64,
    pub bytes: u64,
    pub swaps: u64,
    pub refused: u64,
}

#[cfg(test)]
mod tests;
