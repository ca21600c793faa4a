//! What the client asks for, and how it went.
use bytes::Bytes;
use std::time::Duration;

/// The server's own bound; more need not be read from standard input.
pub(super) const MAX_VALUE: u64 = 512 << 20;

/// What to do.
pub(super) enum ClientRequest {
    Get,
    Set { value: Bytes, ttl: Option<Duration> },
    Del,
}

/// How it went.
pub(super) enum RequestOutcome {
    Done,
    /// There is no such key.
    Absent,
}
