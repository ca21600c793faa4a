//! Snapshots: where they are, and when they are written and loaded.
use super::save_point::SavePoint;
use larder_store::snapshot::SnapshotCompression;
use std::{fmt, path::PathBuf};

/// Snapshots of the memory tiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSettings {
    pub file: Option<SnapshotPlace>,
    /// When a snapshot is due.
    pub interval: Vec<SavePoint>,
    pub compression: SnapshotCompression,
    /// Load the file at the start.
    pub restore: bool,
    /// Load what is before a damage, instead of not starting.
    pub salvage: bool,
    /// Keys per second that are read from a source that announces changes, to verify what was
    /// restored.
    pub verify_rate: u32,
}

/// Where snapshots are (`snapshot-file`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotPlace {
    /// On this machine.
    File(PathBuf),
    /// In S3-like storage.
    Bucket(BucketSettings),
}

impl fmt::Display for SnapshotPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotPlace::File(path) => path.display().fmt(f),
            SnapshotPlace::Bucket(bucket) => bucket.fmt(f),
        }
    }
}

/// An object in S3-like storage. What is `None` comes from the environment, by the names that
/// Amazon's tools have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BucketSettings {
    pub bucket: String,
    pub key: String,
    /// URL of the storage.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// A file with a key pair.
    pub credentials: Option<PathBuf>,
    /// Certificates of the authorities to trust, PEM.
    pub ca: Option<PathBuf>,
}

impl fmt::Display for BucketSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{S3}{}/{}", self.bucket, self.key)
    }
}

/// How the URL of an object begins.
pub(super) const S3: &str = "s3://";

/// Bucket and key of `s3://BUCKET/KEY`; `None` for a path.
///
/// # Errors
/// It is the URL of no object.
pub(super) fn object_of(text: &str) -> Result<Option<(&str, &str)>, String> {
    let Some(object) = text.strip_prefix(S3) else { return Ok(None) };
    match object.split_once('/') {
        Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() && !key.ends_with('/') => Ok(Some((bucket, key))),
        _ => Err(format!("`{text}` names no object: write {S3}BUCKET/KEY")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_objects_are_told_from_paths() {
        assert_eq!(object_of("/var/lib/snapshot"), Ok(None));
        assert_eq!(object_of("s3://bucket/a/b"), Ok(Some(("bucket", "a/b"))));
        for text in ["s3://", "s3://bucket", "s3://bucket/", "s3:///key", "s3://bucket/folder/"] {
            assert!(object_of(text).is_err_and(|error| error.contains("s3://BUCKET/KEY")), "{text}");
        }
    }
}
