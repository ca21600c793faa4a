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
               `s3://BUCKET/KEY` is an object in S3-like storage. See docs/snapshots.md.",
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
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Loads `snapshot-file` at the start, if it exists. Larder serves requests meanwhile; \
               `/readyz` answers 503 until the load is complete. Entries that have expired since \
               are dropped. A damaged file stops the start.",
        ..ROW
    },
    SettingSpec {
        name: "restore-damaged",
        kind: ValueKind::Choice(&["refuse", "salvage"]),
        default: Is("refuse"),
        example: "salvage",
        help: "How a start with `restore` treats a damaged `snapshot-file`. `refuse`: the start fails and names the damaged place. `salvage`: it loads the blocks before the damage.",
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
    SettingSpec {
        name: "snapshot-s3-endpoint",
        kind: ValueKind::Path,
        optional: true,
        example: "https://s3.eu-central-1.amazonaws.com",
        help: "URL of the storage of an `s3://` `snapshot-file`, without the bucket. Default: the \
               variable AWS_ENDPOINT_URL, or Amazon's address of the region.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-s3-region",
        kind: ValueKind::Path,
        optional: true,
        example: "eu-central-1",
        help: "Region of the storage of an `s3://` `snapshot-file`. Default: the variable \
               AWS_REGION, or us-east-1.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-s3-credentials",
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/s3-credentials",
        help: "File with the key pair for an `s3://` `snapshot-file`, in the format of Amazon's \
               tools (profile `default`, or AWS_PROFILE). It is read for each snapshot. Default: \
               AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a web identity \
               (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), or the credentials of the container or \
               machine at Amazon.",
        ..ROW
    },
    SettingSpec {
        name: "snapshot-s3-ca",
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/ca.pem",
        help: "PEM file of the certificate authorities for the storage's certificate. Default: the \
               authorities that Mozilla trusts.",
        ..ROW
    },
];
