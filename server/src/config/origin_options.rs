//! How an HTTP API is asked: the settings of its group that its URL does not hold.
use super::sent_header::SentHeader;
use std::time::Duration;

/// How an HTTP API is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OriginOptions {
    /// Deadline of one attempt to connect (`source-connect-timeout`); `None`: that of the whole fetch.
    pub connect_timeout: Option<Duration>,
    /// Deadline of the head of a response, from the request on (`source-first-byte-timeout`); `None`: that of the whole fetch.
    pub first_byte_timeout: Option<Duration>,
    /// Further header fields of each request (`source-headers`).
    pub headers: Vec<SentHeader>,
    /// Fields of which an answer may depend (`Vary`) and be kept: Larder always sends the same (`source-vary`). In lower case.
    pub vary: Vec<String>,
    /// Writes go through as `PUT` and `DELETE` (`source-writes`).
    pub takes_writes: bool,
}
