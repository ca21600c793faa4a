//! The table of metrics.
use super::{
    command_stats::CommandClass,
    histogram::{Distribution, HistogramSample},
    http_route::HttpRoute,
    metrics_snapshot::Snapshot,
    replication_snapshot::LinkSnapshot,
};
use MetricKind::{Counter, Gauge, Histogram, Info};
use larder_engine::{MissCauses, WhatIfSample};
use larder_store::disk::StoreStats;

/// A metric: a name and a number for each set of labels.
#[derive(Debug)]
pub struct MetricFamily {
    /// Its name in `/metrics`. In `/v1/stats` it goes by [`MetricFamily::key`].
    pub name: &'static str,
    /// What kind of number.
    pub kind: MetricKind,
    /// One sentence.
    pub help: &'static str,
    /// Reads the numbers.
    pub read: fn(&Snapshot, &mut dyn MetricSink),
}

/// Kinds of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations in buckets.
    Histogram,
    /// Always 1; what it says is in its labels.
    Info,
}

/// Names and values; `group` is the only label that `/v1/stats` turns inside out.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// Where the numbers of a family go.
pub trait MetricSink {
    /// A whole number.
    fn number(&mut self, labels: Labels<'_>, value: u64);
    /// A part of 1.
    fn ratio(&mut self, labels: Labels<'_>, value: f64) {
        self.seconds(labels, value);
    }
    /// A number of seconds.
    fn seconds(&mut self, labels: Labels<'_>, value: f64);
    /// Durations.
    fn histogram(&mut self, labels: Labels<'_>, value: &HistogramSample);
    /// The same of a distribution.
    fn distribution(&mut self, labels: Labels<'_>, value: &Distribution) {
        self.histogram(labels, &value.sample());
    }
}

impl MetricFamily {
    /// The name without the prefix of the program and the suffix of counters: `redis_commands`.
    pub fn key(&self) -> &'static str {
        let name = self.name.strip_prefix("larder_").unwrap_or(self.name);
        name.strip_suffix("_total").unwrap_or(name)
    }
}

/// A family with one number, read from the sums.
macro_rules! sum {
    ($name:literal, $field:ident, $help:literal) => {
        MetricFamily { name: $name, kind: Counter, help: $help, read: |s, to| to.number(&[], s.sums.$field) }
    };
}
/// A family with one number for each label's value, read from the sums.
macro_rules! sums {
    ($name:literal, $label:literal, [$($value:literal => $field:ident),*], $help:literal) => {
        MetricFamily {
            name: $name,
            kind: Counter,
            help: $help,
            read: |s, to| { $(to.number(&[($label, $value)], s.sums.$field);)* },
        }
    };
}
/// A family with one number for each group.
macro_rules! group {
    ($name:literal, $kind:ident, $($field:ident).+, $help:literal) => {
        MetricFamily {
            name: $name,
            kind: $kind,
            help: $help,
            read: |s, to| {
                for group in &s.groups {
                    to.number(&[("group", &group.name)], group.$($field).+.into());
                }
            },
        }
    };
}

/// The groups whose hit ratio at other sizes is simulated.
fn simulated(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &WhatIfSample)> {
    snapshot.groups.iter().filter_map(|group| Some((group.name.as_str(), group.what_if.as_ref()?)))
}

/// A family with one number for each group with a disk store.
macro_rules! store {
    ($name:literal, $kind:ident, $($field:ident).+, $help:literal) => {
        MetricFamily {
            name: $name,
            kind: $kind,
            help: $help,
            read: |s, to| {
                for (group, store) in stores(s) {
                    to.number(&[("group", group)], store.$($field).+.into());
                }
            },
        }
    };
}
/// The same, of seconds.
macro_rules! store_seconds {
    ($name:literal, $($field:ident).+, $help:literal) => {
        MetricFamily {
            name: $name,
            kind: Counter,
            help: $help,
            read: |s, to| {
                for (group, store) in stores(s) {
                    to.seconds(&[("group", group)], store.$($field).+.as_secs_f64());
                }
            },
        }
    };
}
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
/// A family with one number for each group whose keys have owners.
macro_rules! shared {
    ($name:literal, $kind:ident, $field:ident, $help:literal) => {
        MetricFamily {
            name: $name,
            kind: $kind,
            help: $help,
            read: |s, to| {
                for group in &s.groups {
                    if let Some(shared) = &group.shared {
                        to.number(&[("group", &group.name)], shared.$field);
                    }
                }
            },
        }
    };
}
fn stores(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &StoreStats)> {
    snapshot.groups.iter().filter_map(|group| Some((group.name.as_str(), group.store.as_ref()?)))
}

fn link(s: &Snapshot) -> Option<&LinkSnapshot> {
    s.replication.link.as_ref()
}

/// Every metric, in the order of the outputs.
pub const METRICS: &[MetricFamily] = &[
    MetricFamily {
        name: "larder_build_info",
        kind: Info,
        help: "The running version, the commit and the profile of its build.",
        read: |s, to| to.number(&[("version", s.version), ("commit", s.commit), ("profile", s.profile)], 1),
    },
    MetricFamily {
        name: "larder_uptime_seconds",
        kind: Gauge,
        help: "Time since the start.",
        read: |s, to| to.seconds(&[], s.uptime.as_secs_f64()),
    },
    MetricFamily {
        name: "larder_redis_commands_total",
        kind: Counter,
        help: "Redis commands carried out, by name; names that neither Larder nor Redis has are `other`.",
        read: |s, to| s.commands.iter().for_each(|of| to.number(&[("command", of.name)], of.calls)),
    },
    MetricFamily {
        name: "larder_redis_command_bytes_total",
        kind: Counter,
        help: "Bytes of Redis commands and their arguments (received) and of their replies (sent), by name.",
        read: |s, to| {
            for of in &s.commands {
                for (direction, bytes) in [("received", of.received), ("sent", of.sent)] {
                    to.number(&[("command", of.name), ("direction", direction)], bytes);
                }
            }
        },
    },
    MetricFamily {
        name: "larder_redis_command_errors_total",
        kind: Counter,
        help: "Redis commands that failed, or that were refused before they began (rejected), by name.",
        read: |s, to| {
            for of in &s.commands {
                for (result, count) in [("failed", of.failed), ("rejected", of.rejected)] {
                    if count > 0 {
                        to.number(&[("command", of.name), ("result", result)], count);
                    }
                }
            }
        },
    },
    MetricFamily {
        name: "larder_redis_command_duration_seconds",
        kind: Histogram,
        help: "Time from the beginning of a Redis command to its reply, by class of commands: read, write, forwarded and other.",
        read: |s, to| {
            for class in CommandClass::ALL {
                to.histogram(&[("class", class.name())], &class.sample(&s.commands));
            }
        },
    },
    MetricFamily {
        name: "larder_redis_errors_total",
        kind: Counter,
        help: "Error replies to Redis clients, by their first word; `source`: the source did not answer.",
        read: |s, to| {
            for (kind, count) in s.sums.redis_errors_by_kind() {
                to.number(&[("kind", kind)], count);
            }
        },
    },
    MetricFamily {
        name: "larder_tracking_clients",
        kind: Gauge,
        help: "Redis clients with CLIENT TRACKING on.",
        read: |s, to| to.number(&[], s.pushes.tracking_clients),
    },
    MetricFamily {
        name: "larder_tracking_keys",
        kind: Gauge,
        help: "Keys in the tracking table. With a Redis source, the table is in Redis.",
        read: |s, to| to.number(&[], s.pushes.tracked_keys),
    },
    sum!(
        "larder_tracking_invalidations_total",
        tracking_invalidations,
        "Invalidations sent to clients with CLIENT TRACKING on."
    ),
    MetricFamily {
        name: "larder_pubsub_subscribed",
        kind: Gauge,
        help: "Channels, patterns and shard channels with subscribers, of a Larder without a source.",
        read: |s, to| {
            for (kind, n) in ["channel", "pattern", "shard"].iter().zip(s.pushes.subscribed) {
                to.number(&[("kind", kind)], n);
            }
        },
    },
    sum!(
        "larder_pubsub_messages_total",
        pubsub_messages,
        "Published messages delivered to subscribers, counted per subscriber."
    ),
    MetricFamily {
        name: "larder_dropped_log_lines_total",
        kind: Counter,
        help: "Log lines dropped because standard error did not take them in time.",
        read: |s, to| to.number(&[], s.dropped_log_lines),
    },
    MetricFamily {
        name: "larder_backlog_cutoffs_total",
        kind: Counter,
        help: "Redis connections closed because undelivered push messages exceeded max-backlog.",
        read: |s, to| to.number(&[], s.pushes.cut_off),
    },
    MetricFamily {
        name: "larder_buffers_max_bytes",
        kind: Gauge,
        help: "Byte budget for all buffers together (max-buffers).",
        read: |s, to| to.number(&[], s.buffers.max_bytes),
    },
    MetricFamily {
        name: "larder_buffers_bytes",
        kind: Gauge,
        help: "Bytes of this budget in use, by kind: input, output, commands sent to a source (relayed), its values and replies (fetched), push messages, and values that left the memory tier while a client is still receiving them (lent).",
        read: |s, to| {
            for (kind, bytes) in &s.buffers.bytes {
                to.number(&[("kind", kind)], *bytes);
            }
        },
    },
    MetricFamily {
        name: "larder_buffers_cutoffs_total",
        kind: Counter,
        help: "Connections and requests closed because they held the most when the buffers reached max-buffers.",
        read: |s, to| {
            for (protocol, cut) in &s.buffers.cut {
                to.number(&[("protocol", protocol)], *cut);
            }
        },
    },
    MetricFamily {
        name: "larder_buffers_refusals_total",
        kind: Counter,
        help: "Bodies, replies and fetched values refused because they did not fit into max-buffers.",
        read: |s, to| to.number(&[], s.buffers.refused),
    },
    sums!(
        "larder_http_responses_total",
        "class",
        ["2xx" => http_responses_2xx, "3xx" => http_responses_3xx, "4xx" => http_responses_4xx, "5xx" => http_responses_5xx],
        "HTTP responses, by class of the status."
    ),
    MetricFamily {
        name: "larder_http_request_duration_seconds",
        kind: Histogram,
        help: "Time from reading an HTTP request's head to writing its response, by route as far as it had requests.",
        read: |s, to| {
            for (route, times) in HttpRoute::ALL.iter().zip(&s.http_times).filter(|(_, times)| times.count > 0) {
                to.distribution(&[("route", route.name())], times);
            }
        },
    },
    sums!(
        "larder_connections_opened_total",
        "protocol",
        ["http" => http_connections_opened, "redis" => redis_connections_opened],
        "Connections accepted."
    ),
    sums!(
        "larder_connections_closed_total",
        "protocol",
        ["http" => http_connections_closed, "redis" => redis_connections_closed],
        "Connections closed."
    ),
    MetricFamily {
        name: "larder_connections",
        kind: Gauge,
        help: "Open connections.",
        read: |s, to| {
            // The two counters are read one after the other: a connection that ends in between must not count
            // below zero.
            let open = |opened: u64, closed: u64| opened.saturating_sub(closed);
            let s = &s.sums;
            to.number(&[("protocol", "http")], open(s.http_connections_opened, s.http_connections_closed));
            to.number(&[("protocol", "redis")], open(s.redis_connections_opened, s.redis_connections_closed));
        },
    },
    MetricFamily {
        name: "larder_worker_connections",
        kind: Gauge,
        help: "Open connections, by the worker (core) that serves them.",
        read: |s, to| {
            for (id, open) in s.worker_connections.iter().enumerate() {
                to.number(&[("worker", &id.to_string())], *open);
            }
        },
    },
    sum!("larder_connections_refused_total", connections_refused, "Connections refused at max-connections."),
    sums!(
        "larder_received_bytes_total",
        "protocol",
        ["http" => http_bytes_in, "redis" => redis_bytes_in],
        "Bytes read from clients."
    ),
    sums!(
        "larder_sent_bytes_total",
        "protocol",
        ["http" => http_bytes_out, "redis" => redis_bytes_out],
        "Bytes written to clients."
    ),
    sums!(
        "larder_throttled_total",
        "protocol",
        ["http" => http_throttled, "redis" => redis_throttled],
        "Requests refused by the throttle."
    ),
    sums!(
        "larder_refused_total",
        "reason",
        ["login" => failed_logins, "rules" => user_refusals],
        "Failed logins, and commands that the user's rules refused."
    ),
    sums!(
        "larder_overload_refused_total",
        "work",
        ["http" => http_overloaded, "redis" => redis_overloaded, "fetch" => overloaded_fetches],
        "Requests, and fetches of misses, refused because requests waited longer than max-queue-delay."
    ),
    sums!(
        "larder_protocol_errors_total",
        "protocol",
        ["http" => http_protocol_errors, "redis" => redis_protocol_errors],
        "Connections closed because of a protocol error."
    ),
    sums!(
        "larder_cross_protocol_total",
        "request",
        ["http" => redis_foreign_http, "tls" => redis_foreign_tls, "proxy" => redis_foreign_proxy],
        "Redis connections closed because the client sent a request of another protocol."
    ),
    sums!(
        "larder_proxy_headers_total",
        "result",
        [
            "read" => proxy_headers_read,
            "missing" => proxy_headers_missing,
            "malformed" => proxy_headers_malformed,
            "timeout" => proxy_headers_timed_out
        ],
        "Connections of trusted proxies, by result of their PROXY header; all results except `read` closed the connection."
    ),
    sums!(
        "larder_tls_handshakes_total",
        "session",
        ["new" => tls_handshakes_full, "resumed" => tls_handshakes_resumed],
        "TLS handshakes that succeeded."
    ),
    sums!(
        "larder_tls_failed_handshakes_total",
        "reason",
        ["failed" => tls_failed_handshakes, "timeout" => tls_handshakes_timed_out, "not_tls" => tls_not_spoken],
        "TLS handshakes that failed."
    ),
    MetricFamily {
        name: "larder_tls_certificate_expiry_timestamp_seconds",
        kind: Gauge,
        help: "Expiry time of a certificate of the TLS listeners, in seconds since the Unix epoch.",
        read: |s, to| {
            for certificate in &s.tls.certificates {
                to.number(&[("file", &certificate.file)], certificate.ends);
            }
        },
    },
    MetricFamily {
        name: "larder_tls_reloads_total",
        kind: Counter,
        help: "Reloads of changed files of certificates, keys and authorities.",
        read: |s, to| {
            to.number(&[("result", "ok")], s.tls.reloads);
            to.number(&[("result", "refused")], s.tls.failed_reloads);
        },
    },
    MetricFamily {
        name: "larder_faults",
        kind: Gauge,
        help: "Faults in force that were ordered with POST /v1/faults.",
        read: |s, to| s.faults.active.iter().for_each(|(at, count)| to.number(&[("at", at)], *count)),
    },
    MetricFamily {
        name: "larder_faults_struck_total",
        kind: Counter,
        help: "Requests and connections that faults in force have delayed, failed or cut.",
        read: |s, to| s.faults.struck.iter().for_each(|(at, count)| to.number(&[("at", at)], *count)),
    },
    sum!("larder_panics_total", panics, "Connections closed by a panic."),
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
        read: |s, to| simulated(s).for_each(|(group, sample)| to.number(&[("group", group)], sample.bytes)),
    },
    MetricFamily {
        name: "larder_what_if_sampled_keys",
        kind: Gauge,
        help: "Keys that the what-if simulation holds now.",
        read: |s, to| simulated(s).for_each(|(group, sample)| to.number(&[("group", group)], sample.keys)),
    },
    MetricFamily {
        name: "larder_what_if_sampled_ratio",
        kind: Gauge,
        help: "Share of the keys that the what-if simulation takes.",
        read: |s, to| {
            for (group, sample) in simulated(s) {
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
    group!("larder_source_up", Gauge, source.up, "1 if the source can be reached."),
    group!("larder_source_fetches_total", Counter, source.fetches, "Keys fetched from the source."),
    group!(
        "larder_source_errors_total",
        Counter,
        source.errors,
        "Fetches that failed, and forwarded commands that the source did not answer."
    ),
    group!("larder_source_reconnects_total", Counter, source.reconnects, "Reconnections to the source."),
    group!(
        "larder_source_tracking_connections",
        Gauge,
        source.tracking,
        "Connections on which the source announces changes (tracking)."
    ),
    group!(
        "larder_source_untracked_connections",
        Gauge,
        source.untracked,
        "Connections on which the source refused to announce changes; values fetched on them are not cached."
    ),
    group!(
        "larder_source_invalidations_total",
        Counter,
        source.invalidations,
        "Invalidations from the source; a flush of all keys counts as one."
    ),
    group!(
        "larder_source_tracking_losses_total",
        Counter,
        source.tracking_losses,
        "Lost tracking connections; after each, no copy counts as fresh."
    ),
    group!("larder_table_entries", Gauge, source.table.entries, "Entries of the group's table; 0 for other sources."),
    group!("larder_table_bytes", Gauge, source.table.bytes, "Bytes of the table's file."),
    group!("larder_table_swaps_total", Counter, source.table.swaps, "Tables that replaced another."),
    group!(
        "larder_table_refused_total",
        Counter,
        source.table.refused,
        "New files that were not valid tables; the old table stays."
    ),
    group!("larder_source_in_flight", Gauge, source.in_flight, "Fetches in flight."),
    group!("larder_source_waiting", Gauge, source.admission.waiting, "Fetches waiting for their turn."),
    group!(
        "larder_source_limit",
        Gauge,
        source.admission.limit,
        "Current limit of fetches in flight at the source's server (source-adaptive)."
    ),
    MetricFamily {
        name: "larder_source_circuit",
        kind: Gauge,
        help: "1 for the current state of the source's circuit breaker (source-breaker).",
        read: |s, to| {
            for group in &s.groups {
                for (state, is_now) in group.source.admission.circuit.iter().flatten() {
                    to.number(&[("group", &group.name), ("state", state)], u64::from(*is_now));
                }
            }
        },
    },
    group!(
        "larder_source_circuit_opened_total",
        Counter,
        source.admission.opened,
        "Times that the circuit opened, including failed probes."
    ),
    MetricFamily {
        name: "larder_source_rejected_total",
        kind: Counter,
        help: "Fetches that failed without being sent, because the circuit was open, the limit was reached, or a background renewal yielded.",
        read: |s, to| {
            for group in &s.groups {
                let admission = &group.source.admission;
                for (reason, count) in [
                    ("circuit", admission.rejected_circuit),
                    ("limit", admission.rejected_limit),
                    ("background", admission.rejected_background),
                ] {
                    to.number(&[("group", &group.name), ("reason", reason)], count);
                }
            }
        },
    },
    group!("larder_source_retries_total", Counter, source.admission.retries, "Fetches that were retried."),
    group!(
        "larder_source_retries_denied_total",
        Counter,
        source.admission.retries_denied,
        "Fetches not retried, because retries exceeded a tenth of the fetches."
    ),
    MetricFamily {
        name: "larder_source_fetch_duration_seconds",
        kind: Histogram,
        help: "Duration of fetches from the source, including failed ones.",
        read: |s, to| {
            for group in &s.groups {
                to.distribution(&[("group", &group.name)], &group.source.seconds);
            }
        },
    },
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
    shared!("larder_peer_fetches_total", Counter, fetches, "Fetches started, from another node or from the source."),
    shared!("larder_peer_answers_total", Counter, loads, "Fetches that another node answered, including absences."),
    shared!(
        "larder_peer_errors_total",
        Counter,
        errors,
        "Requests to another node without an answer, or with an error."
    ),
    shared!(
        "larder_peer_fallbacks_total",
        Counter,
        fallbacks,
        "Fetches from the source for keys whose owner could not be reached."
    ),
    shared!(
        "larder_peer_passed_on_total",
        Counter,
        passed_on,
        "Reads sent to another node because the key's owner was busy (peer-bounded-load)."
    ),
    shared!("larder_peer_requests_total", Counter, requests, "Reads from other nodes."),
    shared!("larder_peer_other_ring_total", Counter, other_rings, "Reads from nodes whose ring has another epoch."),
    shared!(
        "larder_hot_copies_kept_total",
        Counter,
        hot_copies_kept,
        "Hot copies stored: copies of other nodes' keys."
    ),
    shared!(
        "larder_hot_copies",
        Gauge,
        hot_copies,
        "Hot copies that have not expired; copies removed or evicted early still count."
    ),
    shared!(
        "larder_hot_copy_bytes",
        Gauge,
        hot_copy_bytes,
        "Bytes of keys and values of hot copies that have not expired."
    ),
    store!("larder_store_poisoned", Gauge, poisoned, "1 if the disk store refuses writes after a failed write."),
    store!("larder_store_writes_total", Counter, writes, "Writes to the disk store."),
    store!("larder_store_batches_total", Counter, batches, "Batches of writes, each with at most one sync."),
    store!("larder_store_written_bytes_total", Counter, bytes, "Bytes of keys and values written."),
    store!(
        "larder_store_table_bytes_total",
        Counter,
        table_bytes,
        "Bytes of table files that flushes and compactions wrote. Divided by larder_store_written_bytes_total, plus one for the journal, this is the write amplification."
    ),
    store!("larder_store_syncs_total", Counter, syncs, "Syncs of the journal."),
    store!(
        "larder_store_in_place_writes_total",
        Counter,
        in_place,
        "Writes that workers made themselves, without the committer thread."
    ),
    store!(
        "larder_store_in_place_pauses_total",
        Counter,
        in_place_pauses,
        "Writes of workers that took over 1 ms. For 50 times as long (at most 10 s), only the committer thread writes."
    ),
    store!(
        "larder_store_in_place_reads_total",
        Counter,
        cached_reads,
        "Reads of the disk store that workers answered from its memtable and block cache, without a reader thread."
    ),
    store!(
        "larder_store_stalls_total",
        Counter,
        stalls,
        "Batches held back because flushes or compactions were behind."
    ),
    store_seconds!("larder_store_stalled_seconds_total", stalled, "Time that batches were held back."),
    MetricFamily {
        name: "larder_store_tables",
        kind: Gauge,
        help: "Table files, by level.",
        read: |s, to| {
            for (group, store) in stores(s) {
                for (level, tables) in store.tree.tables.iter().enumerate() {
                    to.number(&[("group", group), ("level", &level.to_string())], *tables);
                }
            }
        },
    },
    store!("larder_store_level0_runs", Gauge, tree.level0_runs, "Runs of level 0; from 8 on, writes are slowed down."),
    store!("larder_store_sealed_memtables", Gauge, tree.sealed_memtables, "Memtables waiting to be flushed."),
    store!("larder_store_memtable_bytes", Gauge, tree.memtable_bytes, "Bytes of all memtables (store-write-buffer)."),
    store!(
        "larder_store_block_cache_bytes",
        Gauge,
        tree.block_cache_bytes,
        "Bytes of the block cache (store-block-cache)."
    ),
    store!("larder_store_journals", Gauge, tree.journals, "Journals on disk."),
    store!("larder_store_disk_bytes", Gauge, tree.disk_bytes, "Bytes on disk, including journals."),
    store!("larder_store_compactions_running", Gauge, tree.compactions_running, "Running compactions."),
    store!("larder_store_compactions_total", Counter, tree.compactions, "Completed compaction checks."),
    store_seconds!("larder_store_compaction_seconds_total", tree.compacting, "Time spent in compactions."),
    store!("larder_store_expired_total", Counter, tree.expired, "Expired entries that compaction dropped."),
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
        help: "1 while the replica receives its primary's changes.",
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
    // The names that every Prometheus client library gives these.
    MetricFamily {
        name: "process_resident_memory_bytes",
        kind: Gauge,
        help: "Resident memory.",
        read: |s, to| to.number(&[], s.process.resident_bytes),
    },
    MetricFamily {
        name: "process_virtual_memory_bytes",
        kind: Gauge,
        help: "Virtual memory.",
        read: |s, to| to.number(&[], s.process.virtual_bytes),
    },
    MetricFamily {
        name: "process_cpu_seconds_total",
        kind: Counter,
        help: "CPU time, user and system.",
        read: |s, to| to.seconds(&[], s.process.cpu_user + s.process.cpu_system),
    },
    MetricFamily {
        name: "process_open_fds",
        kind: Gauge,
        help: "Open files, including connections.",
        read: |s, to| to.number(&[], s.process.open_files),
    },
    MetricFamily {
        name: "process_threads",
        kind: Gauge,
        help: "Threads.",
        read: |s, to| to.number(&[], s.process.threads),
    },
    MetricFamily {
        name: "process_start_time_seconds",
        kind: Gauge,
        help: "Start time, in seconds since the Unix epoch.",
        read: |s, to| to.seconds(&[], s.started.as_secs_f64()),
    },
];
