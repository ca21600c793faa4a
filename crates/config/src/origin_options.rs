//! How an HTTP API is asked: the settings of its group that its URL does not hold.
use super::sent_header::SentHeader;
use std::time::Duration;

/// How an HTTP API is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginOptions {
    /// Deadline of one attempt to connect, with its TLS handshake; `None`: that of the whole fetch.
    pub connect_timeout: Option<Duration>,
    /// Further header fields of each request (`source-headers`).
    pub headers: Vec<SentHeader>,
    /// Fields of which an answer may depend (`Vary`) and be kept: Larder always sends the same
    /// (`#vary=accept,x-tenant` behind the URL). In lower case.
    pub vary: Vec<String>,
    /// Writes go through as `PUT` and `DELETE` (`source-writes`).
    pub takes_writes: bool,
    /// HTTP/2 is offered where TLS is spoken; `#http2=false` behind the URL.
    pub http2: bool,
}
impl Default for OriginOptions {
    fn default() -> OriginOptions {
        OriginOptions { connect_timeout: None, headers: Vec::new(), vary: Vec::new(), takes_writes: false, http2: true }
    }
}
