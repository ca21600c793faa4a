//! The numbers of a primary and of a replica.
use std::time::Duration;

/// The numbers of a primary and of a replica.
#[derive(Debug, Clone, Default)]
pub struct ReplicationSnapshot {
    /// `standalone`, `primary` or `replica`.
    pub role: &'static str,
    pub changes: u64,
    pub log_bytes: u64,
    pub replicas: Vec<ReplicaSnapshot>,
    /// Of a replica.
    pub link: Option<LinkSnapshot>,
}

/// One replica, as its primary sees it.
#[derive(Debug, Clone, Default)]
pub struct ReplicaSnapshot {
    /// Host and port.
    pub name: String,
    /// Changes that it has not acknowledged.
    pub behind: u64,
}

/// A replica's connection to its primary.
#[derive(Debug, Clone, Default)]
pub struct LinkSnapshot {
    pub up: bool,
    /// Every change that is older has arrived; `None`: there is no complete copy yet.
    pub behind: Option<Duration>,
    pub applied: u64,
    pub refused: u64,
    pub full_copies: u64,
    pub resumptions: u64,
    /// The primary's clock minus this one's, seconds.
    pub clock_difference: f64,
}
