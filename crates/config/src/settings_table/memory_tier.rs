//! Settings of the section “Memory tier”.
use super::{
    quantities::MIB,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is, Off},
        SettingSpec,
    },
    value_kind::ValueKind::{Choice, Count, Memory},
};
use crate::eviction;

settings! { SettingSection::Cache;
    /// Maximum size of the memory tier, in bytes or as a percentage of the memory that the process may
    /// use (of the machine, or the limit of its cgroup). At the limit, entries are evicted. A named
    /// group must set its own.
    "max-memory": Memory { min: MIB } => Computed("a quarter of the memory that the process may use"),
        example("64MiB"), per_group, live;

    /// Maximum number of entries, besides `max-memory`. At the limit, entries are evicted.
    "max-keys": Count { min: 1, max: u32::MAX as u64 } => Off,
        example("1000"), optional, per_group, also(&["PROXY_MAX_KEYS"]);

    /// Which entries are evicted at the limit. `s3fifo`: S3-FIFO, which counts reads and resists scans.
    /// `sieve`: SIEVE, cheaper, which knows only whether a key was read. `lru`: approximate LRU
    /// (CLOCK).
    "eviction": Choice(eviction::NAMES) => Is("s3fifo"), example("sieve"), per_group;
}
