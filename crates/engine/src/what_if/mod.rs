//! What-if: the hit ratio that the tier would have at other sizes, and that LRU would have, from a
//! live simulation of a sample of its keys.
//!
//! ```text
//!  reads, fills, writes, deletes ──sampled by hash?──┐  no: one multiplication and one comparison
//!                                                    v
//!  simulation   slots: hash, size, lifetime     (`slots`; no keys, no values)
//!               ├─ the policy at six sizes      (`policy_sizes`: `crate::decisions` on lists of slots)
//!               └─ LRU at six sizes             (`lru_sizes`: one log of accesses, six ends)
//!  curve        counts, corrected by what the tier itself counted   (`curve`)
//! ```
//!
//! Keys are sampled by their hash, as in SHARDS (Waldspurger and others, "Efficient MRC
//! Construction with SHARDS", FAST 2015), and each size is simulated whole with the bound times the
//! share of keys sampled (the same authors, "Cache Modeling and Optimization using Miniature
//! Simulations", ATC 2017).
//!
//! What holds, always:
//! - A key that is not sampled costs no memory, no lock and no shared cache line.
//! - A sampled one never waits: if another core simulates at this moment, the event is left out.
//! - Memory and work are bounded: at a number of keys that depends on the tier's bytes and on how
//!   full it is (at most [`MOST_KEYS`](simulation::MOST_KEYS)), or beyond the share of work, the share
//!   of keys sampled is halved.

mod curve;
mod handle;
mod lru_sizes;
mod policy_sizes;
mod simulation;
mod slots;
#[cfg(test)]
mod tests;

pub use curve::{WhatIf, WhatIfPoint};
pub use handle::WhatIfSample;
pub(crate) use handle::{CacheSizes, Simulated};
pub(crate) use simulation::is_sampled;
pub(crate) use slots::{Held, Lasts};
