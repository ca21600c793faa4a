//! Traces of cache requests, read as a stream of 64-bit keys.
//!
//! ```text
//! file -> zstd | xz | as is -> records (ARC text, cache2k, u64) -> keys
//!                          └-> recorded operations (ops), with their times and sizes -> keys of what was read
//! ```
//! A trace is never held in memory: each replay opens it anew. Traces are downloads, hence not trusted: the length of a line, the run
//! of keys that one line stands for and the decoders' windows are bounded, and a trace that ends within a record is an error.
mod file;
mod format;
mod operations;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use file::{TraceFile, TraceSummary};
pub(crate) use format::TraceFormat;
pub(crate) use operations::{OperationKind, TraceWriter, TracedOperation};
