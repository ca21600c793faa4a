//! Mirrors of sources.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge},
};

pub(super) const MIRROR: &[MetricFamily] = &[
    MetricFamily {
        name: "larder_mirror_state",
        kind: Gauge,
        help: "1 for the current state of the source's mirror (mirror): filling, in-step, failing or refused.",
        read: |s, to| {
            for (group, mirror) in s.parts(|group| group.mirror.as_ref()) {
                for (state, is_now) in mirror.states {
                    to.number(&[("group", group), ("state", state)], u64::from(is_now));
                }
            }
        },
    },
    part!(mirror, "larder_mirror_queued", Gauge, queued, "Changed keys that wait to be compared with the mirror."),
    part!(mirror, "larder_mirror_scanned_total", Counter, scanned, "Keys that were compared in walks over all keys."),
    part!(
        mirror,
        "larder_mirror_copied_total",
        Counter,
        copied,
        "Keys that were written to the mirror, or deleted there."
    ),
    part!(
        mirror,
        "larder_mirror_different_total",
        Counter,
        different,
        "Keys that differed after they were copied, and were copied again: something else changes the mirror."
    ),
    part!(mirror, "larder_mirror_left_out_total", Counter, left_out, "Entries that the mirror cannot keep."),
    part!(
        mirror,
        "larder_mirror_forgotten_total",
        Counter,
        forgotten,
        "Changed keys whose names had no room in the queue. All keys are compared again."
    ),
    part!(
        mirror,
        "larder_mirror_errors_total",
        Counter,
        errors,
        "Attempts that failed at the source or at its mirror."
    ),
];
