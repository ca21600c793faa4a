//! Larder's memory tier: a byte-bounded, sharded cache with single-flight. It knows no network, no
//! runtime and no clock.
//!
//! ```text
//!              key ── hash once ──► shard ──lock──┐
//!                                                 v
//!   index     hash → position          (`index`: a cache line per probe, grows a page at a time)
//!   log       position → record        (`log`, `record`: fixed-size segments in two FIFO queues; `large` beside them; `attributes`)
//!   policy    which record leaves      (`policy`, `decisions`, `turns`, `ghost`, `fingerprints`; `eviction` makes room by them)
//!   what-if   what other sizes would hold   (`what_if`; `sampling` tells it of a sample of the keys)
//!   evicted   a sample of what left for room   (`evicted`)
//!   misses    why a key is not held    (`misses`, `departures`, and what the ghost knows)
//!   wheel     what expires when        (`wheel`: four bytes for an entry that does)
//!   flights   who fetches what         (`flight`; `lookup` joins or leads one, `lead` ends it; `holds`: when not to)
//!   staleness what is out of date, and may be served all the same
//!   derived   what was made from values, and goes with them   (`derived`)
//!   tags      what is cleared together   (`tag_table`, `tag_clears`)
//!   restore   entries that leave with all that belongs to them, and come back   (`restore`, `overtaken`)
//!   shrink    how a lowered bound is reached   (`budget`, `shrink`)
//!   listeners who hear of changes      (`change_listener`, `listener_guard`)
//! ```
//!
//! What holds, always:
//! - Everything that the cache holds is on one account (`budget`), and the account is within the
//!   bound whenever no operation runs. A cache whose bound was lowered comes down to it in steps
//!   ([`Cache::shrink`]), and grows no more meanwhile.
//! - An expired entry is never returned; its room is given back within a second or so, if
//!   [`Cache::tick`] is called.
//! - A fill is stored only if nothing wrote, deleted or invalidated its key since the fetch began.
//! - Lock order: one shard, or several in ascending order; a flight's lock inside a shard's. No
//!   lock is held while a waiter is woken.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod attributes;
mod budget;
mod cache;
mod change_listener;
mod decisions;
mod departures;
mod derived;
mod detached_entry;
mod entry;
mod evicted;
mod eviction;
mod explain;
mod fingerprints;
mod flight;
mod ghost;
mod holds;
mod index;
mod key;
mod large;
mod lead;
mod listener_guard;
mod log;
mod lookup;
mod marks;
mod miss_causes;
mod misses;
mod moment;
mod overtaken;
mod policy;
mod policy_state;
mod queues;
mod record;
mod restore;
mod sampling;
mod shard;
mod shard_common;
mod shrink;
mod stale_rules;
mod staleness;
mod stats;
mod sweep;
mod sweep_state;
mod sync;
mod tag_clears;
mod tag_table;
mod tier;
mod time;
mod turns;
mod version_clock;
mod what_if;
mod wheel;
mod write;

#[cfg(test)]
mod stale_tests;
#[cfg(test)]
mod tag_tests;
#[cfg(test)]
mod tests;

pub use attributes::Attributes;
pub use cache::{Cache, Config, MAX_SHARDS};
pub use change_listener::{Clear, Listener, ListenerKind, Removal};
pub use derived::Derived;
pub use detached_entry::Outside;
pub use entry::{Change, Condition, Entry, Expiry, LargeValue, Stored, TooLarge, Value, Write};
pub use evicted::Evicted;
pub use explain::{Explanation, HeldEntry, HeldKind, NextRead};
pub use flight::{Outcome, Wait};
pub use key::Key;
pub use large::Lent;
pub use lead::{EarlyAnswer, Fill, Lead};
pub use listener_guard::Listening;
pub use lookup::Lookup;
pub use miss_causes::MissCauses;
pub use moment::Moment;
pub use policy::Eviction;
pub use policy_state::PolicyState;
pub use record::{End, MAX_EXPIRY};
pub use restore::{Restore, Restored, RestoredEntry};
pub use shrink::Reservation;
pub use stale_rules::{StaleRules, StaleWindows};
pub use stats::Stats;
pub use tier::Tier;
pub use time::Millis;
pub use what_if::{WhatIf, WhatIfPoint, WhatIfSample};
