//! Mirrors of sources.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge},
};
use crate::telemetry::metrics_snapshot::{MirrorSnapshot, Snapshot};

/// A family with one number for each group with a mirror.
macro_rules! mirror {
    ($name:literal, $kind:ident, $field:ident, $help:literal) => {
        MetricFamily {
            name: $name,
            kind: $kind,
            help: $help,
            read: |s, to| {
                for (group, mirror) in mirrors(s) {
                    to.number(&[("group", group)], mirror.$field);
                }
            },
        }
    };
}

fn mirrors(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &MirrorSnapshot)> {
    snapshot.groups.iter().filter_map(|group| Some((group.name.as_str(), group.mirror.as_ref()?)))
}

pub(super) const MIRROR: &[MetricFamily] = &[
    MetricFamily {
        name: "larder_mirror_state",
        kind: Gauge,
        help: "1 for the current state of the source's mirror (mirror): filling, in-step, failing or refused.",
        read: |s, to| {
            for (group, mirror) in mirrors(s) {
                for (state, is_now) in mirror.states {
                    to.number(&[("group", group), ("state", state)], u64::from(is_now));
                }
            }
        },
    },
    mirror!("larder_mirror_queued", Gauge, queued, "Changed keys that wait to be compared with the mirror."),
    mirror!("larder_mirror_scanned_total", Counter, scanned, "Keys that were compared in walks over all keys."),
    mirror!("larder_mirror_copied_total", Counter, copied, "Keys that were written to the mirror, or deleted there."),
    mirror!(
        "larder_mirror_different_total",
        Counter,
        different,
        "Keys that differed after they were copied, and were copied again: something else changes the mirror."
    ),
    mirror!("larder_mirror_left_out_total", Counter, left_out, "Entries that the mirror cannot keep."),
    mirror!(
        "larder_mirror_forgotten_total",
        Counter,
        forgotten,
        "Changed keys whose names had no room in the queue. All keys are compared again."
    ),
    mirror!("larder_mirror_errors_total", Counter, errors, "Attempts that failed at the source or at its mirror."),
];
