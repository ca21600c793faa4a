//! The durable store (`disk:DIR`): an LSM tree (fjall) behind threads of its own, shared by all
//! cores.
//!
//! ```text
//!  cores ── Work ────────► read_queue ──► readers (2 × threads)   ──► each answers by itself
//!    ├───── or, if all of it is in memory: reads by itself (cached_reads)
//!    ├───── who counts ──► read_queue ──► one thread: a count for all who wait (counting)
//!    ├─ Change + reply ──► write_queue ─► committer: takes all that waits, one batch, one sync ──► replies: a wake-up for each core
//!    │                                      │ slowed by pressure when flushes or compactions fall behind
//!    └─ or, if nothing is ahead or due: writes by itself (in_place)
//!                           upkeep: syncs (interval), rotates the memtable, asks whether fjall gave up
//!  DIR/larder-store   what this directory is, and in which version     (dir)
//!  DIR/lock           held while the store is open, with our pid
//!  DIR/db/            fjall: N.jnl journals, keyspaces/M/tables/…      (tree)
//! ```
//!
//! Invariants:
//! - One thread at a time writes entries: the one that has locked the `BatchWriter`. It reads none.
//!   What was read for a write is still so when it is written because the caller holds the key's
//!   lock from that read until the write is done.
//! - Changes are written in the order in which they were handed over. A core that writes by itself
//!   overtakes nothing that waits.
//! - A write that failed in the middle poisons the store: it takes no more writes until it is
//!   opened again, for what reached the disk is not known any more. Reads go on.
//! - An entry that has expired is absent at once; compaction drops it (`expiry`).
//! - Nothing here blocks a core for long: queues are locked for a push, and what waits for the disk
//!   is a thread of the store. `in_place` says what a core does itself, and what bounds that.
//!
//! Lock order: writer, then gate or queue. A queue's lock is never held while fjall is called.
mod background;
pub mod backup;
mod backup_jobs;
mod batch_writer;
mod cached_reads;
#[cfg(test)]
mod cached_reads_tests;
mod change;
mod commit_replies;
mod committer;
mod counting;
#[cfg(test)]
mod crafted_tests;
pub mod damage;
mod dir;
mod expiry;
mod format;
mod in_place;
#[cfg(test)]
mod in_place_tests;
mod journal;
mod load;
mod maintenance;
mod offline;
mod opening;
mod pressure;
mod read_queue;
mod readers;
mod settings;
mod shared;
mod stats;
mod stop_signal;
mod store;
#[cfg(test)]
mod tests;
mod tree;
mod write_gate;
mod write_queue;
mod write_stop_reason;

pub use backup_jobs::BackupStatus;
pub use cached_reads::Cached;
pub use change::{StoreChange, StoreEntry, WriteError};
pub use commit_replies::{CommitReplies, Sender};
pub use format::MAX_KEY;
pub use load::{Loaded, load};
pub use offline::Offline;
pub use read_queue::Work;
pub use settings::{Compression, Durability, StoreSettings};
pub use stats::{LEVELS, StoreStats, TreeStats};
pub use store::Store;
pub use tree::{Range, Tree, TreeWalk};
pub use write_queue::Written;
pub use write_stop_reason::OnPoison;
