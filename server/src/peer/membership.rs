//! Who is on the ring: replaced as a whole when nodes come or go.
use super::{
    member::Member,
    peer_counts::PeerCounts,
    ring::{Ring, RingHash},
    ring_disagreement::RingDisagreement,
    standing::{Standing, StandingWatch},
};
use crate::{
    config::{PeerAddress, PeerHash, PeerSettings},
    telemetry::{NodeSnapshot, PeersSnapshot, SharedGroupSnapshot},
};
use arc_swap::ArcSwap;
use larder_engine::{Cache, Millis};
use parking_lot::Mutex;
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// The nodes at one moment, and what belongs to which.
#[derive(Debug)]
pub struct Membership {
    ring: Ring,
    /// In the order of the ring's indices.
    members: Vec<Arc<Member>>,
}

impl Membership {
    /// The node that a key belongs to. There is always one: this process is on the ring.
    pub fn owner(&self, key: &[u8]) -> &Arc<Member> {
        &self.members[self.ring.owner(key).unwrap_or(0)]
    }
    /// The owner of a key, and the nodes that take its place one after the other.
    pub fn owners(&self, key: &[u8]) -> impl Iterator<Item = &Arc<Member>> {
        self.ring.owners(key).map(|index| &self.members[index])
    }
    /// All nodes, this one included.
    pub fn members(&self) -> &[Arc<Member>] {
        &self.members
    }
    /// All nodes but this one.
    pub fn others(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.iter().filter(|member| !member.is_self)
    }
    /// What tells this ring from others: nodes with the same epoch agree on every owner.
    pub fn epoch(&self) -> u64 {
        self.ring.epoch()
    }
    /// The part of the ring of each member.
    pub fn shares(&self) -> Vec<f64> {
        self.ring.shares()
    }
}

/// The nodes that share their caches, as all cores see them.
pub struct Peers {
    /// As checked.
    pub settings: PeerSettings,
    this: PeerAddress,
    this_name: Box<str>,
    now: ArcSwap<Membership>,
    /// What cores may believe that belongs to this node: one membership later than `now`, so that no flight of the one before is joined.
    settled: ArcSwap<Membership>,
    standing: StandingWatch,
    /// Of the groups whose keys have owners.
    caches: Vec<Arc<Cache>>,
    /// What each core counts of each group.
    counts: Mutex<Vec<(Arc<str>, Arc<PeerCounts>)>>,
    pub(super) disagreement: RingDisagreement,
}

impl Peers {
    /// The nodes of the settings; `this` is among them, or joins them.
    pub fn new(settings: PeerSettings, this: PeerAddress, caches: Vec<Arc<Cache>>) -> Peers {
        let first = Arc::new(membership(&settings, &this, settings.peers.clone(), &[]));
        Peers {
            this_name: settings.name_of(&this).into(),
            settings,
            this,
            now: ArcSwap::new(first.clone()),
            settled: ArcSwap::new(first),
            caches,
            counts: Mutex::default(),
            disagreement: RingDisagreement::default(),
            standing: StandingWatch::new(),
        }
    }

    /// This node, as the others name it.
    pub fn this(&self) -> &PeerAddress {
        &self.this
    }

    /// What this node is called on the ring.
    pub fn this_name(&self) -> &str {
        &self.this_name
    }

    /// Whether this node answers what other nodes read.
    pub fn answers(&self) -> bool {
        self.standing.answers()
    }
    /// How far this node is in the life of a member.
    pub fn standing(&self) -> Standing {
        self.standing.now()
    }
    /// Moves the standing forward; never back.
    pub fn advance(&self, to: Standing) {
        self.standing.advance(to);
    }
    /// Resolves once `standing` (or a later one) is reached.
    pub async fn reached(&self, standing: Standing) {
        self.standing.reached(standing).await;
    }

    /// The node of this name on the ring.
    pub fn member(&self, name: &[u8]) -> Option<Arc<Member>> {
        self.now().members().iter().find(|member| member.name.as_bytes() == name).cloned()
    }

    /// The keys that another node is to have from this one: those that it inherits, if this one leaves; else those that this one has held for it.
    pub(super) fn moves_to(&self, other: &str) -> KeyMove {
        let (this, hash) = (self.this_name(), ring_hash(&self.settings));
        let now = self.now();
        let mut names: Vec<&str> = now.members().iter().map(|member| &*member.name).collect();
        if !names.contains(&other) {
            names.push(other);
        }
        let is_leaving = self.standing() >= Standing::Leaving;
        let (goes, comes) = if is_leaving { (this, other) } else { (other, this) };
        let rest: Vec<&str> = names.iter().copied().filter(|name| *name != goes).collect();
        KeyMove {
            owner_in_all: names.iter().position(|name| *name == goes),
            owner_in_rest: rest.iter().position(|name| *name == comes),
            all: Ring::new(hash, &names),
            rest: Ring::new(hash, &rest),
        }
    }

    /// Who is on the ring now.
    pub fn now(&self) -> arc_swap::Guard<Arc<Membership>> {
        self.now.load()
    }

    /// The same, once no flight is left that can be joined and was begun under another membership.
    pub fn settled(&self) -> arc_swap::Guard<Arc<Membership>> {
        self.settled.load()
    }

    /// The counts of another core's view of a group.
    pub(super) fn new_counts(&self, group: &Arc<str>) -> Arc<PeerCounts> {
        let counts = Arc::<PeerCounts>::default();
        self.counts.lock().push((group.clone(), counts.clone()));
        counts
    }

    /// All nodes with their numbers.
    pub fn snapshot(&self) -> PeersSnapshot {
        let now = self.now();
        let nodes = now.members().iter().zip(now.shares()).map(|(member, share)| NodeSnapshot {
            name: member.name.to_string(),
            reachable: u64::from(!member.is_out()),
            share,
            reads: member.counts.reads.load(Relaxed),
            failed_reads: member.counts.failed_reads.load(Relaxed),
            changes: member.counts.changes.load(Relaxed),
            failed_changes: member.counts.failed_changes.load(Relaxed),
            untold: member.counts.untold.load(Relaxed),
        });
        PeersSnapshot::new(nodes.collect())
    }

    /// The sums of all cores for a group; `None`: its keys have no owners.
    pub fn group_snapshot(&self, group: &str, now: Millis) -> Option<SharedGroupSnapshot> {
        let mut sums = None;
        for (_, counts) in self.counts.lock().iter().filter(|(name, _)| **name == *group) {
            counts.add_to(sums.get_or_insert_default(), now);
        }
        sums
    }

    /// From now on these nodes are on the ring, and this one. False if they were before.
    pub fn replace(&self, addresses: Vec<PeerAddress>) -> bool {
        let old = self.now.load_full();
        let new = Arc::new(membership(&self.settings, &self.this, addresses, old.members()));
        if new.epoch() == old.epoch() {
            return false;
        }
        tracing::info!(nodes = new.members().len(), epoch = format_args!("{:016x}", new.epoch()), "the ring changed");
        self.now.store(new.clone());
        // A flight that was sent to the former owner must not be joined by that owner, who may be asking us now.
        self.caches.iter().for_each(|cache| cache.fence_all());
        self.settled.store(new);
        true
    }
}

/// The keys that one node has on the whole ring, and another on the ring without it.
pub(super) struct KeyMove {
    all: Ring,
    owner_in_all: Option<usize>,
    rest: Ring,
    owner_in_rest: Option<usize>,
}

impl KeyMove {
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.owner_in_rest.is_some()
            && self.all.owner(key) == self.owner_in_all
            && self.rest.owner(key) == self.owner_in_rest
    }
}

fn ring_hash(settings: &PeerSettings) -> RingHash {
    match settings.hash {
        PeerHash::Fnv1 => RingHash::Fnv1,
        PeerHash::Crc32 => RingHash::Crc32,
    }
}

/// Members that stay keep what is known about them.
fn membership(
    settings: &PeerSettings,
    this: &PeerAddress,
    mut addresses: Vec<PeerAddress>,
    known: &[Arc<Member>],
) -> Membership {
    if !addresses.contains(this) {
        addresses.push(this.clone());
    }
    // The ring does not depend on the order, but ties do.
    addresses.sort();
    addresses.dedup();
    let members: Vec<Arc<Member>> = addresses
        .into_iter()
        .map(|address| match known.iter().find(|member| member.address == address) {
            Some(member) => member.clone(),
            None => Arc::new(Member::new(settings.name_of(&address), address.clone(), address == *this)),
        })
        .collect();
    let names: Vec<&str> = members.iter().map(|member| &*member.name).collect();
    Membership { ring: Ring::new(ring_hash(settings), &names), members }
}
