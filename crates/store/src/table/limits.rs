//! How long a table's keys and values may be.

/// Longest key, bytes.
pub const MAX_KEY: usize = 64 << 10;
/// Longest value, bytes.
pub const MAX_VALUE: usize = 512 << 20;
