//! What one core asks of the other nodes, whatever carries it.
use super::{
    member::Member,
    messages::{OwnerAnswer, OwnerRequest},
};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use larder_engine::Millis;
use larder_source::{CopyMetadata, FetchAnswer, FreshUntil, RequestTrace, SourceError};
use std::sync::Arc;
use tokio::time::Instant;

/// What a node answers to a read.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each fetch")]
pub enum PeerAnswer {
    /// The value, until when the owner says that it is fresh, and what its source said about it.
    Found { value: Bytes, fresh: FreshUntil, metadata: CopyMetadata },
    /// The owner knows that there is none.
    Absent,
    /// The owner could not fetch it, for this reason; it is not to be fetched elsewhere.
    Failed(Arc<str>),
}

impl PeerAnswer {
    /// What a fetch ends with; `life` says how long a copy of a value is fresh here.
    pub(super) fn into_fetched(self, life: impl FnOnce(FreshUntil) -> FreshUntil) -> Result<FetchAnswer, SourceError> {
        match self {
            PeerAnswer::Found { value, fresh, metadata } => {
                Ok(FetchAnswer::Copy { value, fresh: life(fresh), metadata })
            }
            // The owner remembers it.
            PeerAnswer::Absent => Ok(FetchAnswer::Absent { fresh: FreshUntil::NotKept }),
            PeerAnswer::Failed(reason) => Err(SourceError::Unavailable(reason)),
        }
    }
}

/// Why a node gave no answer.
#[derive(Debug, Clone)]
pub enum PeerError {
    /// It has not seen the request, or does not serve now: another may be asked.
    NotReached(Arc<str>),
    /// It may be working on it.
    NoAnswer(Arc<str>),
    /// It has no such group: another may be asked, and it may be asked for other groups.
    NoGroup(Arc<str>),
    /// It took the request and closed the connection without an answer, as groupcache-go v3 does
    /// for a group that it lacks. It may be asked for other groups.
    Closed(Arc<str>),
    /// One of the two nodes has no room or no time: its buffers are full (`max-buffers`), or it is
    /// overloaded. That ends the answer or takes its place, and says nothing about whether the node
    /// is up: another may be asked, and this one stays in the ring.
    NoRoom(Arc<str>),
    /// It will never answer this.
    Refused(Arc<str>),
}

impl PeerError {
    /// The text for people.
    pub(super) fn reason(&self) -> &Arc<str> {
        match self {
            PeerError::NotReached(reason)
            | PeerError::NoAnswer(reason)
            | PeerError::NoGroup(reason)
            | PeerError::Closed(reason)
            | PeerError::NoRoom(reason)
            | PeerError::Refused(reason) => reason,
        }
    }
}

/// What a node is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerChange {
    /// The key has this value, and ends at `expiry`.
    Set { key: Bytes, value: Bytes, expiry: Option<Millis> },
    /// Copies of this key are out of date.
    Remove(Bytes),
    /// Copies under a prefix (empty: all), or with a tag, are; `soft`: they may still be served
    /// stale.
    Clear { scope: ClearScope, soft: bool },
}

/// What a clear is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClearScope {
    /// Keys that begin so; empty: all keys.
    Prefix(Bytes),
    /// What has this tag.
    Tag(Bytes),
}

/// What a node says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberMove {
    /// It answers for its keys from now on.
    Serving,
    /// It will stop: take over its keys, and answer once that is done.
    Leaving,
    /// It answers for its keys no longer.
    Left,
}

impl MemberMove {
    const NAMES: [(MemberMove, &'static str); 3] =
        [(MemberMove::Serving, "serving"), (MemberMove::Leaving, "leaving"), (MemberMove::Left, "left")];

    /// As it is written in a request.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(is, _)| *is == self).map_or("", |(_, name)| name)
    }
    /// The one that is written so.
    pub fn from_name(name: &[u8]) -> Option<MemberMove> {
        Self::NAMES.iter().find(|(_, is)| is.as_bytes() == name).map(|(is, _)| *is)
    }
}

/// The node that a request goes to, the group that it is about, and when it ends.
#[derive(Clone, Copy)]
pub struct To<'a> {
    pub member: &'a Member,
    pub(crate) group: &'a str,
    pub deadline: Instant,
}

/// The asking node's name, where it logs the request.
pub const ASKING_NODE: HeaderName = HeaderName::from_static("larder-node");

/// The request that a node is asked for, and the node that asks.
#[derive(Debug, Clone, Copy)]
pub struct AskedFor<'a> {
    pub node: &'a str,
    pub(crate) trace: Option<&'a RequestTrace>,
}

impl AskedFor<'_> {
    /// For no request of a client.
    pub(super) const NOBODY: AskedFor<'static> = AskedFor { node: "", trace: None };

    /// Adds the header fields.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        let Some(trace) = self.trace else { return };
        let mut insert = |name, text: &str| {
            if let Ok(text) = HeaderValue::from_str(text) {
                headers.insert(name, text);
            }
        };
        insert(HeaderName::from_static("x-request-id"), &trace.request_id);
        if let Some(traceparent) = &trace.traceparent {
            insert(HeaderName::from_static("traceparent"), traceparent);
        }
        if trace.is_logged {
            insert(ASKING_NODE, self.node);
        }
    }
}

/// One core's way to the other nodes.
#[async_trait(?Send)]
pub trait Transport {
    /// Asks a node for a key of a group. `epoch` is that of our ring.
    async fn get(&self, to: To<'_>, key: &[u8], epoch: u64, asked_for: AskedFor<'_>) -> Result<PeerAnswer, PeerError>;

    /// Asks a Larder for several keys at once, at most [`MOST_KEYS`](super::messages::MOST_KEYS);
    /// in their order. `None`: to be asked for alone, as is what the node does not hold if
    /// `held_only`.
    async fn get_many(
        &self,
        to: To<'_>,
        keys: Vec<Bytes>,
        held_only: bool,
        epoch: u64,
    ) -> Result<Vec<Option<PeerAnswer>>, PeerError>;

    /// Tells a node of a change.
    async fn tell(&self, to: To<'_>, change: &PeerChange) -> Result<(), PeerError>;

    /// Has the owner of keys run commands or a write. It is not sent a second time if the first may
    /// have arrived. `Refused`: the node does not know how.
    async fn at_owner(&self, to: To<'_>, request: &OwnerRequest) -> Result<OwnerAnswer, PeerError>;

    /// Asks a node for its hottest keys that `this` is to have, at most for so many bytes of
    /// entries.
    async fn hottest(&self, to: To<'_>, this: &str, max_bytes: usize) -> Result<Vec<Bytes>, PeerError>;

    /// Tells a node that `this` comes or goes, and how it hashes keys. The answer says how that node
    /// does; empty: it does not say.
    async fn announce(&self, to: To<'_>, this: &str, what: MemberMove, hash: &str) -> Result<String, PeerError>;
}
