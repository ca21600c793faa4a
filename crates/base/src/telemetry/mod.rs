//! Counters, histograms, logs, history.
//!
//! ```text
//!  worker 0: Counters ─┐
//!  worker 1: Counters ─┤ summed when read           ┌─> /metrics   (prometheus_text)
//!  engine, sources ────┼─> Snapshot ─> metric_table ┤
//!  /proc/self ─────────┘          │                 └─> /v1/stats  (stats_json)
//!                                 └─ each second ─> history: the last hours, events, what goes live
//! ```
//!
//! Each thread adds to its own [`Counters`] and to no other. A metric has one row in [`metric_table`],
//! which names it, explains it and reads it from a [`Snapshot`]; both outputs are made from that
//! row, so they cannot disagree.
mod command_stats;
mod fine_histogram;
mod gzip;
mod histogram;
mod history;
mod hot_keys;
mod http_route;
mod http_route_counts;
mod latency_events;
mod log_limiter;
mod log_writer;
mod logs;
mod metric_table;
mod metrics_snapshot;
mod operation_recorder;
#[cfg(feature = "otlp")]
mod otlp;
mod peers_snapshot;
mod process_stats;
mod prometheus_text;
mod replication_snapshot;
mod saves_snapshot;
mod slow_commands;
mod slow_log;
mod source_nodes;
mod span_ids;
mod stats_json;
mod telemetry_registry;
#[cfg(test)]
mod tests;
mod thread_counter;
mod tracer;
mod worker_counters;

pub use command_stats::{CommandClass, CommandNumbers, CommandStats};
pub use fine_histogram::FineDistribution;
pub use gzip::gzip;
pub use histogram::{Distribution, Histogram, HistogramSample};
pub use history::{Event, EventKind, EventLog, History, HistoryPage, LiveMessage, MOST_GROUPS, NewEvent, Resolution};
pub use hot_keys::{HotKey, HotKeyReport, HotKeys, KeyCounts, Measure, SessionOptions, SessionReport, prefix_of};
pub use http_route::{HttpDistributions, HttpRoute, HttpTimes};
pub use http_route_counts::{HttpRouteCounter, HttpRouteCounters, HttpRouteNumbers, HttpRouteSums};
pub use latency_events::LatencySummary;
pub use log_limiter::LogLimiter;
pub use log_writer::LastLines;
pub use logs::Logs;
pub use metric_table::{Labels, MetricFamily, MetricKind, MetricSink, all_metrics};
pub use metrics_snapshot::{
    AdmissionSnapshot, BuffersSnapshot, CertificateSnapshot, DriverSnapshot, FaultsSnapshot, GroupSnapshot,
    InspectionSnapshot, MirrorSnapshot, ModeSnapshot, PushSnapshot, Snapshot, SourceSnapshot, TableSnapshot,
    TlsSnapshot,
};
pub use operation_recorder::{RecordedOperation, Recorder};
#[cfg(feature = "otlp")]
pub use otlp::{OtlpResource, PartialSuccess, metrics_message, partial_success, traces_message};
pub use peers_snapshot::{NodeSnapshot, PeersSnapshot, SharedGroupSnapshot};
pub use process_stats::{CpuTime, ProcessStats};
pub use prometheus_text::{MetricsFormat, prometheus_text};
pub use replication_snapshot::{LinkSnapshot, ReplicaSnapshot, ReplicationSnapshot};
pub use saves_snapshot::{LastSaveSnapshot, SavesSnapshot, VerificationSnapshot};
pub use slow_commands::SlowCommands;
pub use slow_log::{SlowEntry, record_args, recorded_args};
pub use source_nodes::{NodeChange, SourceNodes, node_changes};
pub use span_ids::SpanIds;
pub use stats_json::{hit_ratio, stats_json};
pub use telemetry_registry::{Build, Telemetry};
pub use thread_counter::{Counter, Maximum};
pub use tracer::{Span, SpanKind, Tracer};
pub use worker_counters::{CounterSums, Counters};
