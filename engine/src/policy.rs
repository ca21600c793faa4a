//! The eviction policy: S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023) on a log, with a judged
//! door to main and an adaptive share for small.
//!
//! ```text
//!   new key ──► small ──read meanwhile──► main ──┐ read meanwhile: once more round
//!                 │                        ▲  ▲──┘
//!                 └─unread─► ghost ──door──┘  └──unread─► dropped (noted in main's own ghost)
//! ```
//!
//! - **The door.** A key that the ghost knows goes to main if main's oldest unread entry was wanted less often for its size (sketch), or as
//!   often and the key came back sooner than that entry has lain unread. Otherwise it goes to small, marked as turned away. So a
//!   loop longer than the cache does not flush main. One unknown key in 64 may try the door as well, so that a part of a loop
//!   too long even for the ghost gets in and stays.
//! - **Small's share** of the bytes follows what it would have been good for: a key that comes back just after small dropped it
//!   raises it, one that comes back just after main dropped it lowers it. Keys that were turned away have no vote.
//! - **While the cache fills**, what exceeds small's share goes to main, so that main is never empty.
//!
//! A record's three policy bits: hits (0 to 3), and turned away. A hit changes nothing else.

use crate::{
    Millis,
    ghost::{History, Memory, Trace},
    log::Queue,
    record::{self, Meta},
    shard::{Rules, Shard},
};

const HITS: u8 = 3;
const TURNED_AWAY: u8 = 4;
/// The log is compacted, and nothing evicted, while this much of it is dead.
const SLACK: f32 = 0.25;
/// Bytes that compaction copies, at most, for one that was written. A sparse segment gives back a third or more of what is copied out
/// of it. A little at every write, so that no write holds the shard's lock for long.
const COPIED: usize = 4;
/// Small's share: at first, at least, at most.
const SHARE: (f32, f32, f32) = (0.10, 0.003, 0.90);
/// Entries of main that were read and are passed over, at most, to find one that the door can compare with.
const DOOR_TURNS: usize = 8;
/// Copies for one eviction, at most; then the oldest is dropped even if it was read.
const TURNS: usize = 32;
/// A return is fast if it took less than this part of the time that main's oldest has lain unread.
const FAST: f32 = 0.4;
/// One in so many unknown keys is tried at the door.
const STRAY_BITS: u32 = 6;

/// One shard's adaptive state.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Made at the first eviction.
    history: Option<History>,
    share: f32,
    /// The policy's clock: drops from small. Wraps; only differences are used.
    drops: u32,
}

impl Policy {
    pub(crate) fn new() -> Policy {
        Policy { history: None, share: SHARE.0, drops: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.history.as_ref().map_or(0, History::bytes)
    }

    pub(crate) fn drops(&self) -> u32 {
        self.drops
    }

    fn vote(&mut self, memory: Memory, entries: usize) {
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

impl Shard {
    pub(crate) fn touch(&mut self, position: u32, meta: Meta) {
        let after = touched(meta.policy());
        if after != meta.policy() {
            meta.with_policy(after).write(self.log.record_mut(position));
        }
    }

    /// Where a new entry of `weight` bytes goes, and its policy bits.
    pub(crate) fn admit(&mut self, rules: &Rules, hash: u64, weight: usize) -> (Queue, u8) {
        let small_is_full = self.log.live(Queue::Small) as f32 >= self.small_target();
        let entries = self.index.len();
        let Some(history) = &mut self.policy.history else {
            return (if small_is_full { Queue::Main } else { Queue::Small }, 0);
        };
        let memory = history.recall(hash);
        self.policy.vote(memory, entries);
        if small_is_full && rules.budget.has_room() {
            return (Queue::Main, 0);
        }
        let stray = (hash ^ u64::from(self.policy.drops)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - STRAY_BITS) == 0;
        match memory.small.or(stray.then_some(Trace::OLDEST)) {
            None => (Queue::Small, 0),
            Some(trace) if self.passes_the_door(rules, hash, weight, trace) => (Queue::Main, 0),
            Some(_) => (Queue::Small, TURNED_AWAY),
        }
    }

    fn passes_the_door(&mut self, rules: &Rules, hash: u64, weight: usize, trace: Trace) -> bool {
        for _ in 0..DOOR_TURNS {
            let Some(head) = self.log.oldest(Queue::Main) else { return true };
            let bits = Meta::read(self.log.record(head)).policy();
            let head_hash = self.hash_at(rules, head);
            if bits & HITS > 0 {
                self.second_life(head, head_hash, bits);
                continue;
            }
            let Some(history) = &self.policy.history else { return true };
            // For each byte that they take.
            let wanted = usize::from(history.frequency(hash)) * self.log.footprint(head);
            let head_wanted = usize::from(history.frequency(head_hash)) * weight;
            if wanted != head_wanted {
                return wanted > head_wanted;
            }
            let back_after = history.drops_since(trace) + self.small_entries();
            let unread_for = self.policy.drops.wrapping_sub(self.log.oldest_birth()) as f32;
            return back_after <= unread_for * FAST;
        }
        true
    }

    fn small_target(&self) -> f32 {
        (self.log.live(Queue::Small) + self.log.live(Queue::Main)) as f32 * self.policy.share
    }

    /// Entries in small, by its share of the bytes.
    fn small_entries(&self) -> f32 {
        let (small, main) = (self.log.live(Queue::Small) as f32, self.log.live(Queue::Main) as f32);
        self.index.len() as f32 * small / (small + main).max(1.0)
    }

    /// Compacts if the log has grown over what is dead, and evicts until the cache is within its bound or this shard has
    /// nothing left to give but the entry just written.
    pub(crate) fn make_room(&mut self, rules: &Rules, now: Millis) {
        let mut copies = COPIED * self.log.take_written();
        while copies > 0 && self.log.slack() > SLACK {
            let Some(copied) = self.compact(rules) else { break };
            copies = copies.saturating_sub(copied);
        }
        self.settle(&rules.budget);
        while rules.budget.is_over() && self.relieve(rules, now) {}
        self.newest = u32::MAX;
    }

    /// One step of making room. False if there was nothing to give.
    pub(crate) fn relieve(&mut self, rules: &Rules, now: Millis) -> bool {
        let compacted = rules.budget.bytes_over() && self.log.slack() > SLACK && self.compact(rules).is_some();
        let relieved = compacted || self.evict(rules, now) || (rules.budget.bytes_over() && self.wanted.forget());
        self.settle(&rules.budget);
        relieved
    }

    fn relocate(&mut self, position: u32, hash: u64, queue: Queue, bits: u8) {
        let moved = self.log.relocate(position, queue, bits, self.policy.drops);
        self.index.moved(hash, position, moved);
        if self.newest == position {
            self.newest = moved;
        }
    }

    /// Copies one record out of a sparse segment to its queue's tail, and gives its length.
    fn compact(&mut self, rules: &Rules) -> Option<usize> {
        let (queue, position) = self.log.next_of_sparse(SLACK)?;
        let meta = Meta::read(self.log.record(position));
        let hash = self.hash_at(rules, position);
        self.relocate(position, hash, queue, meta.policy());
        Some(meta.len())
    }

    /// Main's oldest was read: it gives up one hit and goes round once more.
    fn second_life(&mut self, position: u32, hash: u64, bits: u8) {
        self.remember(|history| history.add(hash, 1));
        self.relocate(position, hash, Queue::Main, bits - 1);
    }

    /// Drops one entry. False if there is none.
    fn evict(&mut self, rules: &Rules, now: Millis) -> bool {
        let entries = self.index.len();
        if !self.policy.history.as_ref().is_some_and(|history| history.suits(entries)) {
            self.policy.history = Some(History::new(entries));
        }
        for turn in 0.. {
            let small_is_over = self.log.live(Queue::Small) as f32 > self.small_target();
            let mut queue = if small_is_over || self.log.live(Queue::Main) == 0 { Queue::Small } else { Queue::Main };
            let mut oldest = self.log.oldest(queue);
            if oldest.is_none() || oldest == Some(self.newest) {
                let other = self.log.oldest(queue.other());
                (queue, oldest) = if other.is_some() { (queue.other(), other) } else { (queue, oldest) };
            }
            let Some(position) = oldest else { return false };
            if position == self.newest {
                // Nothing stands before it, but something may stand behind it.
                if entries == 1 {
                    return false;
                }
                let bits = Meta::read(self.log.record(position)).policy();
                let hash = self.hash_at(rules, position);
                self.relocate(position, hash, queue, bits);
                continue;
            }
            let record = self.log.record(position);
            let meta = Meta::read(record);
            let hash = self.hash_at(rules, position);
            if record::expiry(record, meta).is_some_and(|at| at <= now) {
                self.stats.expirations += 1;
                self.tell_of(rules, position);
                self.drop_entry(hash, position);
                return true;
            }
            let (bits, hits) = (meta.policy(), meta.policy() & HITS);
            if hits > 0 && turn < TURNS {
                match queue {
                    Queue::Main => self.second_life(position, hash, bits),
                    Queue::Small => {
                        self.remember(|history| history.add(hash, hits));
                        self.relocate(position, hash, Queue::Main, 0);
                    }
                }
                continue;
            }
            match queue {
                Queue::Main => self.remember(|history| history.dropped_from_main(hash)),
                Queue::Small => {
                    self.remember(|history| {
                        history.add(hash, hits);
                        history.dropped_from_small(hash, bits & TURNED_AWAY != 0);
                    });
                    self.policy.drops = self.policy.drops.wrapping_add(1);
                }
            }
            self.stats.evictions += u64::from(!meta.is_absent() || meta.is_hidden());
            self.tell_of(rules, position);
            self.drop_entry(hash, position);
            return true;
        }
        false
    }

    fn remember(&mut self, note: impl FnOnce(&mut History)) {
        if let Some(history) = &mut self.policy.history {
            note(history);
        }
    }
}
