//! The table of metrics.
use super::{histogram::Distribution, metrics_snapshot::Snapshot, replication_snapshot::LinkSnapshot};
use MetricKind::{Counter, Gauge, Histogram, Info};
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
    fn distribution(&mut self, labels: Labels<'_>, value: &Distribution);
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
        help: "The running version.",
        read: |s, to| to.number(&[("version", s.version)], 1),
    },
    MetricFamily {
        name: "larder_uptime_seconds",
        kind: Gauge,
        help: "Time since the start.",
        read: |s, to| to.seconds(&[], s.uptime.as_secs_f64()),
    },
    sum!("larder_redis_commands_total", redis_commands, "Redis commands carried out."),
    sum!("larder_redis_errors_total", redis_errors, "Error replies to Redis clients."),
    MetricFamily {
        name: "larder_tracking_clients",
        kind: Gauge,
        help: "Redis clients that track what they read (CLIENT TRACKING).",
        read: |s, to| to.number(&[], s.pushes.tracking_clients),
    },
    MetricFamily {
        name: "larder_tracking_keys",
        kind: Gauge,
        help: "Keys that Larder remembers for clients that track. With a Redis source it is Redis that remembers them.",
        read: |s, to| to.number(&[], s.pushes.tracked_keys),
    },
    sum!("larder_tracking_invalidations_total", tracking_invalidations, "Invalidations told to clients that track."),
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
    sum!("larder_pubsub_messages_total", pubsub_messages, "Messages of channels told to subscribers, once for each."),
    MetricFamily {
        name: "larder_backlog_cutoffs_total",
        kind: Counter,
        help: "Redis clients cut off because they left more than max-backlog unread.",
        read: |s, to| to.number(&[], s.pushes.cut_off),
    },
    MetricFamily {
        name: "larder_buffers_max_bytes",
        kind: Gauge,
        help: "Bound on all buffers together (max-buffers).",
        read: |s, to| to.number(&[], s.buffers.max_bytes),
    },
    MetricFamily {
        name: "larder_buffers_bytes",
        kind: Gauge,
        help: "Bytes of the bound in use, by kind: input, output, commands on their way to a source (relayed), its values and replies (fetched), push messages, and values that have left the memory tier while a client still takes them (lent).",
        read: |s, to| {
            for (kind, bytes) in &s.buffers.bytes {
                to.number(&[("kind", kind)], *bytes);
            }
        },
    },
    MetricFamily {
        name: "larder_buffers_cutoffs_total",
        kind: Counter,
        help: "Connections and requests cut off because they held the most when all buffers together reached max-buffers.",
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
        "HTTP requests answered, by the class of the status."
    ),
    MetricFamily {
        name: "larder_http_request_duration_seconds",
        kind: Histogram,
        help: "From an HTTP request's head read to its answer written. Plain GETs answered at once from the memory tier are not timed.",
        read: |s, to| to.distribution(&[], &s.http_seconds),
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
        "Connections ended."
    ),
    MetricFamily {
        name: "larder_connections",
        kind: Gauge,
        help: "Connections open now.",
        read: |s, to| {
            // The two counters are read one after the other: a connection that ends in between must not count below zero.
            let open = |opened: u64, closed: u64| opened.saturating_sub(closed);
            let s = &s.sums;
            to.number(&[("protocol", "http")], open(s.http_connections_opened, s.http_connections_closed));
            to.number(&[("protocol", "redis")], open(s.redis_connections_opened, s.redis_connections_closed));
        },
    },
    MetricFamily {
        name: "larder_worker_connections",
        kind: Gauge,
        help: "Connections open now, by the worker (core) that serves them.",
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
        "Logins that failed, and commands that the rules of their user refused."
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
        "Connections closed because what came was not their protocol."
    ),
    sums!(
        "larder_cross_protocol_total",
        "request",
        ["http" => redis_foreign_http, "tls" => redis_foreign_tls, "proxy" => redis_foreign_proxy],
        "Redis connections closed because a request of another protocol arrived."
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
        "Connections of trusted proxies by what became of their PROXY header; all but those with `read` were closed."
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
        "TLS handshakes that did not succeed."
    ),
    MetricFamily {
        name: "larder_tls_certificate_expiry_timestamp_seconds",
        kind: Gauge,
        help: "When a certificate of the TLS listeners expires, seconds since the Unix epoch.",
        read: |s, to| {
            for certificate in &s.tls.certificates {
                to.number(&[("file", &certificate.file)], certificate.ends);
            }
        },
    },
    MetricFamily {
        name: "larder_tls_reloads_total",
        kind: Counter,
        help: "Times that changed files of certificates, keys and authorities were read again.",
        read: |s, to| {
            to.number(&[("result", "ok")], s.tls.reloads);
            to.number(&[("result", "refused")], s.tls.failed_reloads);
        },
    },
    sum!("larder_panics_total", panics, "Connections that a panic ended."),
    group!("larder_cache_hits_total", Counter, cache.hits, "Reads answered from the memory tier."),
    group!("larder_cache_misses_total", Counter, cache.misses, "Reads that found no entry."),
    group!("larder_cache_negative_hits_total", Counter, cache.negative_hits, "Reads answered by a remembered absence."),
    group!(
        "larder_cache_stale_hits_total",
        Counter,
        cache.stale_hits,
        "Reads answered at once with something out of date; also counted as hits."
    ),
    group!(
        "larder_cache_stale_fetches_total",
        Counter,
        cache.stale_fetches,
        "Fetches that failed or took too long and were answered with something out of date."
    ),
    group!(
        "larder_cache_reply_hits_total",
        Counter,
        cache.derived_hits,
        "Commands answered by a whole reply that was kept (cache-replies); larder_cache_hits_total has them as well."
    ),
    group!("larder_mode_rules", Gauge, modes.rules, "Rules of `mode` other than that every key is cached."),
    group!(
        "larder_observed_hits_total",
        Counter,
        modes.observed_hits,
        "Reads in mode `observe` that the memory tier could have answered; larder_cache_hits_total has them as well."
    ),
    group!(
        "larder_observed_hit_bytes_total",
        Counter,
        modes.observed_hit_bytes,
        "Bytes of the values and replies that it had for them."
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
        "Of them, those whose copy was older than what the source had a moment later."
    ),
    group!(
        "larder_inspected_forgotten_total",
        Counter,
        inspection.forgotten,
        "Sampled hits whose copy the tier had forgotten or replaced meanwhile; not compared."
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
        help: "How long the older copies had been kept when they were served.",
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
        "Writes, fills (of absences too) and deletes, and entries that were cleared."
    ),
    group!("larder_cache_insertions_total", Counter, cache.insertions, "Entries stored under a key that had none."),
    group!("larder_cache_evictions_total", Counter, cache.evictions, "Entries removed to make room."),
    group!(
        "larder_cache_expirations_total",
        Counter,
        cache.expirations,
        "Entries removed because their time was over."
    ),
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
        "Entries with an expiry, remembered absences included."
    ),
    group!("larder_cache_negative_entries", Gauge, cache.negative_entries, "Remembered absences."),
    group!("larder_cache_flights", Gauge, cache.flights, "Keys being fetched now."),
    group!("larder_cache_max_bytes", Gauge, cache.max_bytes, "Bound on the memory tier (max-memory)."),
    group!("larder_cache_used_bytes", Gauge, cache.used_bytes, "Bytes of the bound in use."),
    group!("larder_cache_live_bytes", Gauge, cache.live_bytes, "Bytes that live entries occupy."),
    group!("larder_cache_index_bytes", Gauge, cache.index_bytes, "Bytes of the index."),
    group!("larder_cache_ghost_bytes", Gauge, cache.ghost_bytes, "Bytes of the memory of evicted keys."),
    group!("larder_cache_wheel_bytes", Gauge, cache.wheel_bytes, "Bytes of the timing wheel."),
    group!(
        "larder_cache_tags",
        Gauge,
        cache.tags,
        "Tags that entries carry, each counted once in every shard of the tier where an entry carries it."
    ),
    group!(
        "larder_cache_tag_bytes",
        Gauge,
        cache.tag_bytes,
        "Bytes of the tags that entries carry, besides four in each entry."
    ),
    group!("larder_cache_segment_bytes", Gauge, cache.segment_bytes, "Bytes of the log's segments."),
    group!("larder_cache_large_bytes", Gauge, cache.large_bytes, "Bytes of values with an allocation of their own."),
    group!("larder_source_up", Gauge, source.up, "1 if the source can be reached."),
    group!("larder_source_fetches_total", Counter, source.fetches, "Keys asked of the source."),
    group!("larder_source_errors_total", Counter, source.errors, "Fetches that ended in an error."),
    group!("larder_source_reconnects_total", Counter, source.reconnects, "Reconnections to the source."),
    group!(
        "larder_source_tracking_connections",
        Gauge,
        source.tracking,
        "Connections on which the source announces changes (coherence)."
    ),
    group!(
        "larder_source_untracked_connections",
        Gauge,
        source.untracked,
        "Connections on which the source was asked to announce changes and refused: what they fetch is not kept."
    ),
    group!(
        "larder_source_invalidations_total",
        Counter,
        source.invalidations,
        "Changes announced by the source; that of all keys counts as one."
    ),
    group!(
        "larder_source_tracking_losses_total",
        Counter,
        source.tracking_losses,
        "Connections with announcements lost; after each nothing counts as fresh."
    ),
    group!("larder_table_entries", Gauge, source.table.entries, "Entries of the group's table; 0 for other sources."),
    group!("larder_table_bytes", Gauge, source.table.bytes, "Bytes of the table's file."),
    group!("larder_table_swaps_total", Counter, source.table.swaps, "Tables that took another's place."),
    group!(
        "larder_table_refused_total",
        Counter,
        source.table.refused,
        "New files that were no sound tables: the old one stays."
    ),
    group!("larder_source_in_flight", Gauge, source.in_flight, "Fetches under way."),
    group!("larder_source_waiting", Gauge, source.admission.waiting, "Fetches that wait until fewer are under way."),
    group!(
        "larder_source_limit",
        Gauge,
        source.admission.limit,
        "Fetches that may be under way at the source's server now (source-adaptive)."
    ),
    MetricFamily {
        name: "larder_source_circuit",
        kind: Gauge,
        help: "1 for the state that the source's circuit breaker is in (source-breaker).",
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
        "How often the circuit opened, failed probes included."
    ),
    MetricFamily {
        name: "larder_source_rejected_total",
        kind: Counter,
        help: "Fetches that failed without being sent: the circuit was open, the limit was reached, or a renewal in the background gave way.",
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
    group!("larder_source_retries_total", Counter, source.admission.retries, "Fetches sent a second time."),
    group!(
        "larder_source_retries_denied_total",
        Counter,
        source.admission.retries_denied,
        "Fetches not sent a second time, because more than a tenth were."
    ),
    MetricFamily {
        name: "larder_source_fetch_duration_seconds",
        kind: Histogram,
        help: "From a fetch handed to the source to its end, failed ones included.",
        read: |s, to| {
            for group in &s.groups {
                to.distribution(&[("group", &group.name)], &group.source.seconds);
            }
        },
    },
    MetricFamily {
        name: "larder_peers",
        kind: Gauge,
        help: "Nodes on the ring, this one included; 0 if it shares nothing.",
        read: |s, to| to.number(&[], s.peers.nodes),
    },
    node!(
        "larder_peer_reachable",
        Gauge,
        reachable,
        "1 if the latest attempt to reach the node did not fail; of `other`, how many such nodes."
    ),
    MetricFamily {
        name: "larder_peer_ring_share",
        kind: Gauge,
        help: "The part of the ring that the node owns; together they are 1.",
        read: |s, to| {
            for node in &s.peers.named {
                to.ratio(&[("peer", &node.name)], node.share);
            }
        },
    },
    node!("larder_peer_reads_total", Counter, reads, "Reads that this node asked of the node."),
    node!("larder_peer_failed_reads_total", Counter, failed_reads, "Of them, those that it did not answer."),
    node!(
        "larder_peer_changes_total",
        Counter,
        changes,
        "Changes and removals that this node told the node of; telling it again does not count."
    ),
    node!(
        "larder_peer_failed_changes_total",
        Counter,
        failed_changes,
        "Of them, those that it did not hear of at the first attempt."
    ),
    node!("larder_peer_untold_changes", Gauge, untold, "Changes that the node has not heard of yet: it is told again."),
    shared!("larder_peer_fetches_total", Counter, fetches, "Fetches begun, from another node or from the source."),
    shared!(
        "larder_peer_answers_total",
        Counter,
        loads,
        "Of them, those that another node answered, be it that there is no such key."
    ),
    shared!(
        "larder_peer_errors_total",
        Counter,
        errors,
        "Attempts to ask another node that brought no answer, or its failure."
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
        "Reads that went to another node because much was under way at the key's owner (peer-bounded-load)."
    ),
    shared!("larder_peer_requests_total", Counter, requests, "Reads that other nodes asked of this one."),
    shared!(
        "larder_peer_other_ring_total",
        Counter,
        other_rings,
        "Of them, those of nodes whose ring has another epoch."
    ),
    shared!("larder_hot_copies_kept_total", Counter, hot_copies_kept, "Copies of other nodes' keys that were kept."),
    shared!(
        "larder_hot_copies",
        Gauge,
        hot_copies,
        "Of them, those whose life is not over; one that was removed or evicted early still counts."
    ),
    shared!("larder_hot_copy_bytes", Gauge, hot_copy_bytes, "Bytes of their keys and values."),
    store!("larder_store_poisoned", Gauge, poisoned, "1 if the disk store takes no more writes, because one failed."),
    store!("larder_store_writes_total", Counter, writes, "Writes that the disk store was handed."),
    store!(
        "larder_store_batches_total",
        Counter,
        batches,
        "Batches that they were written in, each with at most one sync."
    ),
    store!("larder_store_written_bytes_total", Counter, bytes, "Keys and values that were written."),
    store!(
        "larder_store_table_bytes_total",
        Counter,
        table_bytes,
        "Bytes of the tables that flushes and compactions made; over larder_store_written_bytes_total, plus one for the journal, the write amplification."
    ),
    store!("larder_store_syncs_total", Counter, syncs, "Syncs of the journal."),
    store!(
        "larder_store_stalls_total",
        Counter,
        stalls,
        "Batches held back because flushes or compactions were behind."
    ),
    store_seconds!("larder_store_stalled_seconds_total", stalled, "How long they were held back."),
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
    store!("larder_store_level0_runs", Gauge, tree.level0_runs, "Runs of level 0; from 8 on writers are slowed."),
    store!("larder_store_sealed_memtables", Gauge, tree.sealed_memtables, "Memtables that wait to be flushed."),
    store!("larder_store_memtable_bytes", Gauge, tree.memtable_bytes, "Bytes of all memtables (store-write-buffer)."),
    store!(
        "larder_store_block_cache_bytes",
        Gauge,
        tree.block_cache_bytes,
        "Bytes of the block cache (store-block-cache)."
    ),
    store!("larder_store_journals", Gauge, tree.journals, "Journals on disk."),
    store!("larder_store_disk_bytes", Gauge, tree.disk_bytes, "Bytes on disk, journals included."),
    store!("larder_store_compactions_running", Gauge, tree.compactions_running, "Compactions under way."),
    store!(
        "larder_store_compactions_total",
        Counter,
        tree.compactions,
        "Looks for something to compact that have ended."
    ),
    store_seconds!("larder_store_compaction_seconds_total", tree.compacting, "Time spent in compactions."),
    store!("larder_store_expired_total", Counter, tree.expired, "Expired entries that compaction dropped."),
    MetricFamily {
        name: "larder_replication_role",
        kind: Gauge,
        help: "1 for what this process is: standalone, primary or replica.",
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
        help: "Memory of the logs of changed keys (replication-backlog).",
        read: |s, to| to.number(&[], s.replication.log_bytes),
    },
    MetricFamily {
        name: "larder_replication_replicas",
        kind: Gauge,
        help: "Replicas that are connected to this process.",
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
        help: "1 while a replica gets its primary's changes.",
        read: |s, to| link(s).into_iter().for_each(|link| to.number(&[], u64::from(link.up))),
    },
    MetricFamily {
        name: "larder_replication_lag_seconds",
        kind: Gauge,
        help: "Age of what a replica has: every change that its primary made earlier has arrived. Up to 1 while the primary is quiet.",
        read: |s, to| {
            let behind = link(s).and_then(|link| link.behind);
            behind.into_iter().for_each(|behind| to.seconds(&[], behind.as_secs_f64()));
        },
    },
    MetricFamily {
        name: "larder_replication_clock_difference_seconds",
        kind: Gauge,
        help: "The primary's clock minus this one's, when its last mark arrived.",
        read: |s, to| link(s).into_iter().for_each(|link| to.seconds(&[], link.clock_difference)),
    },
    MetricFamily {
        name: "larder_replication_applied_total",
        kind: Counter,
        help: "Entries, deletions and clears of its primary that a replica applied.",
        read: |s, to| link(s).into_iter().for_each(|link| to.number(&[], link.applied)),
    },
    MetricFamily {
        name: "larder_replication_refused_total",
        kind: Counter,
        help: "Entries of its primary that are larger than a replica's memory tier takes.",
        read: |s, to| link(s).into_iter().for_each(|link| to.number(&[], link.refused)),
    },
    MetricFamily {
        name: "larder_replication_full_copies_total",
        kind: Counter,
        help: "Full copies that a replica has begun to take.",
        read: |s, to| link(s).into_iter().for_each(|link| to.number(&[], link.full_copies)),
    },
    MetricFamily {
        name: "larder_replication_resumptions_total",
        kind: Counter,
        help: "Connections of a replica that went on where the last one had ended.",
        read: |s, to| link(s).into_iter().for_each(|link| to.number(&[], link.resumptions)),
    },
    MetricFamily {
        name: "larder_snapshot_in_progress",
        kind: Gauge,
        help: "1 while a snapshot of the memory tiers is written.",
        read: |s, to| to.number(&[], u64::from(s.saves.in_progress)),
    },
    MetricFamily {
        name: "larder_snapshot_saves_total",
        kind: Counter,
        help: "Snapshots that were written.",
        read: |s, to| to.number(&[], s.saves.saves),
    },
    MetricFamily {
        name: "larder_snapshot_failures_total",
        kind: Counter,
        help: "Snapshots that could not be written.",
        read: |s, to| to.number(&[], s.saves.failures),
    },
    MetricFamily {
        name: "larder_snapshot_changes",
        kind: Gauge,
        help: "Writes, fills and deletes since the begin of the last snapshot that was written.",
        read: |s, to| to.number(&[], s.saves.changes),
    },
    last_save!(
        "larder_snapshot_last_success_timestamp_seconds",
        seconds,
        at.as_secs_f64(),
        "When the last snapshot was written, in seconds since the Unix epoch."
    ),
    last_save!(
        "larder_snapshot_last_duration_seconds",
        seconds,
        took.as_secs_f64(),
        "Time that the last snapshot took to write."
    ),
    last_save!("larder_snapshot_last_entries", number, entries, "Entries of the last snapshot."),
    last_save!("larder_snapshot_last_bytes", number, bytes, "Size of the last snapshot."),
    MetricFamily {
        name: "larder_snapshot_unverified",
        kind: Gauge,
        help: "Restored entries that are still to be read from their source before they are served (restore-verify-rate).",
        read: |s, to| s.saves.verification.iter().for_each(|of| to.number(&[], of.left)),
    },
    MetricFamily {
        name: "larder_snapshot_verified_total",
        kind: Counter,
        help: "Restored entries that were read from their source, by what it had: the same value, another, none; overtaken: a client had asked for the key before.",
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
        help: "Open files, connections included.",
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
        help: "Start, in seconds since the Unix epoch.",
        read: |s, to| to.seconds(&[], s.started.as_secs_f64()),
    },
];
