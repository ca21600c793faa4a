//! How an HTTP API is asked: the settings of its group that its URL does not hold.
use std::time::Duration;

/// How an HTTP API is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OriginOptions {
    /// Deadline of one attempt to connect (`source-connect-timeout`); `None`: that of the whole fetch.
    pub connect_timeout: Option<Duration>,
    /// Deadline of the head of a response, from the request on (`source-first-byte-timeout`); `None`: that of the whole fetch.
    pub first_byte_timeout: Option<Duration>,
}
