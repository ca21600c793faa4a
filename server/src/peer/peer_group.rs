//! One core's view of a group whose keys have owners. What it reads is in `owner_reads` and `gathered_reads`, what it tells in `told_changes`.
use super::{
    gathered_reads::GatheredReads, hot_keys::HotKeys, membership::Membership, peer_client::PeerClient,
    peer_counts::PeerCounts, ring_disagreement::parse_epoch,
};
use crate::source::{FillPolicy, Source};
use larder_engine::Cache;
use larder_store::clock;
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// How long copies of a group without lifetimes are thought to be about, ms.
pub(super) const LONG: u64 = 3_600_000;

/// One core's view of a group whose keys have owners.
pub struct PeerGroup {
    pub(super) client: Rc<PeerClient>,
    name: Arc<str>,
    cache: Arc<Cache>,
    policy: Arc<FillPolicy>,
    source: Rc<dyn Source>,
    pub(super) hot_keys: RefCell<HotKeys>,
    pub(super) gathered: GatheredReads,
    counts: Arc<PeerCounts>,
}

impl PeerGroup {
    pub(super) fn new(
        client: Rc<PeerClient>,
        name: Arc<str>,
        cache: Arc<Cache>,
        policy: Arc<FillPolicy>,
        source: Rc<dyn Source>,
    ) -> PeerGroup {
        let hot_keys = RefCell::new(HotKeys::new(client.peers.settings.hot_copy_after));
        let counts = client.peers.new_counts(&name);
        PeerGroup { client, name, cache, policy, source, hot_keys, gathered: GatheredReads::default(), counts }
    }

    /// What this core counts of the group.
    pub(super) fn counts(&self) -> &PeerCounts {
        &self.counts
    }
    /// Another node asks for a key; `ring` is what it says of its ring.
    pub fn asked(&self, ring: Option<&[u8]>) {
        self.counts.requests.add(1);
        let peers = &self.client.peers;
        if let Some(theirs) = ring.and_then(parse_epoch)
            && peers.disagreement.note(theirs, peers.now().epoch(), clock::now)
        {
            self.counts.other_rings.add(1);
        }
    }
    /// Another node asks to remove so many keys.
    pub fn asked_to_remove(&self, keys: usize) {
        self.counts.removal_requests.add(1);
        self.counts.removed_keys.add(keys as u64);
    }

    /// The source that the owner fills from.
    pub(super) fn source(&self) -> &Rc<dyn Source> {
        &self.source
    }
    pub(super) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }
    pub(super) fn policy(&self) -> &Arc<FillPolicy> {
        &self.policy
    }
    pub(super) fn membership(&self) -> Arc<Membership> {
        self.client.peers.now().clone()
    }
    /// Whether the key belongs to this node, for somebody who asks from another.
    pub fn owns(&self, key: &[u8]) -> bool {
        self.client.peers.settled().owner(key).is_self
    }
    /// Whether a value that another node sends is stored here for as long as it says.
    pub fn keeps(&self, key: &[u8]) -> bool {
        self.is_store() || self.owns(key)
    }
    /// The nodes' memory tiers are the store: there is nothing behind them.
    pub fn is_store(&self) -> bool {
        !self.source.reads_through()
    }
    /// Whether the key belongs to this node, for a client of this node.
    pub fn owns_now(&self, key: &[u8]) -> bool {
        self.client.peers.now().owner(key).is_self
    }
    /// Whether this node runs what another sends for the key: it owns it, and no flight is left from before.
    pub fn serves(&self, key: &[u8]) -> bool {
        self.owns(key) && self.owns_now(key)
    }
    /// This core's way to the other nodes.
    pub fn client(&self) -> &Rc<PeerClient> {
        &self.client
    }

    /// In ms.
    pub(super) fn hot_copy_ttl(&self) -> u64 {
        u64::try_from(self.client.peers.settings.hot_copy_ttl.as_millis()).unwrap_or(LONG)
    }
}
