//! What a source answers to a fetch: a value, or the whole reply of a command.
use super::copy_metadata::{CopyMetadata, FreshUntil};
use bytes::Bytes;
use larder_engine::Millis;

/// The answer of a source that says more about a key than its value, such as an HTTP origin.
#[derive(Debug, Clone)]
pub enum FetchAnswer {
    /// The value, until when it is fresh, and what the source says about it.
    Copy { value: Bytes, fresh: FreshUntil, metadata: CopyMetadata },
    /// The key does not exist.
    Absent { fresh: FreshUntil },
    /// The copy with the validators that were sent
    /// ([`Fetch::validators`](super::Fetch::validators)) is still right. Fields that `metadata`
    /// lacks stay as they are.
    NotModified { fresh: FreshUntil, metadata: CopyMetadata },
}

/// The whole reply to a command and the life of its key, read together.
#[derive(Debug, Clone)]
pub struct FetchedReply {
    /// The raw reply in the protocol version that was asked for. It may be an error.
    pub reply: Bytes,
    /// How long the key lives.
    pub key: KeyLife,
}
impl FetchedReply {
    /// Whether the reply is an error.
    pub fn is_error(&self) -> bool {
        matches!(self.reply.first(), Some(b'-' | b'!') | None)
    }
}

/// A command whose whole reply can be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheableReply {
    /// Index of the argument that is the one key the command reads.
    pub key: usize,
    /// Cacheable only while no hash fields expire: the server announces no change when a field
    /// expires.
    pub unless_fields_expire: bool,
}

/// How long a key lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLife {
    /// The key does not exist.
    Absent,
    /// The key expires at this time.
    Until(Millis),
    /// The key does not expire.
    Unbounded,
}
