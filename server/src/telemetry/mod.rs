//! Counters, histograms, logs, history.
//!
//! ```text
//!  worker 0: Counters ─┐
//!  worker 1: Counters ─┤ summed when read      ┌─> /metrics   (prometheus_text)
//!  engine, sources ────┼─> Snapshot ─> METRICS┤
//!  /proc/self ─────────┘          │            └─> /v1/stats  (stats_json)
//!                                 └─ each second ─> history: the last hours, events, what goes live
//! ```
//!
//! Each thread adds to its own [`Counters`] and to no other. A metric has one row in [`METRICS`],
//! which names it, explains it and reads it from a [`Snapshot`]; both outputs are made from that
//! row, so they cannot disagree.
mod command_calls;
mod histogram;
mod history;
mod hot_keys;
mod log_limiter;
mod logs;
mod metric_table;
mod metrics_snapshot;
mod operation_recorder;
mod peers_snapshot;
mod process_stats;
mod prometheus_text;
mod replication_snapshot;
mod saves_snapshot;
mod stats_json;
mod telemetry_registry;
#[cfg(test)]
mod tests;
mod thread_counter;
mod worker_counters;

pub use command_calls::CommandCalls;
pub use histogram::{Distribution, Histogram};
pub use history::{Event, EventKind, EventLog, History, HistoryPage, LiveMessage, MOST_GROUPS, NewEvent, Resolution};
pub use hot_keys::{HotKey, HotKeyReport, HotKeys, KeyCounts, Measure, SessionOptions, SessionReport};
pub use log_limiter::LogLimiter;
pub use logs::Logs;
pub use metric_table::{Labels, METRICS, MetricFamily, MetricKind, MetricSink};
pub use metrics_snapshot::{
    AdmissionSnapshot, BuffersSnapshot, CertificateSnapshot, FaultsSnapshot, GroupSnapshot, InspectionSnapshot,
    ModeSnapshot, PushSnapshot, Snapshot, SourceSnapshot, TableSnapshot, TlsSnapshot,
};
pub use operation_recorder::{RecordedOperation, Recorder};
pub use peers_snapshot::{NodeSnapshot, PeersSnapshot, SharedGroupSnapshot};
pub use process_stats::{CpuTime, ProcessStats};
pub use prometheus_text::prometheus_text;
pub use replication_snapshot::{LinkSnapshot, ReplicaSnapshot, ReplicationSnapshot};
pub use saves_snapshot::{LastSaveSnapshot, SavesSnapshot, VerificationSnapshot};
pub use stats_json::stats_json;
pub use telemetry_registry::Telemetry;
pub use thread_counter::Counter;
pub use worker_counters::{CounterSums, Counters};
