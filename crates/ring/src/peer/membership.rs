//! Who is on the ring: replaced as a whole when nodes come or go.
use super::{
    member::Member,
    peer_counts::PeerCounts,
    ring::{Ring, RingHash},
    ring_disagreement::{OtherRing, RingDisagreement},
    standing::{Standing, StandingWatch},
};
use arc_swap::ArcSwap;
use larder_base::telemetry::{NodeSnapshot, PeersSnapshot, SharedGroupSnapshot};
use larder_config::{LoadFactor, PeerAddress, PeerHash, PeerNode, PeerSettings, Zone};
use larder_engine::{Cache, Millis};
use md5::{Digest, Md5};
use parking_lot::Mutex;
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// The nodes at one moment, and what belongs to which.
#[derive(Debug)]
pub struct Membership {
    ring: Ring,
    /// In the order of the ring's indices.
    members: Vec<Arc<Member>>,
    /// The zone of this node.
    zone: Option<Zone>,
    epoch: u64,
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
    /// The node that is read from for this node's zone, where the owner of the key is in another:
    /// the first of the zone on the ring. `None`: the owner is.
    pub(super) fn reader(&self, key: &[u8]) -> Option<&Arc<Member>> {
        let zone = self.zone.as_ref()?;
        let is_here = |member: usize| self.members[member].zone.as_ref() == Some(zone);
        let (owner, reader) = (self.ring.owner(key)?, self.ring.owner_in_zone(key, usize::MAX, is_here)?);
        (owner != reader).then(|| &self.members[reader])
    }
    pub(super) fn has_zones(&self) -> bool {
        self.zone.is_some()
    }
    /// The readers of a key for all zones but the owner's.
    pub(super) fn readers(&self, key: &[u8]) -> Vec<&Arc<Member>> {
        if self.zone.is_none() {
            return Vec::new();
        }
        let mut owners = self.owners(key);
        let mut zones: Vec<Option<&Zone>> = owners.next().map(|owner| owner.zone.as_ref()).into_iter().collect();
        let mut readers = Vec::new();
        for member in owners.filter(|member| member.zone.is_some()) {
            let zone = member.zone.as_ref();
            if !zones.contains(&zone) {
                zones.push(zone);
                readers.push(member);
            }
        }
        readers
    }
    /// The first of the key's owners at which this process has room for one more read; see
    /// [`Ring::owner_within`].
    pub(super) fn owner_within(&self, key: &[u8], factor: LoadFactor) -> &Arc<Member> {
        let load = |member: usize| self.members[member].under_way.load(Relaxed);
        &self.members[self.ring.owner_within(key, load, factor.as_f64()).unwrap_or(0)]
    }
    /// All nodes, this one included.
    pub fn members(&self) -> &[Arc<Member>] {
        &self.members
    }
    /// All nodes but this one.
    pub fn others(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.iter().filter(|member| !member.is_self)
    }
    /// What tells this ring from others: nodes with the same epoch agree on every owner, and on the
    /// zone of every node.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// What a request to a zone's reader says instead of the epoch, so that the reader knows what
    /// it is asked as.
    pub(super) fn readers_epoch(&self) -> u64 {
        !self.epoch
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
    /// What cores may believe that belongs to this node: one membership later than `now`, so that
    /// no flight of the one before is joined.
    settled: ArcSwap<Membership>,
    standing: StandingWatch,
    /// Of the groups whose keys have owners.
    caches: Vec<Arc<Cache>>,
    /// Of those that have a source: what they hold are copies.
    copies: Vec<Arc<Cache>>,
    /// What each core counts of each group.
    counts: Mutex<Vec<(Arc<str>, Arc<PeerCounts>)>>,
    pub(super) disagreement: RingDisagreement,
}

impl Peers {
    /// The nodes of the settings; `this` is among them, or joins them. `copies`: the caches of
    /// groups that have a source.
    pub fn new(settings: PeerSettings, this: PeerAddress, caches: Vec<Arc<Cache>>, copies: Vec<Arc<Cache>>) -> Peers {
        let first = Arc::new(membership(&settings, &this, settings.peers.clone(), &[]));
        Peers {
            this_name: settings.name_of(&this).into(),
            settings,
            this,
            now: ArcSwap::new(first.clone()),
            settled: ArcSwap::new(first),
            caches,
            copies,
            counts: Mutex::default(),
            disagreement: RingDisagreement::default(),
            standing: StandingWatch::new(),
        }
    }

    /// The hash of the ring, as the setting names it.
    pub fn hash_name(&self) -> &'static str {
        ring_hash(&self.settings).name()
    }
    /// Nodes with other rings, as far as they have asked this one lately.
    pub fn other_rings(&self, now: Millis) -> Vec<OtherRing> {
        self.disagreement.others(now)
    }
    /// A node says how it hashes keys.
    pub(super) fn note_hash(&self, member: &Member, theirs: &str) {
        let ours = self.hash_name();
        if member.note_hash(theirs) && theirs != ours {
            tracing::warn!(peer = %member.name, theirs, ours, "a peer hashes keys with another function: set `peer-hash` to the same on all nodes");
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

    /// The keys that another node is to have from this one: those that it inherits, if this one
    /// leaves; else those that this one has held for it.
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

    /// Like `now`, once no flight is left that can be joined and was begun under another
    /// membership.
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

    /// What this node holds of sources may be out of date: it may not have been told of changes.
    pub(super) fn forget_copies(&self) {
        self.copies.iter().for_each(|cache| cache.tier().clear());
    }

    /// From now on these nodes are on the ring, and this one. False if they were before.
    pub fn replace(&self, nodes: Vec<PeerNode>) -> bool {
        let old = self.now.load_full();
        let new = Arc::new(membership(&self.settings, &self.this, nodes, old.members()));
        if new.epoch() == old.epoch() {
            return false;
        }
        tracing::info!(nodes = new.members().len(), epoch = format_args!("{:016x}", new.epoch()), "the ring changed");
        self.now.store(new.clone());
        // A flight that was sent to the former owner must not be joined by that owner, who may be asking us
        // now.
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
        PeerHash::Xxh3 => RingHash::Xxh3,
        PeerHash::Fnv1 | PeerHash::Fnv1Url => RingHash::Fnv1,
        PeerHash::Crc32 => RingHash::Crc32,
    }
}

/// Members that stay keep what is known about them.
fn membership(
    settings: &PeerSettings,
    this: &PeerAddress,
    mut nodes: Vec<PeerNode>,
    known: &[Arc<Member>],
) -> Membership {
    // This node knows best where it is.
    nodes.retain(|node| node.address != *this);
    nodes.push(PeerNode { address: this.clone(), zone: settings.zone.clone() });
    // The ring does not depend on the order, but ties do.
    nodes.sort();
    nodes.dedup_by(|later, earlier| later.address == earlier.address);
    let same = |member: &Member, node: &PeerNode| member.address == node.address && member.zone == node.zone;
    let members: Vec<Arc<Member>> = nodes
        .into_iter()
        .map(|node| match known.iter().find(|member| same(member, &node)) {
            Some(member) => member.clone(),
            None => {
                let (name, is_self) = (settings.name_of(&node.address), node.address == *this);
                Arc::new(Member::new(name, node, is_self))
            }
        })
        .collect();
    let names: Vec<&str> = members.iter().map(|member| &*member.name).collect();
    let ring = Ring::new(ring_hash(settings), &names);
    let epoch = with_zones(ring.epoch(), &members);
    Membership { ring, members, zone: settings.zone.clone(), epoch }
}

/// The epoch of a ring whose nodes are in these zones; without zones that of the ring.
fn with_zones(epoch: u64, members: &[Arc<Member>]) -> u64 {
    if members.iter().all(|member| member.zone.is_none()) {
        return epoch;
    }
    let mut sum = Md5::new();
    sum.update(epoch.to_be_bytes());
    for member in members {
        // Lengths first, so that no two lists are the same bytes.
        let zone = member.zone.as_ref().map_or("", Zone::as_str);
        for text in [&member.name, zone] {
            sum.update((text.len() as u64).to_be_bytes());
            sum.update(text);
        }
    }
    let sum: [u8; 16] = sum.finalize().into();
    u64::from_be_bytes(*sum.first_chunk().expect("16 bytes have a first eight"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(texts: &[(&str, &str)]) -> Vec<PeerNode> {
        let node = |(address, zone): &(&str, &str)| PeerNode {
            address: address.parse().expect("an address"),
            zone: zone.parse().ok(),
        };
        texts.iter().map(node).collect()
    }
    fn of(this: &str, zone: &str, all: &[(&str, &str)]) -> Membership {
        let settings = PeerSettings { zone: zone.parse().ok(), ..PeerSettings::default() };
        membership(&settings, &this.parse().expect("an address"), nodes(all), &[])
    }

    const ALL: [(&str, &str); 6] = [("a:1", "x"), ("a:2", "x"), ("b:1", "y"), ("b:2", "y"), ("c:1", "z"), ("d:1", "")];

    #[test]
    fn a_zone_reads_a_key_at_the_first_of_its_nodes_on_the_ring() {
        for key in 0..500 {
            let key = format!("{:x}", key * 7919);
            let ring = of("a:1", "x", &ALL);
            let owner = ring.owner(key.as_bytes()).clone();
            let readers: Vec<_> = ring.readers(key.as_bytes()).iter().map(|member| member.name.clone()).collect();
            let mut zones: Vec<_> = ring.readers(key.as_bytes()).iter().map(|member| member.zone.clone()).collect();
            zones.extend(owner.zone.is_some().then(|| owner.zone.clone()));
            zones.sort();
            assert_eq!(zones, ["x", "y", "z"].map(|zone| zone.parse().ok()), "one for each zone but the owner's");
            for (this, zone) in ALL {
                let view = of(this, zone, &ALL);
                assert_eq!(view.epoch(), ring.epoch());
                let reader = view.reader(key.as_bytes()).map(|member| member.name.clone());
                let expected = ring.owners(key.as_bytes()).find(|member| member.zone == zone.parse().ok());
                match zone.is_empty() || owner.zone == zone.parse().ok() {
                    true => assert_eq!(reader, None, "the owner is asked"),
                    false => {
                        assert_eq!(reader.as_ref(), expected.map(|member| &member.name));
                        assert!(readers.contains(&reader.expect("a reader")));
                    }
                }
            }
        }
    }

    #[test]
    fn zones_are_part_of_the_epoch_and_change_no_owner() {
        let plain: Vec<_> = ALL.iter().map(|(name, _)| (*name, "")).collect();
        let (with, without) = (of("a:1", "x", &ALL), of("a:1", "", &plain));
        let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        assert_eq!(without.epoch(), Ring::new(RingHash::Xxh3, &names).epoch(), "without zones that of the ring");
        assert_ne!(with.epoch(), without.epoch());
        let mut other = ALL;
        other[1].1 = "y";
        assert_ne!(with.epoch(), of("a:1", "x", &other).epoch());
        for key in 0..500 {
            let key = format!("{key}");
            assert_eq!(with.owner(key.as_bytes()).name, without.owner(key.as_bytes()).name);
            assert!(without.reader(key.as_bytes()).is_none() && without.readers(key.as_bytes()).is_empty());
        }
    }

    #[test]
    fn a_node_with_much_under_way_is_passed_over() {
        let ring = of("a:1", "", &[("a:1", ""), ("a:2", ""), ("a:3", "")]);
        let factor: LoadFactor = "1.25".parse().expect("a factor");
        assert_eq!(ring.owner_within(b"k", factor).name, ring.owner(b"k").name);
        ring.owner(b"k").under_way.store(3, Relaxed);
        let next = ring.owners(b"k").nth(1).expect("there are three");
        assert_eq!(ring.owner_within(b"k", factor).name, next.name, "4 of 4 reads are more than 1.25 times 4/3");
        ring.members().iter().for_each(|member| member.under_way.store(3, Relaxed));
        assert_eq!(ring.owner_within(b"k", factor).name, ring.owner(b"k").name, "all have as much");
    }
}
