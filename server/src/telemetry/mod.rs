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
mod command_calls;
mod counter;
mod counters;
mod histogram;
mod json;
mod log_limiter;
mod logs;
mod metric_table;
mod process;
mod recorder;
mod registry;
mod snapshot;
#[cfg(test)]
mod tests;
mod text;

pub use command_calls::Calls;
pub use counter::Counter;
pub use counters::{Counters, Sums};
pub use histogram::{Distribution, Histogram};
pub use json::json;
pub use log_limiter::Seldom;
pub use logs::Logs;
pub use metric_table::{FAMILIES, Family, Kind, Labels, Sink};
pub use process::Process;
pub use recorder::{Operation, Recorder};
pub use registry::Telemetry;
pub use snapshot::{BuffersSnapshot, GroupSnapshot, Snapshot, SourceSnapshot, TableSnapshot, UnaskedSnapshot};
pub use text::text;
