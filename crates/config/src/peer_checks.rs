//! Checks of the settings of peers against each other.
use super::{
    computed_defaults::own_entry,
    effective_values::EffectiveSettings,
    peer_entry::{PeerAddress, PeerEntry, Zone, ZonedPeerEntry},
    peer_settings::HotCopies,
};
use std::net::IpAddr;

/// `peers` has one way to find nodes, and what is said about zones and load goes together.
pub(super) fn check_peers(scope: &EffectiveSettings, problems: &mut Vec<String>) {
    let peers = scope.effective("peers");
    let entries = || scope.all::<ZonedPeerEntry>("peers");
    let Some(first) = entries().next() else { return };
    if let Some(other) = entries().find(|of| of.entry.scheme() != first.entry.scheme()) {
        problems.push(format!(
            "{}: peers: `{first}` and `{other}` cannot be mixed: name all nodes by addresses, or all in one other way",
            peers.origin
        ));
    }
    if let Some(seed) = entries().find(|of| of.zone.is_some() && matches!(of.entry, PeerEntry::Seed(_))) {
        problems
            .push(format!("{}: peers: `{seed}`: a node that gossips says itself in which zone it is", peers.origin));
        return;
    }
    if matches!(first.entry, PeerEntry::Pods(_)) {
        check_pods(scope, problems);
    }
    let Some(zone) = scope.one::<Zone>("peer-zone") else {
        if let Some(zoned) = entries().find(|of| of.zone.is_some()) {
            problems
                .push(format!("{}: peers: `{zoned}` has a zone, and this node has none: set peer-zone", peers.origin));
        }
        return;
    };
    let origin = &scope.effective("peer-zone").origin;
    if scope.is_set("peer-bounded-load") {
        let origin = &scope.effective("peer-bounded-load").origin;
        problems.push(format!(
            "{origin}: peer-bounded-load: cannot be set together with peer-zone: a zone's reader would pass a key on to a node that asks that reader for it"
        ));
    }
    if scope.one("hot-copy-ttl").is_some_and(|copies: &HotCopies| copies.ttl.is_zero()) {
        problems.push(format!(
            "{origin}: peer-zone: needs a hot-copy-ttl: without copies a zone's reader has nothing to answer with"
        ));
    }
    if let Some(this) = own_entry(scope).filter(|of| of.zone.as_ref() != Some(zone)) {
        problems.push(format!(
            "{origin}: peer-zone: `{this}` in peers is this node: write `{};zone={zone}` in the lists of all nodes",
            this.entry
        ));
    }
}

/// Pods are one selection, and known by their addresses.
fn check_pods(scope: &EffectiveSettings, problems: &mut Vec<String>) {
    let peers = scope.effective("peers");
    if peers.values.len() > 1 {
        problems.push(format!("{}: peers: one label selector chooses all pods", peers.origin));
    }
    if let Some(zoned) = scope.all::<ZonedPeerEntry>("peers").find(|of| of.zone.is_some()) {
        problems.push(format!(
            "{}: peers: `{zoned}`: the zone of a pod is its label topology.kubernetes.io/zone",
            peers.origin
        ));
    }
    if let Some(this) = scope.one::<PeerAddress>("peer-self")
        && this.host.parse::<IpAddr>().is_err()
    {
        let origin = &scope.effective("peer-self").origin;
        problems
            .push(format!("{origin}: peer-self: `{this}` is not an address: pods know each other by their addresses"));
    }
}
