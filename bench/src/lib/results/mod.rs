//! The result of a load, in every form that it is shown or kept in.
//!
//! ```text
//! load::run ──slices──> measured_run ──> RunSummary ──> output_options ─┬─> JSON line or text_table on standard output
//!                        │     │                                        └─> --save FILE, page (with chart)
//!                        │     └─> progress_bar
//!                        └─> hdr_log
//! ```
pub(crate) mod chart;
pub(crate) mod chart_file;
mod hdr_log;
pub(crate) mod latency_shape;
pub(crate) mod measured_run;
pub(crate) mod origin;
pub(crate) mod output_options;
pub(crate) mod page;
pub(crate) mod progress_bar;
pub(crate) mod server_use;
pub(crate) mod summary;
pub(crate) mod text_table;
