//! What the client asks for, and how it went.
use crate::cli::output::{Reader, write_out};
use bytes::Bytes;
use std::time::Duration;

/// The server's own bound; more need not be read from standard input.
pub(super) const MAX_VALUE: u64 = 512 << 20;

pub(super) enum ClientRequest {
    Get,
    Set { value: Bytes, ttl: Option<Duration> },
    Del,
}

/// Where a value goes.
pub(super) enum ValueSink {
    /// Standard output, as it comes.
    Output,
    /// Here, for a document.
    Memory(Vec<u8>),
}

impl ValueSink {
    /// Takes the next piece of the value, and says whether it wants more.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<Reader, String> {
        match self {
            ValueSink::Output => write_out(bytes),
            ValueSink::Memory(value) => {
                value.extend_from_slice(bytes);
                Ok(Reader::There)
            }
        }
    }
}

pub(super) enum RequestOutcome {
    Done,
    /// There is no such key.
    Absent,
}
