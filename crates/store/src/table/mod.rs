//! Tables: immutable key-value files, read through a memory map.
//!
//! ```text
//! text, CSV, JSON lines, table ─ input ─► build: by hash to memory or a spill file, then part by part ─► write ─► FILE.ltab
//! FILE.ltab ─ open: header, directory, checksums of chunks ─► Table ─ lookup: index (pilot, slot) ─► block ─► key compared, value where it lies
//! ```
//!
//! Invariants:
//! - No byte of a body is believed before its chunk has been compared with its checksum; header,
//!   directory and checksums are checked at opening. A chunk is checked once, by the first reader;
//!   [`Table::get_now`] never checks, so it never reads a file.
//! - Any bytes are an answer, never a panic: every place that is read from a file is compared with
//!   the bounds that it must keep.
//! - A file is never changed in place. A table is written beside its name and renamed when it is
//!   durable, so a name leads to a whole table or to the one before; who has the old one open keeps
//!   it.
//! - The bytes are the same on every machine (docs/formats/table.md).
mod block;
mod build;
mod chunks;
mod entries;
mod error;
mod foreign_file;
mod format;
mod frames;
mod index;
mod input;
mod json_line;
mod limits;
mod lookup;
mod open;
mod progress;
mod rows;
mod spill;
#[cfg(test)]
mod tests;
mod walk;
mod write;

pub use build::{BuildOptions, Built, Duplicates, build};
pub use entries::BadLines;
pub(crate) use entries::LineRules;
pub use error::TableError;
pub use foreign_file::ForeignFile;
pub use format::Origin;
pub use frames::{Decoder, FrameCompression};
pub use input::{Format, Input};
pub use limits::{MAX_KEY, MAX_VALUE};
pub use lookup::Now;
pub use open::Table;
pub use progress::Progress;
pub use walk::{Entries, Position};
