//! What one core asks of the other nodes, whatever carries it.
use super::{
    member::Member,
    messages::{KeyAnswer, OwnerAnswer, OwnerRequest},
};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClearScope {
    /// Keys that begin so; empty: all keys.
    Prefix(Bytes),
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

/// The node that a request goes to, the group that it is about, when it ends, and for whom it is.
#[derive(Clone, Copy)]
pub struct To<'a> {
    pub member: &'a Member,
    pub(crate) group: &'a str,
    pub deadline: Instant,
    pub asked_for: AskedFor<'a>,
}

/// What a node is asked, whatever carries it.
#[derive(Debug, Clone)]
pub enum NodeRequest {
    /// The value of a key. `epoch` is that of our ring.
    Get { key: Bytes, epoch: u64 },
    /// Several keys at once, of a Larder: at most [`MOST_KEYS`](super::messages::MOST_KEYS).
    /// `held_only`: nothing is fetched for it.
    GetMany { keys: Vec<Bytes>, held_only: bool, epoch: u64 },
    /// A change that it hears of.
    Tell(PeerChange),
    /// The owner of keys runs commands or a write. It is not sent a second time if the first may
    /// have arrived. [`PeerError::Refused`]: the node does not know how.
    AtOwner(OwnerRequest),
    /// Its hottest keys that the node `of` is to have, at most for so many bytes of entries.
    Hottest { of: String, max_bytes: usize },
    /// The node `of` comes or goes, and hashes keys so.
    Announce { of: String, what: MemberMove, hash: String },
}

/// What it answers: one of these, the others stay empty.
#[derive(Debug, Default)]
pub struct NodeReply {
    /// To the keys that it was asked for, in their order.
    pub answers: Vec<KeyAnswer>,
    /// The hottest keys.
    pub keys: Vec<Bytes>,
    pub of_owner: OwnerAnswer,
    /// How it hashes keys; empty: it does not say.
    pub hash: String,
}

impl NodeReply {
    pub fn of_key(status: StatusCode, body: Bytes) -> NodeReply {
        NodeReply { answers: vec![KeyAnswer { status: status.as_u16().into(), body }], ..NodeReply::default() }
    }
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
    pub const NOBODY: AskedFor<'static> = AskedFor { node: "", trace: None };

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
    async fn call(&self, to: To<'_>, request: NodeRequest) -> Result<NodeReply, PeerError>;
}
