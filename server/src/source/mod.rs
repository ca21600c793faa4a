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
mod local;
#[cfg(test)]
pub(crate) mod memory;
pub mod none;
mod policy;
mod raw_replies;
mod redis;
pub mod reply_name;
mod setup;
mod table;
mod unasked;

pub(crate) use contract::answers_ping;
pub use contract::{
    ClientTracking, Found, FoundReply, Invalidations, Keepable, KeyLife, Local, Pinned, Reads, RedisServer, Relay,
    Source, VouchesFor, Watch,
};
pub use error::SourceError;
pub(crate) use error::UNAVAILABLE;
pub use fetch::Fetch;
pub use health::SourceHealth;
pub(crate) use limits::LARGE;
pub use limits::Limits;
pub use local::{LocalStore, Page, Scan};
pub use policy::Policy;
pub use raw_replies::Replies;
pub use redis::{Commands, Identity, Known, Passage, Upstream};
pub use setup::SourceSetup;
pub use table::{Looked, OneTable, Reloaded, TableSource};
pub use unasked::Unasked;
