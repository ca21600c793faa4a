//! One core's view of a group whose keys have owners. What it reads is in `owner_reads` and
//! `gathered_reads`, what it tells in `told_changes`.
use super::{
    gathered_reads::GatheredReads, hot_keys::HotKeys, member::Member, membership::Membership, peer_client::PeerClient,
    peer_counts::PeerCounts, ring_disagreement::parse_epoch,
};
use larder_config::Coherence;
use larder_engine::Cache;
use larder_source::{Fetch, FillPolicy, Source};
use larder_store::clock;
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// How long copies of a group without lifetimes are thought to be about, ms.
pub(super) const LONG: u64 = 3_600_000;

/// One core's view of a group whose keys have owners.
pub struct PeerGroup {
    pub(super) client: Rc<PeerClient>,
    pub(super) name: Arc<str>,
    pub(super) cache: Arc<Cache>,
    pub(super) policy: Arc<FillPolicy>,
    /// What the owner fills from.
    pub(super) source: Rc<dyn Source>,
    pub(super) hot_keys: RefCell<HotKeys>,
    pub(super) gathered: GatheredReads,
    pub(super) counts: Arc<PeerCounts>,
}

impl PeerGroup {
    pub(super) fn new(
        client: Rc<PeerClient>,
        name: Arc<str>,
        cache: Arc<Cache>,
        policy: Arc<FillPolicy>,
        source: Rc<dyn Source>,
    ) -> PeerGroup {
        let hot_keys = RefCell::new(HotKeys::new(client.peers.settings.hot_copies.after));
        let counts = client.peers.new_counts(&name);
        PeerGroup { client, name, cache, policy, source, hot_keys, gathered: GatheredReads::default(), counts }
    }

    /// Another node asks for a key; `ring` is what it says of its ring.
    pub fn asked(&self, ring: Option<&[u8]>, key: &[u8]) {
        self.counts.requests.add(1);
        let peers = &self.client.peers;
        if ring.is_none() {
            let now = peers.now();
            let owner = now.owner(key);
            if !owner.is_self {
                peers.disagreement.note_key(key, &owner.name, clock::now());
                self.counts.other_rings.add(1);
            }
            return;
        }
        let ours = peers.now().epoch();
        let is_ours = |theirs: u64| if theirs == peers.now().readers_epoch() { ours } else { theirs };
        if let Some(theirs) = ring.and_then(parse_epoch).map(is_ours)
            && peers.disagreement.note(theirs, ours, clock::now)
        {
            self.counts.other_rings.add(1);
        }
    }
    /// Another node asks to remove so many keys.
    pub fn asked_to_remove(&self, keys: usize) {
        self.counts.removal_requests.add(1);
        self.counts.removed_keys.add(keys as u64);
    }

    pub(super) fn membership(&self) -> Arc<Membership> {
        self.client.peers.now().clone()
    }
    /// Whether the key belongs to this node, for a request from another.
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
    /// Whether this node runs what another sends for the key: it owns it, and no flight is left
    /// from before.
    pub fn serves(&self, key: &[u8]) -> bool {
        self.owns(key) && self.owns_now(key)
    }
    /// The node that reads a key for this node's zone, where its owner is in another. `None`: the
    /// owner is asked.
    pub(super) fn reader<'m>(&self, membership: &'m Membership, key: &[u8]) -> Option<&'m Arc<Member>> {
        // The answer has to be one that the reader may keep, and the reader must not take what it lacks for
        // absent.
        let keeps_copies = !self.is_store() && self.policy.coherence == Coherence::Ttl;
        if keeps_copies { membership.reader(key) } else { None }
    }
    /// Like `reader`, for all zones; empty where no zone has one.
    pub(super) fn readers<'m>(&self, membership: &'m Membership, key: &[u8]) -> Vec<&'m Arc<Member>> {
        if self.is_store() { Vec::new() } else { membership.readers(key) }
    }
    /// Whether this node reads the key for its zone, for a node that says `ring` of its ring. Two
    /// nodes that differed about the ring could each take the other for the reader, and wait
    /// for each other.
    pub fn reads_for_zone(&self, key: &[u8], ring: Option<&[u8]>) -> bool {
        let peers = &self.client.peers;
        let (now, settled) = (peers.now(), peers.settled());
        now.has_zones()
            && ring.and_then(parse_epoch) == Some(settled.readers_epoch())
            && now.epoch() == settled.epoch()
            && self.reader(&settled, key).is_some_and(|reader| reader.is_self)
    }
    /// The node that a key is asked of first; this one, if it is to fetch the key.
    pub(super) fn asked_first<'m>(&self, membership: &'m Membership, fetch: &Fetch) -> &'m Arc<Member> {
        let owner = membership.owner(fetch.key());
        let first = match self.client.peers.settings.bounded_load.filter(|_| !self.is_store()) {
            None => return self.reader(membership, fetch.key()).filter(|reader| !reader.is_self).unwrap_or(owner),
            // No node is closer to its own keys.
            Some(_) if owner.is_self => owner,
            Some(factor) => membership.owner_within(fetch.key(), factor),
        };
        if !Arc::ptr_eq(first, owner) {
            self.counts.passed_on.add(1);
        }
        first.under_way.fetch_add(1, Relaxed);
        let (member, wait) = (first.clone(), fetch.wait());
        tokio::task::spawn_local(async move {
            wait.await;
            member.under_way.fetch_sub(1, Relaxed);
        });
        first
    }
    /// This core's way to the other nodes.
    pub fn client(&self) -> &Rc<PeerClient> {
        &self.client
    }

    /// In ms.
    pub(super) fn hot_copy_ttl(&self) -> u64 {
        u64::try_from(self.client.peers.settings.hot_copies.ttl.as_millis()).unwrap_or(LONG)
    }
}
