//! A node of the ring, as all cores of this process see it: its address, whether it can be reached,
//! and what was asked of it.
use crate::config::{PeerAddress, PeerNode, Zone};
use larder_engine::Millis;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// How long a node is left alone after the first failure to reach it, ms; doubled by each further
/// one.
const FIRST_REST: u64 = 250;
/// The longest such time, ms.
const LONGEST_REST: u64 = 8_000;

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
    /// Failures to reach it in a row.
    failures: AtomicU32,
    /// It is not asked before then.
    rests_until: AtomicU64,
    /// What was asked of it.
    pub counts: MemberCounts,
}

/// What this process asked of a node.
#[derive(Debug, Default)]
pub struct MemberCounts {
    /// Reads.
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
            failures: AtomicU32::new(0),
            rests_until: AtomicU64::new(0),
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
        self.failures.load(Relaxed) > 0
    }

    /// Whether it may be asked now: it can be reached, or this is the one attempt to find out.
    /// Others are told no meanwhile.
    pub fn may_ask(&self, now: Millis) -> bool {
        if !self.is_out() {
            return true;
        }
        let until = self.rests_until.load(Relaxed);
        until <= now && self.rests_until.compare_exchange(until, now + FIRST_REST, Relaxed, Relaxed).is_ok()
    }

    /// It answered.
    pub fn reached(&self) {
        if self.is_out() && self.failures.swap(0, Relaxed) > 0 {
            // Another program may listen there now.
            self.is_other.store(false, Relaxed);
            tracing::info!(peer = %self.name, "peer reached again");
        }
    }

    /// It says that it answers no longer.
    pub fn left(&self, now: Millis) {
        if self.failures.fetch_add(1, Relaxed) == 0 {
            tracing::info!(peer = %self.name, "peer leaves: its keys are read from the next node");
        }
        self.rests_until.fetch_max(now + FIRST_REST, Relaxed);
    }

    /// It could not be reached.
    pub fn not_reached(&self, reason: &str, now: Millis) {
        let failures = self.failures.fetch_add(1, Relaxed);
        let rest = LONGEST_REST.min(FIRST_REST << failures.min(10));
        self.rests_until.fetch_max(now + rest, Relaxed);
        if failures == 0 {
            tracing::warn!(peer = %self.name, reason, "peer is out: its keys are read from the next node, or from the source");
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
}
