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
use larder_store::disk::Compression;

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
        name: "store-write-buffer",
        kind: ValueKind::Size { min: MIB, max: 4 << 30 },
        default: Is("64MiB"),
        per_group: true,
        example: "16MiB",
        help: "Size of the buffer in which a disk store collects writes before it writes a sorted \
               file. Up to three more full buffers may wait. This memory is outside `max-memory`: \
               count four times this size.",
        ..ROW
    },
    SettingSpec {
        name: "store-block-cache",
        kind: ValueKind::Memory { min: MIB },
        default: Computed("a sixteenth of the memory that the process may use, at least 32MiB"),
        per_group: true,
        example: "128MiB",
        help: "Size of a disk store's cache for blocks of its files, in bytes or as a percentage of \
               the memory that the process may use. This memory is outside `max-memory`.",
        ..ROW
    },
    SettingSpec {
        name: "store-compression",
        kind: ValueKind::Choice(Compression::NAMES),
        default: Is("lz4"),
        per_group: true,
        example: "none",
        help: "Compression of a disk store's older levels. Fixed when the store is created: to \
               change it, use `larder store backup` and `restore`.",
        ..ROW
    },
    SettingSpec {
        name: "store-threads",
        kind: ValueKind::Count { min: 1, max: 256 },
        default: Computed("twice the cores that the process may use, at most 16"),
        per_group: true,
        example: "3",
        help: "Reader threads of a disk store. It also has one thread that writes, one that syncs, \
               and two that flush and compact.",
        ..ROW
    },
    SettingSpec {
        name: "store-max-waiting",
        kind: ValueKind::Size { min: MIB, max: 16 << 30 },
        default: Is("64MiB"),
        per_group: true,
        example: "8MiB",
        help: "Maximum size of the writes that wait for the disk, keys and values together. Beyond \
               it, a write fails at once. A single larger write waits alone.",
        ..ROW
    },
];
