//! Snapshots of the memory tier.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge},
};

/// A family with one number for the last save that succeeded, if there was one.
macro_rules! last_save {
    ($name:literal, $how:ident, $field:ident $(.$method:ident())?, $help:literal) => {
        MetricFamily {
            name: $name,
            kind: Gauge,
            help: $help,
            read: |s, to| s.saves.last.iter().for_each(|last| to.$how(&[], last.$field$(.$method())?)),
        }
    };
}

pub(super) const SNAPSHOTS: &[MetricFamily] = &[
    MetricFamily {
        name: "larder_snapshot_in_progress",
        kind: Gauge,
        help: "1 while a snapshot is being written.",
        read: |s, to| to.number(&[], u64::from(s.saves.in_progress)),
    },
    MetricFamily {
        name: "larder_snapshot_saves_total",
        kind: Counter,
        help: "Snapshots written.",
        read: |s, to| to.number(&[], s.saves.saves),
    },
    MetricFamily {
        name: "larder_snapshot_failures_total",
        kind: Counter,
        help: "Snapshots that failed.",
        read: |s, to| to.number(&[], s.saves.failures),
    },
    MetricFamily {
        name: "larder_snapshot_changes",
        kind: Gauge,
        help: "Writes, fills and deletes since the start of the last snapshot written.",
        read: |s, to| to.number(&[], s.saves.changes),
    },
    last_save!(
        "larder_snapshot_last_success_timestamp_seconds",
        seconds,
        at.as_secs_f64(),
        "Time of the last snapshot, in seconds since the Unix epoch."
    ),
    last_save!("larder_snapshot_last_duration_seconds", seconds, took.as_secs_f64(), "Duration of the last snapshot."),
    last_save!("larder_snapshot_last_entries", number, entries, "Entries of the last snapshot."),
    last_save!("larder_snapshot_last_bytes", number, bytes, "Size of the last snapshot."),
    MetricFamily {
        name: "larder_snapshot_unverified",
        kind: Gauge,
        help: "Restored entries waiting to be read from their source again (restore-verify-rate).",
        read: |s, to| s.saves.verification.iter().for_each(|of| to.number(&[], of.left)),
    },
    MetricFamily {
        name: "larder_snapshot_verified_total",
        kind: Counter,
        help: "Restored entries read from their source again, by result: same value, another, none; overtaken: a client asked for the key first.",
        read: |s, to| {
            if let Some(of) = &s.saves.verification {
                for (found, count) in
                    [("same", of.same), ("changed", of.changed), ("gone", of.gone), ("overtaken", of.overtaken)]
                {
                    to.number(&[("found", found)], count);
                }
            }
        },
    },
];
