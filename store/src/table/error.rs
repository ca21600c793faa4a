//! Why a table cannot be read or written.
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
    /// A file does not begin as a table does.
    NoTable {
        /// Which; empty as long as it has no name.
        path: Arc<Path>,
    },
    /// A table is not as it was written.
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
    pub(super) fn no_table() -> TableError {
        TableError::NoTable { path: Path::new("").into() }
    }
    pub(super) fn damaged(section: &'static str, at: u64, what: impl Into<Arc<str>>) -> TableError {
        TableError::Damaged { path: Path::new("").into(), section, at, what: what.into() }
    }
    /// Says which file it was.
    pub(super) fn of(self, name: &Path) -> TableError {
        match self {
            TableError::Damaged { section, at, what, .. } => {
                TableError::Damaged { path: name.into(), section, at, what }
            }
            TableError::NoTable { .. } => TableError::NoTable { path: name.into() },
            other => other,
        }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            TableError::NoTable { path } => {
                write!(f, "{}: not a table; `larder table build` makes one from a data file", path.display())
            }
            TableError::Damaged { path, section, at, what } => {
                write!(f, "{}: damaged table: {section} at byte {at}: {what}", path.display())
            }
            TableError::Input(what) => f.write_str(what),
        }
    }
}
impl std::error::Error for TableError {}
