//! Settings of the section “Snapshots”.
use super::{
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Is, Off},
        SettingSpec,
    },
    value_kind::{
        SAVE_POINT,
        ValueKind::{Choice, Count, Path},
    },
};
use larder_store::snapshot::SnapshotCompression;

settings! { SettingSection::Snapshots;
    /// File for snapshots of the memory tiers. A snapshot is written when the process ends (SIGTERM,
    /// SIGINT, within `grace`), every `snapshot-interval`, and on demand (SAVE, BGSAVE, `POST
    /// /v1/snapshot`). It replaces the old file when it is complete.
    /// `s3://BUCKET/KEY[?endpoint=URL&region=NAME&credentials=FILE&ca=FILE]` is an object in S3-like
    /// storage; what is left out comes from the variables of Amazon's tools (AWS_ENDPOINT_URL,
    /// AWS_REGION, AWS_ACCESS_KEY_ID …). See docs/snapshots.md.
    "snapshot-file": Path => Off, example("/var/lib/larder/snapshot"), optional;

    /// Time from the start of one snapshot to the start of the next. `1m:1000`: a snapshot after a
    /// minute only if there were at least 1000 changes since the last one. The first of several that is
    /// due counts. A snapshot that takes longer delays the next one. `CONFIG SET save "60 1000"`
    /// changes it until the next start.
    "snapshot-interval": SAVE_POINT => Off, example("15m"), optional, many;

    /// Compression of snapshots. `zstd` makes smaller files and takes more time than `lz4`.
    "snapshot-compression": Choice(SnapshotCompression::NAMES) => Is("lz4"), example("zstd");

    /// Loads `snapshot-file` at the start, if it exists. Larder serves requests meanwhile; `/readyz`
    /// answers 503 until the load is complete. Entries that have expired since are dropped. A damaged
    /// file stops the start with `true`, which names the damaged place; `salvage` loads the blocks
    /// before the damage.
    "restore": Choice(&["false", "true", "salvage"]) => Is("false"), example("true");

    /// Keys per second that a start with `restore` reads again from Redis sources with `coherence =
    /// coherent`, the most-used ones first. A restored copy is served after it was read again; before
    /// that, its key is a miss. See docs/snapshots.md.
    "restore-verify-rate": Count { min: 1, max: 10_000_000 } => Is("10000"), example("50000");
}
