//! The settings of the nodes that share their caches.
use super::{peer_entry::PeerAddress, secret::Secret, tls_settings::PeerTls};
use std::time::Duration;

/// The settings of the nodes that share their caches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct PeerSettings {
    /// Every node, if their addresses are fixed.
    pub peers: Vec<PeerAddress>,
    /// Names whose addresses are the nodes. Empty: they are fixed.
    pub names: Vec<PeerAddress>,
    /// Time between two look-ups of the names.
    pub refresh: Duration,
    /// This node, as the others name it; `None`: by its first HTTP listener.
    pub this: Option<PeerAddress>,
    pub name: PeerName,
    pub hash: PeerHash,
    pub transport: PeerTransport,
    /// Zero: no copies.
    pub hot_copy_ttl: Duration,
    /// Reads of a key at this node.
    pub hot_copy_after: u8,
    pub secret: Option<Secret>,
    /// `None`: the nodes speak plain HTTP.
    pub tls: Option<PeerTls>,
    /// Bytes of entries; 0: none.
    pub handover: usize,
    pub connect_timeout: Duration,
    /// Per thread.
    pub fallback_limit: usize,
}

impl PeerSettings {
    /// Whether this process shares its cache with others.
    pub fn are_set(&self) -> bool {
        !self.peers.is_empty() || !self.names.is_empty()
    }

    /// What a node is called on the ring.
    pub fn name_of(&self, address: &PeerAddress) -> String {
        match self.name {
            PeerName::Address => address.to_string(),
            PeerName::Url if self.tls.is_some() => format!("https://{address}"),
            PeerName::Url => address.url(),
        }
    }
}

/// What a node is called on the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerName {
    /// `host:port`, as groupcache-go v3 does.
    #[default]
    Address,
    /// `http://host:port`, or `https://host:port` with `peer-tls`, as mailgun's and the original groupcache do.
    Url,
}
impl PeerName {
    pub(super) const NAMES: &'static [&'static str] = &["address", "url"];
}

/// How the points of the ring are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerHash {
    /// As groupcache-go v3 and mailgun's groupcache do.
    #[default]
    Fnv1,
    /// As the original groupcache does.
    Crc32,
}
impl PeerHash {
    pub(super) const NAMES: &'static [&'static str] = &["fnv1", "crc32"];
}

/// What carries requests between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerTransport {
    /// groupcache's messages over HTTP/1.1.
    #[default]
    Http,
    /// Larder's own over gRPC, between Larders.
    Grpc,
}
impl PeerTransport {
    pub(super) const NAMES: &'static [&'static str] = &["http", "grpc"];
}
