//! Why a snapshot cannot be read or written.
use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a snapshot cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be opened, read or written.
    #[error("{}{}{error}", path.display(), if path.as_os_str().is_empty() { "" } else { ": " })]
    Io {
        /// Which; empty as long as it has no name, or if the error says it.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file is not a snapshot, or of a later version.
    #[error("{}: {what}", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// A part of the file is not what was written.
    #[error("{}: damaged snapshot: {section} at byte {at}: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// The header, a block by its number (from 0), or the footer.
        section: String,
        /// Where that begins in the file.
        at: u64,
        /// In what way.
        what: String,
    },
}

impl SnapshotError {
    pub(super) fn io(path: &Path, error: io::Error) -> SnapshotError {
        SnapshotError::Io { path: path.into(), error }
    }

    pub(super) fn foreign(what: impl Into<String>) -> SnapshotError {
        SnapshotError::Foreign { path: PathBuf::new(), what: what.into() }
    }

    pub(super) fn damaged(section: impl Into<String>, at: u64, what: impl Into<String>) -> SnapshotError {
        SnapshotError::Damaged { path: PathBuf::new(), section: section.into(), at, what: what.into() }
    }

    /// Says which file it was.
    #[must_use]
    pub fn of_file(mut self, name: &Path) -> SnapshotError {
        let (SnapshotError::Io { path, .. }
        | SnapshotError::Foreign { path, .. }
        | SnapshotError::Damaged { path, .. }) = &mut self;
        *path = name.into();
        self
    }

    /// Whether there is no such file.
    pub fn is_not_found(&self) -> bool {
        matches!(self, SnapshotError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether a part of the file is damaged, so that the blocks before it may still be of use.
    pub fn is_damage(&self) -> bool {
        matches!(self, SnapshotError::Damaged { .. })
    }
}
