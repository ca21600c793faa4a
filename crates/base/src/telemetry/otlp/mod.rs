//! OTLP: metrics and spans as the messages of OpenTelemetry's protocol
//! (<https://opentelemetry.io/docs/specs/otlp/>), version 1, in protobuf. No I/O: `net` sends them.
//!
//! Invariants:
//! - The metrics are those of [`all_metrics`](super::all_metrics), by the same names without `_total`.
//! - Sums and histograms are cumulative since the start of the process.
mod metrics;
mod partial_success;
mod resource;
mod traces;

pub use metrics::metrics_message;
pub use partial_success::{PartialSuccess, partial_success};
pub use resource::OtlpResource;
pub use traces::traces_message;
