//! Snapshots: a file of the memory tiers' entries, written while the server runs and read when it
//! starts again.
//!
//! ```text
//!   tiers ─ save: some entries under a lock ─► SnapshotWriter: blocks, compressed, with checksums ─► FILE        (docs/formats/snapshot.md)
//!   FILE  ─ SnapshotReader: checksum, decompress, decode ─► Load: batches, unless something newer happened ─► tiers
//! ```
//!
//! Invariants:
//! - No byte of a block is believed before the block has been compared with its checksum; lengths
//!   are compared with their limits before memory is had for them.
//! - Any bytes are an answer, never a panic. Nothing of a damaged block is loaded.
//! - A file is never changed in place: the new one is written beside it, synced and renamed, so a
//!   name leads to a whole snapshot or to the one before.
//! - One block is in memory at a time; of a large entry that is written, a piece.
//!
//! [`SavedEntry`] is also how a primary sends entries to its replicas: a snapshot's blocks and the
//! change stream have one codec.
mod convert;
mod entry;
mod error;
mod format;
mod from_gcache;
mod gcache_dump;
mod load;
mod read;
mod save;
#[cfg(test)]
mod tests;
mod write;

pub use crate::atomic_files::remove_leftovers;
pub use convert::{Conversion, ConvertError, Converted, from_rdb, is_rdb, to_rdb};
pub use entry::{DecodeError, MAX_ENTRY, MAX_HEAD, SavedEntry, digest};
pub use error::SnapshotError;
pub use format::{GroupTotals, Header, SnapshotCompression};
pub use from_gcache::{DocumentForm, from_gcache, is_gcache_dump};
pub use load::{Load, Loaded};
pub use read::{Block, Scrutiny, SnapshotReader};
pub use save::{SaveProgress, Saved, SavedGroup, save, save_to};
pub use write::SnapshotWriter;
