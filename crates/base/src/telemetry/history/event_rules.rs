//! Which differences between two samples are events.
use super::event_log::{EventKind, NewEvent};
use crate::telemetry::{
    metrics_snapshot::{GroupSnapshot, Snapshot},
    source_nodes::{SourceNodes, node_changes},
};
use std::collections::HashMap;

/// Evictions per second below which a rise is none.
const FEW_EVICTIONS: f64 = 50.0;
/// A rise is so many times what was usual.
const RISE: f64 = 4.0;
/// Samples without another event of the same kind for what may go on for long.
const PAUSE: u64 = 300;
/// Weight of a new sample in what is so now, and in what is usual.
const NOW: f64 = 0.2;
const USUAL: f64 = 1.0 / 120.0;

/// What was seen at the sample before.
#[derive(Debug, Default)]
pub(super) struct EventRules {
    samples: u64,
    groups: HashMap<String, GroupFacts>,
    counts: ProcessCounts,
    /// Whether each node that shares its cache can be reached.
    peers: HashMap<String, bool>,
    role: &'static str,
    is_link_up: Option<bool>,
    refused_until: u64,
    /// Faults in force that were ordered, by place.
    faults: Vec<(&'static str, u64)>,
}

#[derive(Debug, Default)]
struct GroupFacts {
    is_up: bool,
    /// Of the cluster that is the source, if it is one.
    nodes: SourceNodes,
    circuit: Option<&'static str>,
    tracking_losses: u64,
    evictions: u64,
    evictions_now: f64,
    evictions_usual: f64,
    quiet_until: u64,
}

/// Counters of the process of which each rise is an event.
#[derive(Debug, Default, Clone, Copy)]
struct ProcessCounts {
    panics: u64,
    failed_saves: u64,
    certificate_reloads: u64,
    failed_certificate_reloads: u64,
    /// By what refused: throttle, overload, connections, buffers.
    refused: [u64; 4],
}

const REFUSED_BY: [&str; 4] = ["the throttle", "overload", "max-connections", "max-buffers"];

impl ProcessCounts {
    fn of(snapshot: &Snapshot) -> ProcessCounts {
        let sums = &snapshot.sums;
        let cut: u64 = snapshot.buffers.cut.iter().map(|(_, cut)| cut).sum();
        ProcessCounts {
            panics: sums.panics,
            failed_saves: snapshot.saves.failures,
            certificate_reloads: snapshot.tls.reloads,
            failed_certificate_reloads: snapshot.tls.failed_reloads,
            refused: [
                sums.http_throttled + sums.redis_throttled + sums.memcached_throttled,
                sums.http_overloaded + sums.redis_overloaded + sums.memcached_overloaded + sums.overloaded_fetches,
                sums.connections_refused,
                snapshot.buffers.refused + cut,
            ],
        }
    }
}

impl EventRules {
    /// What has happened since the sample before. The first sample tells only what is wrong from
    /// the start.
    pub(super) fn compare(&mut self, snapshot: &Snapshot) -> Vec<NewEvent> {
        let is_first = self.samples == 0;
        self.samples += 1;
        let mut events = Vec::new();
        for group in &snapshot.groups {
            self.compare_group(group, is_first, &mut events);
        }
        let counts = ProcessCounts::of(snapshot);
        if !is_first {
            self.compare_counts(&counts, &mut events);
        }
        self.counts = counts;
        self.compare_nodes(snapshot, is_first, &mut events);
        self.compare_faults(snapshot, &mut events);
        events
    }

    fn compare_group(&mut self, group: &GroupSnapshot, is_first: bool, events: &mut Vec<NewEvent>) {
        let name = Some(group.name.as_str());
        if !self.groups.contains_key(&group.name) {
            let begin = GroupFacts {
                is_up: true,
                circuit: group.source.admission.circuit_now(),
                tracking_losses: group.source.tracking_losses,
                evictions: group.cache.evictions,
                ..GroupFacts::default()
            };
            self.groups.insert(group.name.clone(), begin);
        }
        let Some(before) = self.groups.get_mut(&group.name) else { return };
        let source = &group.source;
        match (before.is_up, source.up) {
            (true, false) => {
                let reason = group.source_error.as_deref().unwrap_or("it is not reached yet");
                let what = if is_first { "is not reached" } else { "is lost" };
                let text = format!("the source of group {} {what}: {reason}", group.name);
                events.push(NewEvent::warning(EventKind::SourceLost, name, text));
            }
            (false, true) => {
                let text = format!("the source of group {} answers", group.name);
                events.push(NewEvent::info(EventKind::SourceBack, name, text));
            }
            _ => {}
        }
        if let Some(driver) = &group.driver {
            for (node, change) in node_changes(&mut before.nodes, &driver.nodes) {
                let text = format!("node {node} of the source of group {} {}", group.name, change.text());
                let event = NewEvent::info(EventKind::SourceNode, name, text);
                events.push(NewEvent { is_warning: change.is_warning(), ..event });
            }
        }
        let circuit = source.admission.circuit_now();
        if let (Some(was), Some(is)) = (before.circuit, circuit)
            && was != is
        {
            let text = format!("the circuit of group {} is {is} (before: {was})", group.name);
            let event = NewEvent::info(EventKind::Circuit, name, text);
            events.push(NewEvent { is_warning: is == "open", ..event });
        }
        if source.tracking_losses > before.tracking_losses {
            let text = format!(
                "a connection that tracks changes for group {} was lost: its copies count as out of date",
                group.name
            );
            events.push(NewEvent::warning(EventKind::TrackingLost, name, text));
        }
        let evicted = group.cache.evictions.saturating_sub(before.evictions) as f64;
        before.evictions_now += (evicted - before.evictions_now) * NOW;
        let (now, usual) = (before.evictions_now, before.evictions_usual);
        if now >= FEW_EVICTIONS && now > RISE * usual && self.samples > before.quiet_until {
            before.quiet_until = self.samples + PAUSE;
            let text =
                format!("evictions of group {} rise to {now:.0} entries a second (usual: {usual:.0})", group.name);
            events.push(NewEvent::warning(EventKind::Evictions, name, text));
        }
        before.evictions_usual += (evicted - usual) * USUAL;
        before.evictions = group.cache.evictions;
        before.tracking_losses = source.tracking_losses;
        (before.is_up, before.circuit) = (source.up, circuit);
    }

    fn compare_counts(&mut self, now: &ProcessCounts, events: &mut Vec<NewEvent>) {
        let before = self.counts;
        if now.panics > before.panics {
            events.push(NewEvent::warning(EventKind::Panic, None, "a connection ended with a panic: see the log"));
        }
        if now.failed_saves > before.failed_saves {
            events.push(NewEvent::warning(EventKind::Snapshot, None, "a snapshot could not be written: see the log"));
        }
        if now.certificate_reloads > before.certificate_reloads {
            events.push(NewEvent::info(EventKind::Certificates, None, "changed certificates were loaded"));
        }
        if now.failed_certificate_reloads > before.failed_certificate_reloads {
            let text = "changed certificates cannot be used: the old ones stay";
            events.push(NewEvent::warning(EventKind::Certificates, None, text));
        }
        let rose: Vec<_> = (REFUSED_BY.iter().zip(now.refused).zip(before.refused))
            .filter(|((_, now), before)| now > before)
            .map(|((by, now), before)| format!("{} by {by}", now - before))
            .collect();
        if !rose.is_empty() {
            if self.samples > self.refused_until {
                let text = format!("requests are refused: {}", rose.join(", "));
                events.push(NewEvent::warning(EventKind::Refusals, None, text));
            }
            self.refused_until = self.samples + PAUSE;
        }
    }

    /// An outage in the charts that was a rehearsal must be known as one later.
    fn compare_faults(&mut self, snapshot: &Snapshot, events: &mut Vec<NewEvent>) {
        for (place, now) in &snapshot.faults.active {
            let before = self.faults.iter().find(|(other, _)| other == place).map_or(0, |(_, before)| *before);
            if *now > before {
                let text = format!("faults at {place} were ordered, to rehearse an outage: {now} in force");
                events.push(NewEvent::warning(EventKind::Faults, None, text));
            } else if *now < before {
                let text = format!("faults at {place} have ended: {now} in force");
                events.push(NewEvent::info(EventKind::Faults, None, text));
            }
        }
        self.faults.clone_from(&snapshot.faults.active);
    }

    fn compare_nodes(&mut self, snapshot: &Snapshot, is_first: bool, events: &mut Vec<NewEvent>) {
        let peers: HashMap<String, bool> =
            snapshot.peers.named.iter().map(|node| (node.name.clone(), node.reachable > 0)).collect();
        if !is_first {
            for (name, is_reachable) in &peers {
                let (text, is_warning) = match (self.peers.get(name), is_reachable) {
                    (None, _) => (format!("peer {name} has joined"), false),
                    (Some(true), false) => (format!("peer {name} cannot be reached"), true),
                    (Some(false), true) => (format!("peer {name} can be reached again"), false),
                    _ => continue,
                };
                events.push(NewEvent { is_warning, ..NewEvent::info(EventKind::Peers, None, text) });
            }
            for name in self.peers.keys().filter(|name| !peers.contains_key(*name)) {
                events.push(NewEvent::info(EventKind::Peers, None, format!("peer {name} has left")));
            }
        }
        self.peers = peers;
        let replication = &snapshot.replication;
        if !is_first && self.role != replication.role {
            let text = format!("the role is {} (before: {})", replication.role, self.role);
            events.push(NewEvent::info(EventKind::Role, None, text));
        }
        self.role = replication.role;
        let is_link_up = replication.link.as_ref().map(|link| link.up);
        match (self.is_link_up, is_link_up) {
            (Some(true), Some(false)) => {
                events.push(NewEvent::warning(EventKind::Replication, None, "the connection to the primary is lost"));
            }
            (Some(false), Some(true)) => {
                events.push(NewEvent::info(EventKind::Replication, None, "the primary answers"));
            }
            _ => {}
        }
        self.is_link_up = is_link_up;
    }
}
