//! What answers a miss and takes writes. One trait, one conformance suite, one file per implementation.
//!
//! Invariants, whatever the implementation:
//! - every [`Fetch`] that is handed over is finished within `source-timeout` (or dropped, which releases its waiters too);
//! - a write that returns [`SourceError::Unavailable`] or [`SourceError::Refused`] changed nothing at the source;
//!   one that may have been applied returns [`SourceError::Lost`];
//! - sources do not touch the memory tier: `read` does, through [`Fetch::finish`], the write-through and [`Invalidations`];
//! - a fetch is vouched for ([`Fetch::vouch`]) only if the source will say when its key changes, or that it cannot tell any more.
mod contract;
mod disk;
mod error;
mod fetch;
pub mod health;
mod limits;
mod local_store;
pub mod none;
mod policy;
mod push_queue;
mod raw_replies;
mod redis;
pub mod reply_name;
mod setup;
mod table;
#[cfg(test)]
pub(crate) mod test_store;

pub(crate) use contract::answers_ping;
pub use contract::{
    CacheableReply, ClientTracking, DedicatedConnection, FetchedReply, FetchedValue, InvalidationScope, Invalidations,
    KeyLife, LocalFuture, Reads, RedisServer, Relay, Source, VouchesFor,
};
pub use error::SourceError;
pub(crate) use error::UNAVAILABLE;
pub use fetch::Fetch;
pub use health::SourceHealth;
pub(crate) use limits::LARGE;
pub use limits::Limits;
pub use local_store::{LocalStore, Page, Scan};
pub use policy::Policy;
pub use push_queue::PushQueue;
pub use raw_replies::RawReplies;
pub use redis::{ForwardRule, Identity, KnownKeys, UpstreamCommand, UpstreamCommands};
pub use setup::SourceSetup;
pub use table::{PinnedTable, Reloaded, TableLookup, TableSource};
