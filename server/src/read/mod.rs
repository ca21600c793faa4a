//! The miss path, whole: flight, then source; negative answers, expiry rules, fences; and the write-through.
//!
//! ```text
//! begin ── hit ───────────────────────────────────────────────► answered, under the shard's lock
//!   │ miss: Lead                       miss: Wait (somebody fetches it)
//!   ▼                                    │
//! batch of Fetch ── source.fetch ── Fetch::finish ── stores (unless fenced), wakes every waiter ──► end
//!
//! put / delete / expire: register the write ── source ── took it: change the tier │ refused: nothing │ unknown: forget the key
//! ```
//!
//! Invariants:
//! - Errors reach every waiter and are never stored.
//! - A copy of what a source has lives at most `Policy::ttl`; the source's own expiry and later `expire`s only shorten that.
//! - A fill never brings back what a write replaced: every write that the source may have taken ends in a change or an
//!   invalidation of its key in the tier, which fences the fetches begun before.
//! - In mode `coherent` only fills are stored, and only those that the source vouches for ([`Fetch::vouch`](crate::source::Fetch::vouch)): it announces
//!   their change, in order with its replies, or the loss of that promise, after which nothing counts as fresh
//!   (`coherence`). Writes and what a client saw at the source itself forget
//!   the key, and a fenced flight overtakes what took its place, so that no client reads an older value after a newer one.
//! - On a source that keeps its entries on this machine, whoever writes a key holds it ([`KeyGuard`]) until the source has decided and the tier
//!   agrees: so several can be read, worked out and written as one step (`local_changes`), and conditions hold (`conditional_writes`).
//! - Replies of commands are kept under the same rules as values, and go with their key (`reply_cache`).
//! - When two writes of one key overlap, the order of their replies here need not be the source's order, so neither stores: both forget the key (`pending_writes`).
mod coherence;
mod conditional_writes;
mod deadline;
mod group;
mod key_locks;
mod local_changes;
mod lock_stripes;
mod pending_writes;
mod reply_cache;
#[cfg(test)]
mod tests;
mod watch_registry;
mod watched_keys;
mod write_through;

pub use coherence::{TierInvalidator, invalidation_scope};
pub use group::{Group, StartedRead};
pub use key_locks::KeyGuard;
pub use local_changes::Changes;
pub use pending_writes::{PendingWrite, PendingWrites};
pub use watched_keys::WatchedKeys;
