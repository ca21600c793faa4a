//! The longest key that the engine's formats allow; `max-key` may be lower.

/// Bytes.
pub(super) const MAX_KEY: u64 = 64 << 10;
