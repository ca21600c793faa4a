//! The messages of `larder_peers.proto`. `KeyAnswer` and its list are those of the HTTP routes.
use super::transport::{ClearScope, PeerChange};
use bytes::Bytes;
use larder_store::clock;
use prost::{Message, Oneof};

/// What stands before the name of a method in its path.
pub(super) const GRPC_PATH: &str = "/larder.peers.v1.Peers/";

/// `Get`.
#[derive(Clone, PartialEq, Message)]
pub struct KeyRequest {
    #[prost(string, tag = "1")]
    pub group: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
}

/// `GetKeys`.
#[derive(Clone, PartialEq, Message)]
pub struct KeysRequest {
    #[prost(string, tag = "1")]
    pub group: String,
    /// At most [`MOST_KEYS`](super::messages::MOST_KEYS).
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub keys: Vec<Bytes>,
    /// Nothing is fetched for it.
    #[prost(bool, tag = "3")]
    pub held_only: bool,
}

/// `Tell`.
#[derive(Clone, PartialEq, Message)]
pub struct Change {
    #[prost(string, tag = "1")]
    pub group: String,
    #[prost(oneof = "ChangeKind", tags = "2, 3, 4")]
    pub what: Option<ChangeKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum ChangeKind {
    /// A key has a new value.
    #[prost(message, tag = "2")]
    Set(Set),
    /// Copies of a key are out of date.
    #[prost(bytes = "bytes", tag = "3")]
    Remove(Bytes),
    /// Copies of many are.
    #[prost(message, tag = "4")]
    Clear(Clear),
}

/// A key's new value.
#[derive(Clone, PartialEq, Message)]
pub struct Set {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    /// Milliseconds since 1970; 0: it does not end.
    #[prost(uint64, tag = "3")]
    pub expiry: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Clear {
    /// `name` is a tag, else a prefix of keys.
    #[prost(bool, tag = "1")]
    pub is_tag: bool,
    /// The tag or prefix.
    #[prost(bytes = "bytes", tag = "2")]
    pub name: Bytes,
    /// It may still be served stale.
    #[prost(bool, tag = "3")]
    pub soft: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct HottestRequest {
    #[prost(string, tag = "1")]
    pub group: String,
    /// The node that is to have the keys.
    #[prost(string, tag = "2")]
    pub of: String,
    /// Of their entries.
    #[prost(uint64, tag = "3")]
    pub max_bytes: u64,
}

/// A piece of the answer to it.
#[derive(Clone, PartialEq, Message)]
pub struct HottestPart {
    /// The hottest first.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub keys: Vec<Bytes>,
}

/// `Announce`.
#[derive(Clone, PartialEq, Message)]
pub struct Announcement {
    #[prost(string, tag = "1")]
    pub group: String,
    /// The node that comes or goes.
    #[prost(string, tag = "2")]
    pub of: String,
    /// [`MemberMove::name`](super::transport::MemberMove::name).
    #[prost(string, tag = "3")]
    pub is: String,
    /// How it hashes keys; empty: it does not say.
    #[prost(string, tag = "4")]
    pub hash: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Announced {
    /// How the answering node hashes keys.
    #[prost(string, tag = "1")]
    pub hash: String,
}

/// The answer where there is nothing to say.
#[derive(Clone, PartialEq, Message)]
pub struct Done {}

impl Change {
    pub(super) fn of(group: String, change: PeerChange) -> Change {
        let what = match change {
            PeerChange::Set { key, value, expiry } => {
                ChangeKind::Set(Set { key, value, expiry: expiry.map_or(0, clock::to_wall) })
            }
            PeerChange::Remove(key) => ChangeKind::Remove(key),
            PeerChange::Clear { scope: ClearScope::Prefix(name), soft } => {
                ChangeKind::Clear(Clear { is_tag: false, name, soft })
            }
            PeerChange::Clear { scope: ClearScope::Tag(name), soft } => {
                ChangeKind::Clear(Clear { is_tag: true, name, soft })
            }
        };
        Change { group, what: Some(what) }
    }
}
