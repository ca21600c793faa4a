//! Counters per worker, summed when read; logs.
/// One worker's counters: single writer, relaxed atomics, read by anyone.
#[derive(Debug, Default)]
pub struct Counters {}
/// Shared telemetry.
#[derive(Debug, Default)]
pub struct Telemetry {}
