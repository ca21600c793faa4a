//! Snapshots of the memory tiers: when they are written, by whom they are asked for, and the load
//! at the start. The file is `larder_store`'s.
//!
//! ```text
//!   BGSAVE, SAVE, POST /v1/snapshot ─┐
//!   snapshot-interval (control thread) ├─► Snapshots ─► a thread: save ─► FILE
//!   SIGTERM (within `grace`) ─────────┘        │
//!   --restore: FILE ─ checked before the start ─► a thread: load ─► tiers, which serve meanwhile
//!                      keys of coherent sources ─► the same thread: batches, at a rate ─► worker 0: fetches, compares ─► tiers
//! ```
//!
//! Invariants:
//! - One save at a time, and none during a load: the file may hold what is not loaded yet.
//! - A file that was not loaded, or not as a whole, is not lost: the save that takes its place
//!   keeps it as `FILE.old`, unless it has no entries.
//! - No value of a coherent source goes from the file to a tier: what is there came from the
//!   source, over a connection that announces its change.
//! - A thread of a save or a load holds a shard's lock for some entries at a time, and waits for no
//!   client.
mod bucket;
mod bucket_credentials;
mod bucket_http;
mod place;
mod restoring;
mod saved_state;
mod snapshots;
mod verification;
mod verification_state;

pub use saved_state::{LastSave, LoadStatus, SaveRefused, SnapshotStatus, Success, VerificationStatus};
pub use snapshots::Snapshots;
