//! Why a table cannot be read or written.
use super::foreign_file::ForeignFile;
use std::{fmt, io, path::Path, sync::Arc};

/// Why a table cannot be read or written.
#[derive(Debug, Clone)]
pub enum TableError {
    /// A file could not be opened, read or written.
    Io {
        /// Which.
        path: Arc<Path>,
        /// Why.
        error: Arc<io::Error>,
    },
    /// A file is something else.
    NotATable {
        /// Which.
        path: Arc<Path>,
        /// What it is.
        file: ForeignFile,
    },
    /// A table has other bytes than it was written with.
    Damaged {
        /// Which; empty as long as it has no name.
        path: Arc<Path>,
        /// What is damaged.
        section: &'static str,
        /// Where that begins in the file, bytes.
        at: u64,
        /// In what way.
        what: Arc<str>,
    },
    /// What a table was to be made of cannot be used.
    Input(Arc<str>),
}

impl TableError {
    pub(super) fn io(path: &Path, error: io::Error) -> TableError {
        TableError::Io { path: path.into(), error: Arc::new(error) }
    }
    pub(super) fn damaged(section: &'static str, at: u64, what: impl Into<Arc<str>>) -> TableError {
        TableError::Damaged { path: Path::new("").into(), section, at, what: what.into() }
    }
    /// For a file that begins with these bytes.
    pub(super) fn foreign(bytes: &[u8]) -> TableError {
        TableError::NotATable { path: Path::new("").into(), file: ForeignFile::of(bytes) }
    }
    /// Says which file it was.
    pub(super) fn of(self, name: &Path) -> TableError {
        match self {
            TableError::Damaged { section, at, what, .. } => {
                TableError::Damaged { path: name.into(), section, at, what }
            }
            TableError::NotATable { file, .. } => TableError::NotATable { path: name.into(), file },
            other => other,
        }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            TableError::NotATable { path, file } => {
                write!(f, "{}: is not a table of Larder's: {}", path.display(), file.advice(path))
            }
            TableError::Damaged { path, section, at, what } => {
                write!(f, "{}: damaged table: {section} at byte {at}: {what}", path.display())
            }
            TableError::Input(what) => f.write_str(what),
        }
    }
}
impl std::error::Error for TableError {}
