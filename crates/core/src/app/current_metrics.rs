//! Reads everything that is counted, from all parts of the process.
use super::App;
use crate::read::ProcessGroup;
use larder_base::{
    lifecycle::faults::FaultPlace,
    telemetry::{
        BuffersSnapshot, Distribution, FaultsSnapshot, GroupSnapshot, InspectionSnapshot, LastSaveSnapshot,
        LinkSnapshot, NewEvent, PushSnapshot, ReplicaSnapshot, ReplicationSnapshot, SavesSnapshot, Snapshot,
        SourceSnapshot, VerificationSnapshot,
    },
};
use larder_ring::replica::ConnectedReplica;
use larder_source::InspectionCounts;
use larder_store::{clock, disk::Store};
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

impl App {
    /// Everything that is counted, at this moment.
    pub fn metrics(&self) -> Snapshot {
        let app = self;
        let groups = app.groups.iter().map(|group| {
            let ProcessGroup { settings, cache, modes, inspection, .. } = group;
            let source = group.source();
            let health = source.health();
            GroupSnapshot {
                name: settings.name.clone(),
                cache: cache.stats(),
                source: SourceSnapshot {
                    up: health.is_up(),
                    in_flight: health.in_flight() as u64,
                    fetches: health.fetches(),
                    errors: health.errors(),
                    reconnects: health.reconnects(),
                    tracking: health.tracking() as u64,
                    untracked: health.untracked() as u64,
                    invalidations: health.invalidations(),
                    tracking_losses: health.tracking_losses(),
                    lag: health.lag().0,
                    lag_bytes: health.lag().1,
                    replica_lag: health.replica_lag(),
                    seconds: health.seconds(),
                    admission: health.admission_snapshot(),
                    table: source.table.as_ref().map(|table| table.counts()).unwrap_or_default(),
                },
                source_error: health.last_error(),
                modes: modes.snapshot(),
                inspection: inspection_snapshot(inspection),
                shared: app.peers.as_ref().and_then(|peers| peers.group_snapshot(&settings.name, clock::now())),
                what_if: cache.what_if_sample(),
                store: source.store().map(Store::stats),
                driver: source.driver(),
                mirror: group.mirror().map(|(_, mirror)| mirror.snapshot()),
            }
        });
        let pushes = PushSnapshot {
            tracking_clients: app.clients.tracking() as u64,
            tracked_keys: app.tables.tracking.totals().keys as u64,
            subscribed: app.tables.pubsub.totals().map(|n| n as u64),
            cut_off: app.tables.backlog.cut_off(),
        };
        let buffers = BuffersSnapshot {
            max_bytes: app.buffers.limit() as u64,
            bytes: app.buffers.by_kind().collect(),
            cut: app.buffers.cut().collect(),
            refused: app.buffers.refused(),
        };
        let peers = app.peers.as_ref().map(|peers| peers.snapshot()).unwrap_or_default();
        let tls = app.tls.as_ref().map(|tls| tls.snapshot()).unwrap_or_default();
        Snapshot {
            peers,
            replication: replication(app),
            saves: saves(app),
            tls,
            faults: faults(app),
            commands: app.commands.sums(),
            ..app.telemetry.snapshot(groups.collect(), pushes, buffers)
        }
    }

    /// Adds a row to the history. The control thread does so each second.
    pub fn sample_history(&self) {
        self.history.sample(self.telemetry.time(), Instant::now(), &self.metrics());
    }

    /// Adds an event to those that the console shows.
    pub fn note_event(&self, event: NewEvent) {
        self.history.add_event(self.telemetry.time(), event);
    }
}

fn replication(app: &App) -> ReplicationSnapshot {
    let (replication, now) = (&app.replication, clock::now());
    let changes = replication.changes();
    let replica = |replica: Arc<ConnectedReplica>| ReplicaSnapshot {
        name: SocketAddr::new(replica.ip, replica.port).to_string(),
        behind: changes.saturating_sub(replica.acknowledged()),
    };
    let link = &replication.link;
    ReplicationSnapshot {
        role: replication.role().name(),
        changes,
        log_bytes: replication.log_bytes() as u64,
        replicas: replication.replicas.list().into_iter().map(replica).collect(),
        link: replication.is_read_only().then(|| LinkSnapshot {
            up: link.is_up(),
            behind: link.behind_for(now).map(Duration::from_millis),
            applied: link.applied(),
            refused: link.refused(),
            full_copies: link.full_copies(),
            resumptions: link.resumptions(),
            clock_difference: link.clock_difference() as f64 / 1e3,
        }),
    }
}

fn saves(app: &App) -> SavesSnapshot {
    let status = app.snapshots.status();
    SavesSnapshot {
        in_progress: status.saving.is_some(),
        saves: status.saves,
        failures: status.failures,
        changes: status.changes,
        last: status.success.map(|success| LastSaveSnapshot {
            at: Duration::from_millis(success.at),
            took: success.took,
            entries: success.progress.entries,
            bytes: success.progress.bytes,
        }),
        verification: status.verification.map(|verification| VerificationSnapshot {
            left: if verification.is_done { 0 } else { verification.entries.saturating_sub(verification.looked_at()) },
            same: verification.same,
            changed: verification.changed,
            gone: verification.gone,
            overtaken: verification.overtaken,
        }),
    }
}

fn inspection_snapshot(counts: &InspectionCounts) -> InspectionSnapshot {
    let [compared, older, forgotten, skipped] = counts.numbers();
    let mut ages = Distribution::default();
    ages.add(counts.ages());
    InspectionSnapshot { compared, older, forgotten, skipped, ages }
}

fn faults(app: &App) -> FaultsSnapshot {
    let list = app.gate.faults.list(clock::now());
    let active = |place: FaultPlace| list.iter().filter(|fault| fault.place == place).count() as u64;
    FaultsSnapshot {
        active: FaultPlace::ALL.map(|place| (place.name(), active(place))).into(),
        struck: app.gate.faults.done().collect(),
    }
}
