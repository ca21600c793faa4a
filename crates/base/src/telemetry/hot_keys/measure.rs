//! What keys are ranked by.

/// What keys are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Reads, hits and misses alike.
    Reads,
    /// Bytes of the values that reads found.
    Bytes,
    /// Reads that found nothing in memory.
    Misses,
    /// Time that fetches of the key took, microseconds.
    SourceTime,
}

impl Measure {
    /// All of them, in the order of their numbers.
    pub const ALL: [Measure; 4] = [Measure::Reads, Measure::Bytes, Measure::Misses, Measure::SourceTime];
}

pub(super) type PerMeasure<T> = [T; Measure::ALL.len()];
