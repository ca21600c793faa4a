//! Everything that is counted, at one moment.
use super::{
    command_stats::CommandNumbers,
    histogram::Distribution,
    http_route::HttpDistributions,
    http_route_counts::HttpRouteSums,
    peers_snapshot::{PeersSnapshot, SharedGroupSnapshot},
    process_stats::ProcessStats,
    replication_snapshot::ReplicationSnapshot,
    saves_snapshot::SavesSnapshot,
    source_nodes::SourceNodes,
    worker_counters::CounterSums,
};
use larder_engine::{Stats, WhatIfSample};
use larder_store::disk::StoreStats;
use std::{sync::Arc, time::Duration};

/// Everything that is counted, at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub version: &'static str,
    /// Of the build; `unknown` where nothing says it.
    pub commit: &'static str,
    /// Cargo's profile of the build.
    pub profile: &'static str,
    /// Since the Unix epoch.
    pub started: Duration,
    pub uptime: Duration,
    pub dropped_log_lines: u64,
    pub process: ProcessStats,
    pub sums: CounterSums,
    /// Of a worker, CPU time.
    pub longest_turn: Duration,
    pub worker_connections: Vec<u64>,
    /// How long HTTP requests took, by route.
    pub http_times: HttpDistributions,
    /// Statuses and bytes of HTTP requests, by route.
    pub http_routes: HttpRouteSums,
    pub groups: Vec<GroupSnapshot>,
    pub pushes: PushSnapshot,
    pub buffers: BuffersSnapshot,
    pub peers: PeersSnapshot,
    pub replication: ReplicationSnapshot,
    pub saves: SavesSnapshot,
    pub tls: TlsSnapshot,
    pub faults: FaultsSnapshot,
    /// Of the Redis commands that were called or refused.
    pub commands: Vec<CommandNumbers>,
}

impl Snapshot {
    /// How long HTTP requests took, on all routes.
    pub fn http_seconds(&self) -> Distribution {
        let mut sum = Distribution::default();
        self.http_times.iter().for_each(|of| sum.merge(of));
        sum
    }

    /// The groups that have this part, by their names.
    pub fn parts<'s, P: 's>(
        &'s self,
        part: impl Fn(&'s GroupSnapshot) -> Option<&'s P>,
    ) -> impl Iterator<Item = (&'s str, &'s P)> {
        self.groups.iter().filter_map(move |group| Some((group.name.as_str(), part(group)?)))
    }
}

/// Faults that were ordered, by place.
#[derive(Debug, Clone, Default)]
pub struct FaultsSnapshot {
    pub active: Vec<(&'static str, u64)>,
    /// What they were done to.
    pub struck: Vec<(&'static str, u64)>,
}

/// The files of the TLS listeners.
#[derive(Debug, Clone, Default)]
pub struct TlsSnapshot {
    pub certificates: Vec<CertificateSnapshot>,
    /// Of changed files.
    pub reloads: u64,
    pub failed_reloads: u64,
}

/// A certificate that clients are shown.
#[derive(Debug, Clone, Default)]
pub struct CertificateSnapshot {
    /// The file that it was read from.
    pub file: String,
    /// The end of its life, seconds since the Unix epoch.
    pub ends: u64,
}

/// What is held for clients besides the memory tiers.
#[derive(Debug, Clone, Default)]
pub struct BuffersSnapshot {
    pub max_bytes: u64,
    /// By kind.
    pub bytes: Vec<(&'static str, u64)>,
    /// Connections, by protocol.
    pub cut: Vec<(&'static str, u64)>,
    pub refused: u64,
}

/// What Redis clients are told without having asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct PushSnapshot {
    pub tracking_clients: u64,
    /// As far as it is Larder that remembers them.
    pub tracked_keys: u64,
    /// Channels, patterns and shard channels with subscribers, without a source.
    pub subscribed: [u64; 3],
    pub cut_off: u64,
}

#[derive(Debug, Clone, Default)]
pub struct GroupSnapshot {
    pub name: String,
    pub cache: Stats,
    pub source: SourceSnapshot,
    /// Why the source was last lost. It stays when the source is back.
    pub source_error: Option<Arc<str>>,
    pub modes: ModeSnapshot,
    pub inspection: InspectionSnapshot,
    /// `None`: its keys have no owners.
    pub shared: Option<SharedGroupSnapshot>,
    /// `None`: nothing is simulated for it.
    pub what_if: Option<WhatIfSample>,
    /// Of a `disk:` source.
    pub store: Option<StoreStats>,
    /// `None`: the source has no driver that counts.
    pub driver: Option<DriverSnapshot>,
    /// `None`: the source has no mirror.
    pub mirror: Option<MirrorSnapshot>,
}

/// What the driver of a source counts and knows, in the sessions of all cores.
#[derive(Debug, Clone, Default)]
pub struct DriverSnapshot {
    /// A node is up if a core has a connection to it.
    pub nodes: SourceNodes,
    pub requests: u64,
    pub errors: u64,
    pub retries: u64,
    pub timeouts: u64,
    pub speculative: u64,
    pub connections: u64,
    pub connection_timeouts: u64,
}

/// The numbers of a mirror (`mirror`).
#[derive(Debug, Clone, Copy, Default)]
pub struct MirrorSnapshot {
    /// Each state, and whether it is the present one.
    pub states: [(&'static str, bool); 4],
    /// Changed keys that wait to be compared.
    pub queued: u64,
    /// Changed keys whose names had to be forgotten.
    pub forgotten: u64,
    /// Keys that walks compared.
    pub scanned: u64,
    pub copied: u64,
    /// Keys that differed after they were copied.
    pub different: u64,
    /// Entries that the mirror cannot keep.
    pub left_out: u64,
    /// Attempts that failed.
    pub errors: u64,
}
impl MirrorSnapshot {
    pub fn state(&self) -> &'static str {
        self.states.iter().find_map(|(state, is_now)| is_now.then_some(*state)).unwrap_or_default()
    }
}

/// Reads that mode rules kept from the memory tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModeSnapshot {
    pub rules: u64,
    pub observed_hits: u64,
    pub observed_hit_bytes: u64,
    pub observed_misses: u64,
    pub denied_reads: u64,
}

/// Hits that were compared with the source (`inspect`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InspectionSnapshot {
    pub compared: u64,
    pub older: u64,
    pub forgotten: u64,
    pub skipped: u64,
    pub ages: Distribution,
}

/// One source's numbers; of `none:` only that it is up.
#[derive(Debug, Clone, Copy, Default)]
pub struct SourceSnapshot {
    pub up: bool,
    pub in_flight: u64,
    pub fetches: u64,
    pub errors: u64,
    pub reconnects: u64,
    pub tracking: u64,
    pub untracked: u64,
    pub invalidations: u64,
    pub tracking_losses: u64,
    /// How far a stream of changes is behind, ms.
    pub lag: u64,
    pub lag_bytes: u64,
    /// How far the standby that is read is behind, ms.
    pub replica_lag: u64,
    pub seconds: Distribution,
    pub admission: AdmissionSnapshot,
    /// Of no other source.
    pub table: TableSnapshot,
}

/// The numbers of a source's circuit, limit and retries.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmissionSnapshot {
    /// Each state of the circuit, and whether it is the present one; `None` without a breaker.
    pub circuit: Option<[(&'static str, bool); 3]>,
    pub opened: u64,
    pub limit: u64,
    pub waiting: u64,
    pub rejected_circuit: u64,
    pub rejected_limit: u64,
    pub rejected_background: u64,
    pub retries: u64,
    pub retries_denied: u64,
}
impl AdmissionSnapshot {
    /// The present state of the circuit.
    pub fn circuit_now(&self) -> Option<&'static str> {
        self.circuit.iter().flatten().find_map(|(state, is_now)| is_now.then_some(*state))
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableSnapshot {
    pub entries: u64,
    pub bytes: u64,
    pub swaps: u64,
    pub refused: u64,
}
