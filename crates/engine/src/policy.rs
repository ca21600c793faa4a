//! The eviction policy: S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction",
//! SOSP 2023) on a log, with a judged door to main and an adaptive share for small.
//!
//! ```text
//!   new key ──► small ──read meanwhile──► main ──┐ read meanwhile: once more round
//!                 │                        ▲  ▲──┘
//!                 └─unread─► ghost ──door──┘  └──unread─► dropped (noted in main's own ghost)
//! ```
//!
//! - **The door.** A key that the ghost knows goes to main if main's oldest unread entry was wanted
//!   less often for its size (sketch), or as often and the key came back sooner than that entry has
//!   lain unread. Otherwise it goes to small, marked as turned away. So a loop longer than the
//!   cache does not flush main. One unknown key in 128 may try the door as well, so that a part of
//!   a loop too long even for the ghost gets in and stays. Where all of main's oldest entries were
//!   read, the key must have been wanted more often than the last of them.
//! - **Small's share** of the bytes follows what it would have been good for: a key that comes back
//!   just after small dropped it raises it, one that comes back just after main dropped it lowers
//!   it. Keys that were turned away have no vote.
//! - **While the cache fills**, what exceeds small's share goes to main, so that main is never
//!   empty.
//!
//! A record's three policy bits: hits (0 to 3), and turned away. A hit changes nothing else.

use crate::{
    ghost::{History, Memory},
    log::Queue,
};

/// Of a record's policy bits: how often it was read.
pub(crate) const HITS: u8 = 3;
/// Of a record's policy bits: the door has turned it away.
pub(crate) const TURNED_AWAY: u8 = 4;
/// Small's share: at first, at least, at most.
const SHARE: (f32, f32, f32) = (0.05, 0.003, 0.90);

/// Which entries leave to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eviction {
    /// S3-FIFO with a judged door and an adaptive share (`policy`).
    #[default]
    S3Fifo,
    /// SIEVE (Zhang and others, "SIEVE is Simpler than LRU", NSDI 2024).
    Sieve,
    /// The least recently read, about: CLOCK. An entry that was read since it came to the head of
    /// its queue goes round once more.
    Lru,
}

/// One shard's adaptive state.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) eviction: Eviction,
    /// Where the plain policies put new entries, and whose oldest is asked next.
    pub(crate) ahead: Queue,
    /// Made at the first eviction.
    pub(crate) history: Option<History>,
    /// Small's share of the bytes.
    pub(crate) share: f32,
    /// The policy's clock: drops from small. Wraps; only differences are used.
    pub(crate) drops: u32,
}

impl Policy {
    pub(crate) fn new(eviction: Eviction) -> Policy {
        Policy { eviction, ahead: Queue::Small, history: None, share: SHARE.0, drops: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.history.as_ref().map_or(0, History::bytes)
    }

    /// Makes the history, or another one if the number of entries has changed much.
    pub(crate) fn fit_history(&mut self, entries: usize) {
        if !self.history.as_ref().is_some_and(|history| history.suits(entries)) {
            self.history = Some(History::new(entries));
        }
    }

    /// A key is back: what it was dropped from should have been larger.
    pub(crate) fn vote(&mut self, memory: Memory, entries: usize) {
        let step = 1.0 / entries.max(1) as f32;
        if memory.small.is_some_and(|trace| trace.is_near() && !trace.turned_away) {
            self.share += step;
        }
        if memory.main {
            self.share -= step;
        }
        self.share = self.share.clamp(SHARE.1, SHARE.2);
    }
}

/// The policy bits of a record that was read or written once more.
pub(crate) fn touched(bits: u8) -> u8 {
    if bits & HITS < HITS { bits + 1 } else { bits }
}
