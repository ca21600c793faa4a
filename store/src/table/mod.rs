//! Tables: immutable key-value files, read through a memory map.
//!
//! ```text
//! text, CSV, JSON lines, table ─ input ─► build: by hash to memory or a spill file, then part by part ─► write ─► FILE.ltab
//! FILE.ltab ─ open: header, directory, checksums of chunks ─► Table ─ get: index (pilot, slot) ─► block ─► key compared, value where it lies
//! ```
//!
//! Invariants:
//! - No byte of a body is believed before its chunk has been compared with its checksum; header, directory and checksums are checked at opening.
//!   A chunk is checked once, by whoever touches it first; [`Table::get_now`] never checks, so it never reads a file.
//! - Any bytes are an answer, never a panic: every place that is read from a file is compared with the bounds that it must keep.
//! - A file is never changed in place. A table is written beside its name and renamed when it is durable, so a name
//!   leads to a whole table or to the one before; who has the old one open keeps it.
//! - The bytes are the same on every machine (docs/formats/table.md).
mod block;
mod build;
mod chunks;
mod format;
mod frames;
mod index;
mod input;
mod read;
mod spill;
#[cfg(test)]
mod tests;
mod walk;
mod write;

pub use build::{BuildOptions, Built, Duplicates, Progress, build};
pub use format::Origin;
pub use frames::{Compression, Decoder};
pub use input::{Format, Input};
pub use read::{Now, Table};
pub use walk::{Entries, Position};

use std::{fmt, io, path::Path, sync::Arc};

/// Longest key, bytes.
pub const MAX_KEY: usize = 64 << 10;
/// Longest value, bytes.
pub const MAX_VALUE: usize = 512 << 20;

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
    /// A file is no table, or not any more.
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
    fn io(path: &Path, error: io::Error) -> TableError {
        TableError::Io { path: path.into(), error: Arc::new(error) }
    }
    fn damaged(section: &'static str, at: u64, what: impl Into<Arc<str>>) -> TableError {
        TableError::Damaged { path: Path::new("").into(), section, at, what: what.into() }
    }
    /// Says which file it was.
    fn of(self, name: &Path) -> TableError {
        match self {
            TableError::Damaged { section, at, what, .. } => {
                TableError::Damaged { path: name.into(), section, at, what }
            }
            other => other,
        }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            TableError::Damaged { path, section, at, what } => {
                write!(f, "{}: damaged table: {section} at byte {at}: {what}", path.display())
            }
            TableError::Input(what) => f.write_str(what),
        }
    }
}
impl std::error::Error for TableError {}
