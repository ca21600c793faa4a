//! Larder's memory tier: a byte-bounded, sharded cache with single-flight. It knows no network, no runtime and no clock.
//!
//! ```text
//!            key ── hash once ──► shard ──lock──┐
//!                                               v
//!   index   hash → position          (`index`: a cache line per probe, grows a page at a time)
//!   log     position → record        (`log`, `record`: fixed-size segments in two FIFO queues; large values beside them)
//!   policy  which record leaves      (`policy`, `ghost`)
//!   wheel   what expires when        (`wheel`: four bytes for an entry that does)
//!   flights who fetches what         (`flight`)
//!   derived what was made from values, and goes with them   (`derived`)
//!   changes who hears that a key is not what it was          (`changes`)
//! ```
//!
//! What holds, always:
//! - Everything that the cache holds is on one account (`budget`), and the account is within the bound whenever no operation runs.
//! - An expired entry is never returned; its room is given back within a second or so, if [`Cache::tick`] is called.
//! - A fill is stored only if nothing wrote, deleted or invalidated its key since the fetch began.
//! - Lock order: one shard, or several in ascending order; a flight's lock inside a shard's. No lock is held while a waiter is woken.
#![forbid(unsafe_code)]

mod budget;
mod cache;
mod changes;
mod clock;
mod derived;
mod entry;
mod flight;
mod ghost;
mod index;
mod large;
mod log;
mod outside;
mod policy;
mod record;
mod shard;
mod stats;
mod sync;
#[cfg(test)]
mod tests;
mod tier;
mod wheel;
mod write;

pub use cache::{Cache, Config, Lookup};
pub use changes::{Listener, Listening};
pub use derived::Derived;
pub use entry::{Change, Condition, Entry, Expiry, LargeValue, Stored, TooLarge, Value, Write};
pub use flight::{Fill, Lead, Outcome, Wait};
pub use large::Lent;
pub use outside::Outside;
pub use shard::Key;
pub use stats::Stats;
pub use tier::Tier;

/// Milliseconds since the Unix epoch.
pub type Millis = u64;
