//! The miss path (flights, fetches, remembered absences, expiry rules, fences) and the
//! write-through.
//!
//! ```text
//! begin ── hit ───────────────────────────────────────────────► answered, under the shard's lock
//!   │ miss: Lead                       miss: Wait (already being fetched)
//!   ▼                                    │
//! batch of Fetch ── source.fetch ── Fetch::finish ── stores (unless fenced), wakes every waiter ──► end
//!
//! put / delete / expire: register the write ── source ── accepted: change the tier │ refused: nothing │ unknown: forget the key
//! ```
//!
//! Invariants:
//! - Errors reach every waiter and are never stored.
//! - A copy lives at most `KeyPolicy::ttl` ([`FillPolicy::of`](larder_source::FillPolicy::of) its
//!   key); the source's own expiry and later `expire`s only shorten that.
//! - A fill never brings back what a write replaced: every write that the source may have accepted
//!   ends in a change or an invalidation of its key in the tier, which fences the fetches begun
//!   before.
//! - In mode `coherent` only fills are stored, and only those that the source vouches for
//!   ([`Fetch::vouch`](larder_source::Fetch::vouch)). The source announces their change, in order
//!   with its replies, or the loss of that promise; then no copy counts as fresh
//!   (`source::invalidation_scope`). A write, and a client's direct read at the source, forget the key. A
//!   fenced flight overtakes the one that replaced it. So no client reads an older value after a
//!   newer one.
//! - On a source on this machine, a writer locks its keys ([`KeyGuard`], `key_locks`) until source
//!   and tier agree. So several keys can be read, computed and written as one step
//!   (`local_changes`), and conditions hold (`conditional_writes`).
//! - On a store that other programs change as well, a change that rests on what was read demands at
//!   the source that it is still there, and is made again if not (`shared_changes`).
//! - Where Larder has the entries, a change notes its events under the lock of its key, and they are
//!   published before the change is answered (`key_events`).
//! - Replies of commands are cached under the same rules as values, and are forgotten with their
//!   key (`reply_cache`).
//! - When two writes of one key overlap, the order of their replies need not be the order at the
//!   source. Then neither is stored, and both forget the key (`pending_writes`).
mod conditional_writes;
mod documents;
mod event_classes;
mod explained_key;
mod group;
mod groups;
mod inspector;
mod key_events;
mod key_locks;
mod local_changes;
mod noted_changes;
mod peer_requests;
mod pending_writes;
mod reply_cache;
mod shared_changes;
#[cfg(test)]
mod tests;
mod tier_contents;
mod value_changes;
mod watch_registry;
mod watched_keys;
mod write_deadlines;
mod write_through;

pub use documents::{DocumentChange, HeldValue};
pub use event_classes::{BadEventClass, EventClasses};
pub use explained_key::{Fact, explain_key};
pub use group::{Group, KEYS_AHEAD, StartedRead};
pub(crate) use groups::Tier;
pub use groups::{Groups, ProcessGroup, millis};
pub use key_events::{EventChannels, KeyEvent, KeyEvents, NotedEvents, TierRole};
pub use key_locks::KeyGuard;
pub use local_changes::KeyChanges;
pub use peer_requests::{PeerRequest, message_of};
pub use pending_writes::{PendingWrite, PendingWrites};
pub use shared_changes::overtaken;
pub use tier_contents::{TierContents, TierPart};
pub use value_changes::ValueEdit;
pub use watched_keys::WatchedKeys;
pub use write_through::{check_tags, too_many_tags};
