//! What bounds a source.
use larder_store::disk::StoreSettings;
use std::time::Duration;

/// From this size on, in bytes, a command does not share a connection. Whatever its settings say, a Redis server takes a megabyte
/// (`proto-max-bulk-len` and `client-query-buffer-limit` have that as their least); of more it may hang up.
pub(crate) const LARGE: usize = 512 * 1024;

/// What bounds a source.
#[derive(Debug, Clone, Copy)]
pub struct SourceLimits {
    /// Deadline of a fetch or write (`source-timeout`).
    pub timeout: Duration,
    /// Deadline of what may keep the source busy (`source-slow-timeout`); not less than `timeout`.
    pub slow_timeout: Duration,
    /// Fetches in flight, all cores together (`source-max-in-flight`).
    pub max_in_flight: usize,
    /// Connections per core (`source-connections`).
    pub connections: usize,
    /// Largest value that is accepted, bytes (`max-value`).
    pub max_value: usize,
    /// What a client may leave unread of what it is told unasked, bytes (`max-backlog`).
    pub max_backlog: usize,
    /// How a disk store is kept.
    pub store: StoreSettings,
}
impl SourceLimits {
    /// How long a client waits: see [`LocalStore::patience`](super::LocalStore::patience).
    pub(super) fn patience(&self, slow: bool) -> Duration {
        if slow { self.slow_timeout } else { self.timeout }
    }
}
