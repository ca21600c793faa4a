//! The table of metrics: a row for each family, a file for each part of the program.

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
/// A family with one number for each group that has this part.
macro_rules! part {
    ($part:ident, $name:literal, $kind:ident, $($field:ident).+, $help:literal) => {
        MetricFamily {
            name: $name,
            kind: $kind,
            help: $help,
            read: |s, to| {
                for (group, part) in s.parts(|group| group.$part.as_ref()) {
                    to.number(&[("group", group)], part.$($field).+.into());
                }
            },
        }
    };
}

mod disk_store;
mod http_and_connections;
mod memcached_clients;
mod memory_tier;
mod metric_family;
mod mirror;
mod peers;
mod process;
mod redis_clients;
mod replication;
mod snapshots;
mod source;

pub use metric_family::{Labels, MetricFamily, MetricKind, MetricSink};

/// The rows of each part, in the order of the outputs.
const PARTS: [&[MetricFamily]; 12] = [
    process::PROCESS,
    redis_clients::REDIS_CLIENTS,
    memcached_clients::MEMCACHED_CLIENTS,
    http_and_connections::HTTP_AND_CONNECTIONS,
    memory_tier::MEMORY_TIER,
    source::SOURCE,
    mirror::MIRROR,
    peers::PEERS,
    disk_store::DISK_STORE,
    replication::REPLICATION,
    snapshots::SNAPSHOTS,
    process::PROMETHEUS_PROCESS,
];

/// Every metric, in the order of the outputs.
pub fn all_metrics() -> impl Iterator<Item = &'static MetricFamily> {
    PARTS.into_iter().flatten()
}
