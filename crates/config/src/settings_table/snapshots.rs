//! Settings of the section “Snapshots”.
use super::{
    setting_section::SettingSection,
    setting_spec::{Fallback::Is, SettingSpec},
    value_kind::ValueKind,
};
use larder_store::snapshot::SnapshotCompression;

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Snapshots);

pub(super) const SNAPSHOTS: &[SettingSpec] = &[
    SettingSpec {
        name: "snapshot-file",
        kind: ValueKind::Path,
        optional: true,
        example: "/var/lib/larder/snapshot",
        help: "File for snapshots of the memory tiers. A snapshot is written when the process ends \
               (SIGTERM, SIGINT, within `grace`), every `snapshot-interval`, and on demand (SAVE, \
               BGSAVE, `POST /v1/snapshot`). It replaces the old file when it is complete. \
               `s3://BUCKET/KEY[?endpoint=URL&region=NAME&credentials=FILE&ca=FILE]` is an object in \
               S3-like storage; what is left out comes from the variables of Amazon's tools \
               (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID …). See docs/snapshots.md.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-interval",
        kind: ValueKind::SavePoint,
        optional: true,
        many: true,
        example: "15m",
        help: "Time from the start of one snapshot to the start of the next. `1m:1000`: a snapshot \
               after a minute only if there were at least 1000 changes since the last one. The first \
               of several that is due counts. A snapshot that takes longer delays the next one. \
               `CONFIG SET save \"60 1000\"` changes it until the next start.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-compression",
        kind: ValueKind::Choice(SnapshotCompression::NAMES),
        default: Is("lz4"),
        example: "zstd",
        help: "Compression of snapshots. `zstd` makes smaller files and takes more time than `lz4`.",
        ..ROW
    },
    SettingSpec {
        name: "restore",
        kind: ValueKind::Choice(&["false", "true", "salvage"]),
        default: Is("false"),
        example: "true",
        help: "Loads `snapshot-file` at the start, if it exists. Larder serves requests meanwhile; \
               `/readyz` answers 503 until the load is complete. Entries that have expired since \
               are dropped. A damaged file stops the start with `true`, which names the damaged place; \
               `salvage` loads the blocks before the damage.",
        ..ROW
    },
    SettingSpec {
        name: "restore-verify-rate",
        kind: ValueKind::Count { min: 1, max: 10_000_000 },
        default: Is("10000"),
        example: "50000",
        help: "Keys per second that a start with `restore` reads again from Redis sources with \
               `coherence = coherent`, the most-used ones first. A restored copy is served after it \
               was read again; before that, its key is a miss. See docs/snapshots.md.",
        ..ROW
    },
];
