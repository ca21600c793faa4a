//! Whether files have changed since they were read.
use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// What the system says about files; a link counts as the file that it leads to, so that the
/// exchange of a directory behind a link (a mounted Kubernetes secret) is a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileStamps(Vec<(PathBuf, Option<Stamp>)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    inode: (u64, u64),
    length: u64,
}

impl FileStamps {
    /// As the files are now.
    pub(super) fn of<'f>(files: impl IntoIterator<Item = &'f Path>) -> FileStamps {
        let stamp = |file: &Path| {
            let of = fs::metadata(file).ok()?;
            Some(Stamp { modified: (of.mtime(), of.mtime_nsec()), inode: (of.dev(), of.ino()), length: of.len() })
        };
        FileStamps(files.into_iter().map(|file| (file.to_owned(), stamp(file))).collect())
    }

    /// As the same files are now.
    pub(super) fn now(&self) -> FileStamps {
        FileStamps::of(self.0.iter().map(|(file, _)| file.as_path()))
    }
}
