//! Primary and replicas.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge},
};
use crate::telemetry::{metrics_snapshot::Snapshot, replication_snapshot::LinkSnapshot};

fn link(s: &Snapshot) -> Option<&LinkSnapshot> {
    s.replication.link.as_ref()
}

pub(super) const REPLICATION: &[MetricFamily] = &[
    MetricFamily {
        name: "larder_replication_role",
        kind: Gauge,
        help: "1 for the current role: standalone, primary or replica.",
        read: |s, to| {
            for role in ["standalone", "primary", "replica"] {
                to.number(&[("role", role)], u64::from(s.replication.role == role));
            }
        },
    },
    MetricFamily {
        name: "larder_replication_changes_total",
        kind: Counter,
        help: "Changes that a primary logged for its replicas.",
        read: |s, to| to.number(&[], s.replication.changes),
    },
    MetricFamily {
        name: "larder_replication_backlog_bytes",
        kind: Gauge,
        help: "Bytes of the change logs (replication-backlog).",
        read: |s, to| to.number(&[], s.replication.log_bytes),
    },
    MetricFamily {
        name: "larder_replication_replicas",
        kind: Gauge,
        help: "Connected replicas.",
        read: |s, to| to.number(&[], s.replication.replicas.len() as u64),
    },
    MetricFamily {
        name: "larder_replication_replica_behind",
        kind: Gauge,
        help: "Changes that a connected replica has not acknowledged.",
        read: |s, to| {
            for replica in &s.replication.replicas {
                to.number(&[("replica", &replica.name)], replica.behind);
            }
        },
    },
    MetricFamily {
        name: "larder_replication_link_up",
        kind: Gauge,
        help: "1 while the replica receives its primary's changes. With pull, 1 if the last pull succeeded.",
        read: |s, to| link(s).into_iter().for_each(|link| to.number(&[], u64::from(link.up))),
    },
    MetricFamily {
        name: "larder_replication_lag_seconds",
        kind: Gauge,
        help: "Age of the replica's data in seconds: every older change of the primary has arrived. Up to 1 while the primary is idle.",
        read: |s, to| {
            let behind = link(s).and_then(|link| link.behind);
            behind.into_iter().for_each(|behind| to.seconds(&[], behind.as_secs_f64()));
        },
    },
    MetricFamily {
        name: "larder_replication_clock_difference_seconds",
        kind: Gauge,
        help: "Primary's clock minus this machine's, when the last mark arrived.",
        read: |s, to| link(s).into_iter().for_each(|link| to.seconds(&[], link.clock_difference)),
    },
    MetricFamily {
        name: "larder_replication_applied_total",
        kind: Counter,
        help: "Entries, deletions and clears that the replica applied.",
        read: |s, to| link(s).into_iter().for_each(|link| to.number(&[], link.applied)),
    },
    MetricFamily {
        name: "larder_replication_refused_total",
        kind: Counter,
        help: "Entries of the primary that do not fit into the replica's memory tier.",
        read: |s, to| link(s).into_iter().for_each(|link| to.number(&[], link.refused)),
    },
    MetricFamily {
        name: "larder_replication_full_copies_total",
        kind: Counter,
        help: "Full copies that the replica started.",
        read: |s, to| link(s).into_iter().for_each(|link| to.number(&[], link.full_copies)),
    },
    MetricFamily {
        name: "larder_replication_resumptions_total",
        kind: Counter,
        help: "Connections on which the replica resumed without a full copy.",
        read: |s, to| link(s).into_iter().for_each(|link| to.number(&[], link.resumptions)),
    },
];
