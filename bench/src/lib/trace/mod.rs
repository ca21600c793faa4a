//! Traces of cache requests, read as a stream of 64-bit keys.
//!
//! ```text
//! file -> zstd | xz | as is -> records (ARC text, cache2k, u64) -> keys
//!                          └-> recorded operations (ops), with their times and sizes -> keys of what was read
//! ```
//! A trace is never held in memory: each replay opens it again. Traces are downloads, hence not
//! trusted: the length of a line, the run of keys that one line stands for and the decoders'
//! windows are bounded, and a trace that ends within a record is an error.
mod made;
mod operations;
mod records;
#[cfg(test)]
mod tests;
mod trace_file;

pub(crate) use made::MadeTrace;
pub(crate) use operations::{OperationKind, TraceWriter, TracedOperation};
pub(crate) use records::TraceFormat;
pub(crate) use trace_file::{Requests, TraceFile, TraceSummary};
