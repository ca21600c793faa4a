//! Settings of the section “Disk store”.
use super::{
    quantities::MIB,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is},
        SettingSpec,
    },
    value_kind::{DURABILITY, ValueKind::Memory},
};

settings! { SettingSection::Store;
    /// When an acknowledged write to a `disk:` source is on stable storage. `always`: before the
    /// acknowledgement (writes that wait together share one sync). `interval:100ms`: at most this long
    /// afterwards. `os`: when the operating system writes it back. If only the process ends (SIGKILL),
    /// nothing is lost. See docs/disk-store.md.
    "durability": DURABILITY => Is("interval:100ms"), example("always"), per_group;

    /// Size of a disk store's cache for blocks of its files, in bytes or as a percentage of the memory
    /// that the process may use. This memory is outside `max-memory`. So are up to four write buffers
    /// of 64MiB, or of this size if it is less.
    "store-block-cache": Memory { min: MIB } => Computed("a sixteenth of the memory that the process may use, at least 32MiB"),
        example("128MiB"), per_group;
}
