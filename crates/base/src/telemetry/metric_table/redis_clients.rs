//! Redis commands, pushes to clients, and the buffers of all connections.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge, Histogram},
};
use crate::telemetry::command_stats::CommandClass;

pub(super) const REDIS_CLIENTS: &[MetricFamily] = &[
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
        help: "Bytes of this budget in use, by kind: input, output, commands sent to a source (relayed), its values and replies (fetched), push messages, keys of which clients hold copies (tracking), SCAN cursors, users made with ACL SETUSER, the slow log (logs), and values that left the memory tier while a client is still receiving them (lent).",
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
];
