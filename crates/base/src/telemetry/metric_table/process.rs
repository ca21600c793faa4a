//! The process itself.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge, Info},
};

pub(super) const PROCESS: &[MetricFamily] = &[
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
        name: "larder_longest_turn_seconds",
        kind: Gauge,
        help: "Longest CPU time for which a worker served one client without a look at the others, since the start or CONFIG RESETSTAT.",
        read: |s, to| to.seconds(&[], s.longest_turn.as_secs_f64()),
    },
];

/// What every Prometheus client library reports under these names.
pub(super) const PROMETHEUS_PROCESS: &[MetricFamily] = &[
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
