//! Snapshots: where they are, and when they are written and loaded.
use super::{save_point::SavePoint, url_parts::parameters};
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
const S3: &str = "s3://";

impl BucketSettings {
    /// Reads `s3://BUCKET/KEY[?endpoint=URL&region=NAME&credentials=FILE&ca=FILE]`; `None` for a path.
    ///
    /// # Errors
    /// It is the URL of no object.
    pub(super) fn parse(text: &str) -> Result<Option<BucketSettings>, String> {
        let Some(object) = text.strip_prefix(S3) else { return Ok(None) };
        let (object, query) = object.split_once('?').unwrap_or((object, ""));
        let wrong = || format!("`{S3}{object}` names no object: write {S3}BUCKET/KEY");
        let (bucket, key) = object.split_once('/').ok_or_else(wrong)?;
        if bucket.is_empty() || key.is_empty() || key.ends_with('/') {
            return Err(wrong());
        }
        let mut settings = BucketSettings { bucket: bucket.into(), key: key.into(), ..BucketSettings::default() };
        for parameter in parameters(query) {
            let (name, value) = parameter?;
            match name {
                "endpoint" => settings.endpoint = Some(value),
                "region" => settings.region = Some(value),
                "credentials" => settings.credentials = Some(value.into()),
                "ca" => settings.ca = Some(value.into()),
                _ => {
                    return Err(format!("unknown parameter `{name}`: {S3} takes endpoint, region, credentials and ca"));
                }
            }
        }
        Ok(Some(settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_objects_are_told_from_paths() {
        assert_eq!(BucketSettings::parse("/var/lib/snapshot"), Ok(None));
        let bucket = BucketSettings { bucket: "bucket".into(), key: "a/b".into(), ..BucketSettings::default() };
        assert_eq!(BucketSettings::parse("s3://bucket/a/b"), Ok(Some(bucket.clone())));
        let asked = BucketSettings {
            endpoint: Some("http://h:1".into()),
            region: Some("eu".into()),
            credentials: Some("/c".into()),
            ca: Some("/a b".into()),
            ..bucket
        };
        let text = "s3://bucket/a/b?endpoint=http://h:1&region=eu&credentials=/c&ca=/a%20b";
        assert_eq!(BucketSettings::parse(text), Ok(Some(asked)));
        assert!(BucketSettings::parse("s3://bucket/a?key=b").is_err_and(|error| error.contains("parameter `key`")));
        for text in ["s3://", "s3://bucket", "s3://bucket/", "s3:///key", "s3://bucket/folder/"] {
            assert!(BucketSettings::parse(text).is_err_and(|error| error.contains("s3://BUCKET/KEY")), "{text}");
        }
    }
}
