//! Hot keys: which keys, and which prefixes of keys, take the most reads, bytes, misses and time of
//! the source.
//!
//! ```text
//!  worker 0: KeyCounts ─┐                       ┌─> GET /v1/hot-keys
//!  worker 1: KeyCounts ─┤ merged when read ─────┤
//!                       └─ for each group       └─> HOTKEYS (a session that a client starts)
//! ```
//!
//! Each worker has a [`KeyCounts`] for each group, and it alone notes reads there. What always
//! holds:
//! - A read costs a load, a store and a branch, unless it is the one in so many that is noted
//!   ([`KeyCounts::is_due`]).
//! - The more reads there are, the fewer are noted. Each stands for those that went by, so that the
//!   sums are right.
//! - Memory is bounded: a fixed number of slots (`top_keys`) for each worker, group and
//!   [`Measure`].
//! - Counts are halved each minute, so that a list is about the last minutes.
mod hot_key_report;
mod hot_keys_registry;
mod key_counts;
mod measure;
mod session_counts;
#[cfg(test)]
mod tests;
mod top_keys;

pub use hot_key_report::{HotKey, HotKeyReport};
pub use hot_keys_registry::{HotKeys, SessionOptions, SessionReport};
pub use key_counts::{KeyCounts, prefix_of};
pub use measure::Measure;
