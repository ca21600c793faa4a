//! The sources of the groups.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge, Histogram},
};

pub(super) const SOURCE: &[MetricFamily] = &[
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
    MetricFamily {
        name: "larder_source_lag_seconds",
        kind: Gauge,
        help: "Age of the oldest change that the change stream of PostgreSQL may not have announced yet; 0 if it has announced all.",
        read: |s, to| {
            for group in &s.groups {
                to.seconds(&[("group", &group.name)], group.source.lag as f64 / 1000.0);
            }
        },
    },
    group!(
        "larder_source_lag_bytes",
        Gauge,
        source.lag_bytes,
        "Bytes of the database's log that the change stream of PostgreSQL still has to read."
    ),
    MetricFamily {
        name: "larder_source_replica_lag_seconds",
        kind: Gauge,
        help: "How far the PostgreSQL standby that is read (`read-from=replica`) is behind its primary, as it knows itself.",
        read: |s, to| {
            for group in &s.groups {
                to.seconds(&[("group", &group.name)], group.source.replica_lag as f64 / 1000.0);
            }
        },
    },
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
        "Current limit of fetches in flight at the source's server (source-max-in-flight)."
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
    part!(
        driver,
        "larder_source_driver_requests_total",
        Counter,
        requests,
        "Requests that the driver of Cassandra sent: reads, writes, transactions and pages of scans."
    ),
    part!(driver, "larder_source_driver_errors_total", Counter, errors, "Requests of the driver that failed."),
    part!(driver, "larder_source_driver_retries_total", Counter, retries, "Requests that the driver sent again."),
    part!(
        driver,
        "larder_source_driver_timeouts_total",
        Counter,
        timeouts,
        "Requests of the driver without an answer within source-timeout."
    ),
    part!(
        driver,
        "larder_source_driver_speculative_total",
        Counter,
        speculative,
        "Reads that the driver also sent to another replica (speculative)."
    ),
    part!(
        driver,
        "larder_source_driver_connections",
        Gauge,
        connections,
        "Connections of the driver to the nodes of the cluster, without those that it is told of changes on."
    ),
    part!(
        driver,
        "larder_source_driver_connection_timeouts_total",
        Counter,
        connection_timeouts,
        "Connections of the driver that were not made within source-timeout."
    ),
    MetricFamily {
        name: "larder_source_node_up",
        kind: Gauge,
        help: "1 if Larder has a connection to this node of the Cassandra cluster, by the address of the node.",
        read: |s, to| {
            for (group, driver) in s.parts(|group| group.driver.as_ref()) {
                for (address, is_up) in &driver.nodes {
                    to.number(&[("group", group), ("address", address)], u64::from(*is_up));
                }
            }
        },
    },
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
];
