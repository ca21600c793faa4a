//! Whether a file is still the one that it was.
use std::{os::unix::fs::MetadataExt as _, path::Path};

/// The identity of a file, from its metadata. The time of its last status change finds files that
/// were copied into place with their size and time of modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp(u64, u64, u64, [i64; 4]);

impl FileStamp {
    pub(super) fn of(path: &Path) -> Option<FileStamp> {
        let file = std::fs::metadata(path).ok()?;
        let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        Some(FileStamp(file.dev(), file.ino(), file.len(), times))
    }
}
