//! The memory tier, what it missed, and how its hits were inspected.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge, Histogram},
};
use larder_engine::MissCauses;

pub(super) const MEMORY_TIER: &[MetricFamily] = &[
    group!("larder_cache_hits_total", Counter, cache.hits, "Reads answered from the memory tier."),
    group!("larder_cache_misses_total", Counter, cache.misses, "Reads that found no entry."),
    MetricFamily {
        name: "larder_cache_miss_causes_total",
        kind: Counter,
        help: "Misses by cause, as far as it is remembered.",
        read: |s, to| {
            for group in &s.groups {
                let MissCauses { unknown, expired, evicted, invalidated, too_large, not_kept, in_flight, reply } =
                    group.cache.miss_causes;
                for (cause, count) in [
                    ("unknown", unknown),
                    ("expired", expired),
                    ("evicted", evicted),
                    ("invalidated", invalidated),
                    ("too_large", too_large),
                    ("not_cacheable", not_kept),
                    ("in_flight", in_flight),
                    ("reply", reply),
                ] {
                    to.number(&[("group", &group.name), ("cause", cause)], count);
                }
            }
        },
    },
    group!("larder_cache_negative_hits_total", Counter, cache.negative_hits, "Reads answered by a cached absence."),
    group!(
        "larder_cache_stale_hits_total",
        Counter,
        cache.stale_hits,
        "Reads answered at once with a stale copy; also counted as hits."
    ),
    group!(
        "larder_cache_stale_fetches_total",
        Counter,
        cache.stale_fetches,
        "Reads answered with a stale copy because the fetch failed or took too long."
    ),
    group!(
        "larder_cache_reply_hits_total",
        Counter,
        cache.derived_hits,
        "Commands answered by a cached reply (cache-replies); also counted in larder_cache_hits_total."
    ),
    group!("larder_mode_rules", Gauge, modes.rules, "Rules of `mode`, except the rule that every key is cached."),
    group!(
        "larder_observed_hits_total",
        Counter,
        modes.observed_hits,
        "Reads in mode `observe` that the memory tier could have answered; also counted in larder_cache_hits_total."
    ),
    group!(
        "larder_observed_hit_bytes_total",
        Counter,
        modes.observed_hit_bytes,
        "Bytes of the values and replies that the memory tier had for these reads."
    ),
    group!(
        "larder_observed_misses_total",
        Counter,
        modes.observed_misses,
        "Reads in mode `observe` that the memory tier could not have answered."
    ),
    group!("larder_denied_reads_total", Counter, modes.denied_reads, "Reads in mode `deny`."),
    group!("larder_inspected_total", Counter, inspection.compared, "Sampled hits compared with the source (inspect)."),
    group!(
        "larder_inspected_older_total",
        Counter,
        inspection.older,
        "Compared hits whose copy was older than the source's value a moment later."
    ),
    group!(
        "larder_inspected_forgotten_total",
        Counter,
        inspection.forgotten,
        "Sampled hits not compared because the copy was removed or replaced meanwhile."
    ),
    group!(
        "larder_inspected_skipped_total",
        Counter,
        inspection.skipped,
        "Sampled hits not compared because the source did not answer."
    ),
    MetricFamily {
        name: "larder_inspected_older_age_seconds",
        kind: Histogram,
        help: "Age of the older copies when they were served.",
        read: |s, to| {
            for group in &s.groups {
                to.distribution(&[("group", &group.name)], &group.inspection.ages);
            }
        },
    },
    group!(
        "larder_cache_changes_total",
        Counter,
        cache.changes,
        "Writes, fills (including absences), deletes, and cleared entries."
    ),
    group!("larder_cache_insertions_total", Counter, cache.insertions, "Entries stored under a new key."),
    group!("larder_cache_evictions_total", Counter, cache.evictions, "Entries removed to make room."),
    group!("larder_cache_expirations_total", Counter, cache.expirations, "Entries removed because they expired."),
    group!(
        "larder_cache_fenced_fills_total",
        Counter,
        cache.fenced_fills,
        "Fetched values not stored, because a write, delete or invalidation overtook them."
    ),
    group!("larder_cache_tag_clears_total", Counter, cache.tag_clears, "Clears by tag."),
    group!("larder_cache_entries", Gauge, cache.entries, "Entries in the memory tier."),
    group!(
        "larder_cache_expiring_entries",
        Gauge,
        cache.expiring_entries,
        "Entries with an expiry, including cached absences."
    ),
    group!("larder_cache_negative_entries", Gauge, cache.negative_entries, "Cached absences."),
    MetricFamily {
        name: "larder_what_if_bytes",
        kind: Gauge,
        help: "Memory of the what-if simulation, which max-memory does not count; none if it is off.",
        read: |s, to| {
            s.parts(|group| group.what_if.as_ref())
                .for_each(|(group, sample)| to.number(&[("group", group)], sample.bytes))
        },
    },
    MetricFamily {
        name: "larder_what_if_sampled_keys",
        kind: Gauge,
        help: "Keys that the what-if simulation holds now.",
        read: |s, to| {
            s.parts(|group| group.what_if.as_ref())
                .for_each(|(group, sample)| to.number(&[("group", group)], sample.keys))
        },
    },
    MetricFamily {
        name: "larder_what_if_sampled_ratio",
        kind: Gauge,
        help: "Share of the keys that the what-if simulation takes.",
        read: |s, to| {
            for (group, sample) in s.parts(|group| group.what_if.as_ref()) {
                to.ratio(&[("group", group)], sample.share);
            }
        },
    },
    group!("larder_cache_flights", Gauge, cache.flights, "Flights: keys that are being fetched."),
    group!("larder_cache_max_bytes", Gauge, cache.max_bytes, "Byte budget of the memory tier (max-memory)."),
    group!(
        "larder_cache_shrink_bytes",
        Gauge,
        cache.shrink_bytes,
        "Bytes that the memory tier has still to free because max-memory was lowered."
    ),
    group!("larder_cache_used_bytes", Gauge, cache.used_bytes, "Bytes of the memory tier in use."),
    group!("larder_cache_live_bytes", Gauge, cache.live_bytes, "Bytes that live entries occupy."),
    group!("larder_cache_index_bytes", Gauge, cache.index_bytes, "Bytes of the index."),
    group!("larder_cache_ghost_bytes", Gauge, cache.ghost_bytes, "Bytes of the ghost: fingerprints of evicted keys."),
    group!("larder_cache_wheel_bytes", Gauge, cache.wheel_bytes, "Bytes of the timing wheel."),
    group!("larder_cache_tags", Gauge, cache.tags, "Tags of entries, counted once per shard."),
    group!(
        "larder_cache_tag_bytes",
        Gauge,
        cache.tag_bytes,
        "Bytes of the table of tags, without the four in each entry."
    ),
    group!("larder_cache_segment_bytes", Gauge, cache.segment_bytes, "Bytes of the log's segments."),
    group!(
        "larder_cache_large_bytes",
        Gauge,
        cache.large_bytes,
        "Bytes of large values, each with its own allocation."
    ),
];
