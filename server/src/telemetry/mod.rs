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
mod calls;
mod counter;
mod counters;
mod families;
mod histogram;
mod json;
mod logs;
mod process;
mod registry;
mod seldom;
mod snapshot;
mod tap;
#[cfg(test)]
mod tests;
mod text;

pub use calls::Calls;
pub use counter::Counter;
pub use counters::{Counters, Sums};
pub use families::{FAMILIES, Family, Kind, Labels, Sink};
pub use histogram::{Distribution, Histogram};
pub use json::json;
pub use logs::Logs;
pub use process::Process;
pub use registry::Telemetry;
pub use seldom::Seldom;
pub use snapshot::{BuffersSnapshot, GroupSnapshot, Snapshot, SourceSnapshot, TableSnapshot, UnaskedSnapshot};
pub use tap::{Operation, Tap};
pub use text::text;
