//! The numbers of the nodes that share their caches.

/// Nodes that metrics name; the others are one together, `other`.
const MOST_NAMED: usize = 64;

/// The ring, as this node sees it.
#[derive(Debug, Clone, Default)]
pub struct PeersSnapshot {
    /// Nodes on the ring; 0: this one shares nothing.
    pub nodes: u64,
    /// At most [`MOST_NAMED`], and `other`.
    pub named: Vec<NodeSnapshot>,
}

impl PeersSnapshot {
    /// Of all nodes, in an order that stays.
    pub fn new(nodes: Vec<NodeSnapshot>) -> PeersSnapshot {
        let count = nodes.len() as u64;
        let mut named = nodes;
        let rest = named.split_off(named.len().min(MOST_NAMED));
        if !rest.is_empty() {
            let mut other = NodeSnapshot { name: "other".to_owned(), ..NodeSnapshot::default() };
            rest.iter().for_each(|node| other.add(node));
            named.push(other);
        }
        PeersSnapshot { nodes: count, named }
    }
}

/// One node, or several together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeSnapshot {
    pub name: String,
    /// How many can be reached.
    pub reachable: u64,
    /// The part of the ring, up to 1.
    pub share: f64,
    pub reads: u64,
    pub failed_reads: u64,
    pub changes: u64,
    pub failed_changes: u64,
    /// Changes that it has not heard of yet.
    pub untold: u64,
}

impl NodeSnapshot {
    fn add(&mut self, other: &NodeSnapshot) {
        let NodeSnapshot { name: _, reachable, share, reads, failed_reads, changes, failed_changes, untold } = other;
        self.reachable += reachable;
        self.share += share;
        self.reads += reads;
        self.failed_reads += failed_reads;
        self.changes += changes;
        self.failed_changes += failed_changes;
        self.untold += untold;
    }
}

/// What a group whose keys have owners has asked of other nodes, and they of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedGroupSnapshot {
    /// Fetches begun, be it from another node or from the source.
    pub fetches: u64,
    /// Of them, those that another node answered, absences included.
    pub loads: u64,
    /// Attempts to ask another node that it did not answer, or answered with a failure.
    pub errors: u64,
    /// The slowest attempt, ms.
    pub slowest: u64,
    /// Fetches from the source for keys whose owner cannot be reached.
    pub fallbacks: u64,
    /// Reads of keys whose owner had much under way already, so that another node was asked.
    pub passed_on: u64,
    /// Reads that other nodes asked of this one.
    pub requests: u64,
    /// Of them, those of nodes with another ring.
    pub other_rings: u64,
    /// Requests of other nodes to remove several keys, and the keys in them.
    pub removal_requests: u64,
    pub removed_keys: u64,
    /// Copies of other nodes' keys: how many were kept, and how many of them have not ended by
    /// time.
    pub hot_copies_kept: u64,
    pub hot_copies: u64,
    pub hot_copy_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_beyond_the_named_ones_are_one() {
        let node = |number: usize| NodeSnapshot {
            name: format!("n{number}"),
            reachable: 1,
            share: 0.5,
            reads: 1,
            failed_reads: 2,
            changes: 3,
            failed_changes: 4,
            untold: 5,
        };
        let peers = PeersSnapshot::new((0..MOST_NAMED).map(node).collect());
        assert_eq!((peers.nodes, peers.named.len()), (64, 64));
        assert_eq!(peers.named[63].name, "n63");
        let peers = PeersSnapshot::new((0..MOST_NAMED + 2).map(node).collect());
        assert_eq!((peers.nodes, peers.named.len()), (66, 65));
        let expected = NodeSnapshot {
            name: "other".to_owned(),
            reachable: 2,
            share: 1.0,
            reads: 2,
            failed_reads: 4,
            changes: 6,
            failed_changes: 8,
            untold: 10,
        };
        assert_eq!(peers.named[64], expected);
    }
}
