//! The limits of a source.
use larder_store::disk::StoreSettings;
use std::time::Duration;

/// Commands of this many bytes or more do not share a connection. Every Redis server accepts a
/// megabyte, the lowest setting of `proto-max-bulk-len` and `client-query-buffer-limit`. It may
/// close the connection on a larger command.
pub const LARGE: usize = 512 * 1024;

/// When a breaker opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Per cent of the fetches that ended within `window`.
    pub share: u8,
    /// How far back ended fetches count.
    pub window: Duration,
}

#[derive(Debug, Clone, Copy)]
pub struct SourceLimits {
    /// Deadline of a fetch or write (`source-timeout`).
    pub timeout: Duration,
    /// Deadline of slow commands (`source-slow-timeout`); at least `timeout`.
    pub slow_timeout: Duration,
    /// Fetches in flight, all cores together (`source-max-in-flight`).
    pub max_in_flight: usize,
    /// Whether latency lowers the limit on fetches in flight (not with `source-max-in-flight = "fixed:N"`).
    pub adaptive: bool,
    /// When fetches fail at once (`source-breaker`); `None`: never.
    pub breaker: Option<BreakerPolicy>,
    /// Connections of each core to a Redis, of all to a PostgreSQL (`source-connections`).
    pub connections: usize,
    /// Largest value that is accepted, bytes (`max-value`).
    pub max_value: usize,
    /// Byte budget for undelivered push messages of one client (`max-backlog`).
    pub max_backlog: usize,
    /// Settings of a disk store.
    pub store: StoreSettings,
}

impl SourceLimits {
    /// The least of each, for a program that asks by itself: it sets what it needs.
    pub const SMALLEST: SourceLimits = SourceLimits {
        timeout: Duration::from_secs(1),
        slow_timeout: Duration::from_secs(1),
        max_in_flight: 1,
        adaptive: false,
        breaker: None,
        connections: 1,
        max_value: 1,
        max_backlog: 1,
        store: StoreSettings::DEFAULT,
    };
    /// How long a client waits for a write; see
    /// [`LocalStore::patience`](super::LocalStore::patience).
    pub(super) fn patience(&self, slow: bool) -> Duration {
        if slow { self.slow_timeout } else { self.timeout }
    }
}
