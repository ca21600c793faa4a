//! A node of the ring, as all cores of this process see it: its address, whether it can be reached,
//! and what was asked of it.
use super::outage::Outage;
use larder_config::{PeerAddress, PeerNode, Zone};
use larder_engine::Millis;
use parking_lot::RwLock;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// A node of the ring.
#[derive(Debug)]
pub struct Member {
    /// What it is called on the ring.
    pub name: Box<str>,
    /// Where it is reached.
    pub address: PeerAddress,
    /// Its zone, if it is known to be in one.
    pub zone: Option<Zone>,
    /// It is this process.
    pub is_self: bool,
    /// Reads that this process has under way there. Counted with `peer-bounded-load` alone.
    pub(super) under_way: AtomicU64,
    /// It has answered as a Larder does.
    is_larder: AtomicBool,
    /// It has answered as another program does, or as a Larder that cannot be asked to run
    /// commands.
    is_other: AtomicBool,
    /// How it says that it hashes keys.
    hash: RwLock<Option<Box<str>>>,
    outage: Outage,
    /// Groups that it once lacked, or closed the connection at. It is asked for all other groups.
    of_groups: RwLock<Vec<(Arc<str>, Arc<Outage>)>>,
    /// What was asked of it.
    pub counts: MemberCounts,
}

/// What this process asked of a node.
#[derive(Debug, Default)]
pub struct MemberCounts {
    pub reads: AtomicU64,
    /// Reads that it did not answer.
    pub failed_reads: AtomicU64,
    /// Changes and removals.
    pub changes: AtomicU64,
    /// Changes and removals that it did not hear of at the first attempt.
    pub failed_changes: AtomicU64,
    /// Changes and removals that it has not heard of yet, those of all cores.
    pub untold: AtomicU64,
}

impl Member {
    /// A node that nothing is known about yet.
    pub fn new(name: String, node: PeerNode, is_self: bool) -> Member {
        Member {
            name: name.into(),
            address: node.address,
            zone: node.zone,
            is_self,
            under_way: AtomicU64::new(0),
            is_larder: AtomicBool::new(false),
            is_other: AtomicBool::new(false),
            hash: RwLock::default(),
            outage: Outage::default(),
            of_groups: RwLock::default(),
            counts: MemberCounts::default(),
        }
    }

    /// Whether it is known to be a Larder, which has routes that groupcache's nodes lack.
    pub fn is_larder(&self) -> bool {
        self.is_larder.load(Relaxed)
    }

    /// It has answered as a Larder does.
    pub fn note_larder(&self) {
        if !self.is_larder() {
            self.is_larder.store(true, Relaxed);
        }
    }

    /// How it says that it hashes keys; `None`: it has not said so.
    pub fn hash(&self) -> Option<Box<str>> {
        self.hash.read().clone()
    }
    /// It hashes keys like this. True if that is news.
    pub(super) fn note_hash(&self, name: &str) -> bool {
        let mut hash = self.hash.write();
        let is_news = hash.as_deref() != Some(name);
        *hash = Some(name.into());
        is_news
    }

    /// Whether it is known to run no commands for other nodes.
    pub(super) fn is_other(&self) -> bool {
        self.is_other.load(Relaxed)
    }
    /// It runs no commands for other nodes.
    pub(super) fn note_other(&self) {
        self.is_other.store(true, Relaxed);
    }

    /// Whether the latest attempt to reach it failed.
    pub fn is_out(&self) -> bool {
        self.outage.is_on()
    }

    /// Whether it may be asked now: it can be reached, or this is the one attempt to find out.
    /// Others are told no meanwhile.
    pub fn may_ask(&self, now: Millis) -> bool {
        self.outage.may_ask(now)
    }

    /// It answered.
    pub fn reached(&self) {
        if self.outage.end() {
            // Another program may listen there now.
            self.is_other.store(false, Relaxed);
            tracing::info!(peer = %self.name, "peer reached again");
        }
    }

    /// It says that it answers no longer.
    pub fn left(&self, now: Millis) {
        if self.outage.rest(now) {
            tracing::info!(peer = %self.name, "peer leaves: its keys are read from the next node");
        }
    }

    /// It could not be reached.
    pub fn not_reached(&self, reason: &str, now: Millis) {
        if self.outage.failed(now) {
            tracing::warn!(peer = %self.name, reason, "peer is out: its keys are read from the next node, or from the source");
        }
    }

    fn outage_of(&self, group: &str) -> Option<Arc<Outage>> {
        let of_groups = self.of_groups.read();
        of_groups.iter().find(|(of, _)| **of == *group).map(|(_, outage)| outage.clone())
    }
    /// Whether it may be asked for this group, as far as the group is concerned.
    pub(super) fn may_ask_for(&self, group: &str, now: Millis) -> bool {
        self.outage_of(group).is_none_or(|outage| outage.may_ask(now))
    }
    /// Whether the latest attempt to ask it for this group failed for the group's sake.
    pub(super) fn is_out_for(&self, group: &str) -> bool {
        self.outage_of(group).is_some_and(|outage| outage.is_on())
    }
    /// The groups that it does not serve.
    pub fn groups_out(&self) -> Vec<Arc<str>> {
        self.of_groups.read().iter().filter(|(_, outage)| outage.is_on()).map(|(group, _)| group.clone()).collect()
    }
    /// It answered for this group.
    pub(super) fn reached_for(&self, group: &str) {
        if self.outage_of(group).is_some_and(|outage| outage.end()) {
            tracing::info!(peer = %self.name, group, "peer serves the group again");
        }
    }
    /// It lacks this group, or closes the connection instead of an answer. It may serve others.
    pub(super) fn out_for(&self, group: &Arc<str>, reason: &str, now: Millis) {
        let outage = self.outage_of(group).unwrap_or_else(|| {
            let mut of_groups = self.of_groups.write();
            if let Some((_, outage)) = of_groups.iter().find(|(of, _)| of == group) {
                return outage.clone();
            }
            let outage = Arc::<Outage>::default();
            of_groups.push((group.clone(), outage.clone()));
            outage
        });
        if outage.failed(now) {
            tracing::warn!(
                peer = %self.name,
                group = &**group,
                reason,
                "peer is out for a group: its keys of the group are read from the next node, or from the source"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_out_is_asked_once_in_a_while() {
        let member = Member::new("a:1".into(), "a:1".parse::<PeerAddress>().expect("an address").into(), false);
        assert!(member.may_ask(1000) && member.may_ask(1000));
        member.not_reached("refused", 1000);
        assert!(!member.may_ask(1249));
        assert!(member.may_ask(1250), "one finds out");
        assert!(!member.may_ask(1250), "the others do not");
        member.not_reached("refused", 1260);
        assert!(!member.may_ask(1759) && member.may_ask(1760), "the rest is longer");
        member.reached();
        assert!(member.may_ask(1760) && member.may_ask(1760));
    }

    #[test]
    fn a_node_is_out_for_a_group_alone() {
        let member = Member::new("a:1".into(), "a:1".parse::<PeerAddress>().expect("an address").into(), false);
        let group: Arc<str> = "data".into();
        member.out_for(&group, "it has no such group", 1000);
        assert!(member.is_out_for("data") && !member.is_out() && !member.is_out_for("default"));
        assert!(!member.may_ask_for("data", 1249) && member.may_ask_for("default", 1249) && member.may_ask(1249));
        assert!(member.may_ask_for("data", 1250), "one finds out");
        assert_eq!(member.groups_out(), [group]);
        member.reached_for("data");
        assert!(!member.is_out_for("data") && member.groups_out().is_empty());
    }
}
