//! Nodes that share their caches.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge},
};

/// A family with one number for each node that shares its cache.
macro_rules! node {
    ($name:literal, $kind:ident, $field:ident, $help:literal) => {
        MetricFamily {
            name: $name,
            kind: $kind,
            help: $help,
            read: |s, to| {
                for node in &s.peers.named {
                    to.number(&[("peer", &node.name)], node.$field);
                }
            },
        }
    };
}

pub(super) const PEERS: &[MetricFamily] = &[
    MetricFamily {
        name: "larder_peers",
        kind: Gauge,
        help: "Nodes on the ring, including this one; 0 without peers.",
        read: |s, to| to.number(&[], s.peers.nodes),
    },
    node!(
        "larder_peer_reachable",
        Gauge,
        reachable,
        "1 if the latest attempt to reach the node did not fail; for `other`, the number of such nodes."
    ),
    MetricFamily {
        name: "larder_peer_ring_share",
        kind: Gauge,
        help: "Share of the ring that the node owns; all shares add up to 1.",
        read: |s, to| {
            for node in &s.peers.named {
                to.ratio(&[("peer", &node.name)], node.share);
            }
        },
    },
    node!("larder_peer_reads_total", Counter, reads, "Reads that this node sent to the node."),
    node!(
        "larder_peer_failed_reads_total",
        Counter,
        failed_reads,
        "Reads that this node sent to the node and that failed."
    ),
    node!(
        "larder_peer_changes_total",
        Counter,
        changes,
        "Changes and removals that this node sent to the node; repeats are not counted."
    ),
    node!(
        "larder_peer_failed_changes_total",
        Counter,
        failed_changes,
        "Changes and removals whose first attempt failed."
    ),
    node!(
        "larder_peer_untold_changes",
        Gauge,
        untold,
        "Changes that the node has not acknowledged yet; they are sent again."
    ),
    part!(
        shared,
        "larder_peer_fetches_total",
        Counter,
        fetches,
        "Fetches started, from another node or from the source."
    ),
    part!(
        shared,
        "larder_peer_answers_total",
        Counter,
        loads,
        "Fetches that another node answered, including absences."
    ),
    part!(
        shared,
        "larder_peer_errors_total",
        Counter,
        errors,
        "Requests to another node without an answer, or with an error."
    ),
    part!(
        shared,
        "larder_peer_fallbacks_total",
        Counter,
        fallbacks,
        "Fetches from the source for keys whose owner could not be reached."
    ),
    part!(
        shared,
        "larder_peer_passed_on_total",
        Counter,
        passed_on,
        "Reads sent to another node because the key's owner was busy (peer-bounded-load)."
    ),
    part!(shared, "larder_peer_requests_total", Counter, requests, "Reads from other nodes."),
    part!(
        shared,
        "larder_peer_other_ring_total",
        Counter,
        other_rings,
        "Reads from nodes whose ring has another epoch."
    ),
    part!(
        shared,
        "larder_hot_copies_kept_total",
        Counter,
        hot_copies_kept,
        "Hot copies stored: copies of other nodes' keys."
    ),
    part!(
        shared,
        "larder_hot_copies",
        Gauge,
        hot_copies,
        "Hot copies that have not expired; copies removed or evicted early still count."
    ),
    part!(
        shared,
        "larder_hot_copy_bytes",
        Gauge,
        hot_copy_bytes,
        "Bytes of keys and values of hot copies that have not expired."
    ),
];
