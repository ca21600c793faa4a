//! The memcached door: the classic and the meta commands of memcached's text protocol, on the group
//! `default`.
//!
//! ```text
//! Parser ─► Request ─► may it go on? (user, gate) ─┬─ get, mg: through the group; misses ─► WaitingRead
//!                                                   ├─ writes, where the tier is the only store: at once, under the shard's lock
//!                                                   └─ writes with a source: alone ─► the source, then the tier
//! ```
//!
//! Invariants:
//! - A hit allocates nothing: the key is borrowed from the input, the value is copied from the arena
//!   to the output.
//! - The commands of one client take effect, and are answered, in the order in which it sent them.
//! - What a write makes of an entry is computed in one place (`edits.rs`), for every source.
//! - Texts of replies are memcached's. Larder's own errors begin with `SERVER_ERROR`.
mod connection;
mod edits;
mod entry_view;
mod exptime;
mod flush;
mod login;
mod meta_replies;
mod reads;
mod replies;
mod session;
mod slow_commands;
mod source_writes;
mod stats;
mod waiting_reads;
mod writes;

pub use connection::{MemcachedConnection, serve};
pub use flush::PendingFlush;
