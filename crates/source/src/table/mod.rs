//! `table:FILE`: an immutable table ([`store::table`](larder_store::table)), read from its memory
//! map.
//!
//! ```text
//! read ─► look up in the map, on the core ─┬─ found or absent ─► answered; the memory tier is not involved
//!                                          └─ chunks not checked yet ─► fetch: a thread that may wait for the disk ─► flight
//!
//! data file changed: at a reload, or watched ─► reload thread: a process builds the file
//! file moved into place, or reload ─► reload thread: open, check all of it ─► new table ─► each core takes it at its next read
//!                                                                          └─► changed keys ─► Invalidations, on one core
//! ```
//!
//! Invariants:
//! - A core waits for no disk. It answers from chunks that were read and checked before, and hands
//!   over reads that need others.
//! - A new file is served only after all of it was checked. The first file is the exception: it is
//!   checked in the background, and each chunk before its first use.
//! - A client that is told of a changed key reads the new table: it is in place before any change
//!   is announced.
mod followed_data;
pub(super) mod table_map_reads;
pub(super) mod table_reload;
mod table_scan;
mod table_source;

pub use followed_data::table_build;
pub use table_map_reads::{PinnedTable, TableLookup, TableSource};
pub use table_reload::{Reloaded, TableSetup};
pub(super) use table_source::setup;
