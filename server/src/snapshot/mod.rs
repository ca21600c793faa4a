//! Snapshots of the memory tiers: when they are written, by whom they are asked for, and the load at the start. The file is `larder_store`'s.
//!
//! ```text
//!   BGSAVE, SAVE, POST /v1/snapshot ─┐
//!   snapshot-interval (control thread) ├─► Snapshots ─► a thread: save ─► FILE
//!   SIGTERM (within `grace`) ─────────┘        │
//!   --restore: FILE ─ checked before the start ─► a thread: load ─► tiers, which serve meanwhile
//! ```
//!
//! Invariants:
//! - One save at a time, and none during a load: the file may hold what is not loaded yet.
//! - A thread of a save or a load holds a shard's lock for some entries at a time, and waits for no client.
mod saved_state;
mod snapshots;

pub use saved_state::{LastSave, LoadStatus, SaveRefused, SnapshotStatus};
pub use snapshots::Snapshots;
