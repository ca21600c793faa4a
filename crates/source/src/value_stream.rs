//! A value that passes through without being kept: what is known of it, and its bytes as they come.
use super::{
    copy_metadata::{CopyMetadata, FreshUntil},
    source_error::SourceError,
};
use bytes::Bytes;
use std::task::{Context, Poll};

/// The bytes of a value as they come from the source. Dropping them ends the request to the source.
pub trait ValueChunks {
    /// The next bytes; `None` at the end. After an error the value is not complete, and there is no
    /// more.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SourceError>>>;
}

/// A value that is too large to be kept, or encoded.
pub struct ValueStream {
    /// Its length, if the source says it first.
    pub len: Option<u64>,
    /// Until when the source says that it is fresh.
    pub fresh: FreshUntil,
    /// What the source says about it.
    pub metadata: CopyMetadata,
    /// Its `Content-Encoding`; `identity`: it had one, and other clients get other bytes.
    pub encoding: Option<Box<[u8]>>,
    /// Its bytes.
    pub chunks: Box<dyn ValueChunks>,
}
