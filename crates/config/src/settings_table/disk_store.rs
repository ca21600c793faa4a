//! Settings of the section “Disk store”.
use super::{
    quantities::MIB,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Computed, Is},
        SettingSpec,
    },
    value_kind::ValueKind,
};

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Store);

pub(super) const DISK_STORE: &[SettingSpec] = &[
    SettingSpec {
        name: "durability",
        kind: ValueKind::Durability,
        default: Is("interval:100ms"),
        per_group: true,
        example: "always",
        help: "When an acknowledged write to a `disk:` source is on stable storage. `always`: \
               before the acknowledgement (writes that wait together share one sync). \
               `interval:100ms`: at most this long afterwards. `os`: when the operating system \
               writes it back. If only the process ends (SIGKILL), nothing is lost. See \
               docs/disk-store.md.",
        ..ROW
    },
    SettingSpec {
        name: "store-block-cache",
        kind: ValueKind::Memory { min: MIB },
        default: Computed("a sixteenth of the memory that the process may use, at least 32MiB"),
        per_group: true,
        example: "128MiB",
        help: "Size of a disk store's cache for blocks of its files, in bytes or as a percentage of \
               the memory that the process may use. This memory is outside `max-memory`. So are up to four \
               write buffers of 64MiB, or of this size if it is less.",
        ..ROW
    },
];
