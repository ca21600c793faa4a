//! Settings of the section “Memory tier”.
use super::{
    quantities::MIB,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is},
        SettingSpec,
    },
    value_kind::ValueKind,
};
use crate::eviction;

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Cache);

pub(super) const MEMORY_TIER: &[SettingSpec] = &[
    SettingSpec {
        name: "max-memory",
        kind: ValueKind::Memory { min: MIB },
        default: Computed("a quarter of the memory that the process may use"),
        per_group: true,
        live: true,
        example: "64MiB",
        help: "Maximum size of the memory tier, in bytes or as a percentage of the memory that the \
               process may use (of the machine, or the limit of its cgroup). At the limit, entries \
               are evicted. A named group must set its own.",
        ..ROW
    },
    SettingSpec {
        name: "max-keys",
        kind: ValueKind::Count { min: 1, max: u32::MAX as u64 },
        optional: true,
        per_group: true,
        also: &["PROXY_MAX_KEYS"],
        example: "1000",
        help: "Maximum number of entries, besides `max-memory`. At the limit, entries are evicted.",
        ..ROW
    },
    SettingSpec {
        name: "eviction",
        kind: ValueKind::Choice(eviction::NAMES),
        default: Is("s3fifo"),
        per_group: true,
        example: "sieve",
        help: "Which entries are evicted at the limit. `s3fifo`: S3-FIFO, which counts \
               reads and resists scans. `sieve`: SIEVE, cheaper, which knows only whether a key was \
               read. `lru`: approximate LRU (CLOCK).",
        ..ROW
    },
];
