//! Until when a request to the origin must have its answer.
use std::time::Duration;
use tokio::time::Instant;

/// The deadline of one fetch or write.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestDeadline {
    pub(super) at: Instant,
    /// `source-timeout` as it holds for the key, for the error.
    pub(super) limit: Duration,
}
impl RequestDeadline {
    /// So long from now.
    pub(super) fn after(limit: Duration) -> RequestDeadline {
        RequestDeadline { at: Instant::now() + limit, limit }
    }
}
