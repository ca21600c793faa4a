//! Who is admitted to which queue and who leaves, by the rules of the policy (`policy`): admission,
//! eviction, compaction.

use crate::{
    departures::Departure,
    ghost::{History, Trace},
    log::Queue,
    policy::{HITS, TURNED_AWAY},
    record::{self, Meta},
    shard::Shard,
    shard_common::Rules,
    time::Millis,
};

/// The log is compacted, and nothing evicted, while this much of it is dead.
const SLACK: f32 = 0.25;
/// Bytes that compaction copies, at most, for one that was written. A sparse segment gives back a
/// third or more of what is copied out of it. A little at every write, so that no write holds the
/// shard's lock for long.
const COPIED: usize = 4;
/// Entries of main that were read and are skipped, at most, to find one that the door can compare
/// with.
const DOOR_TURNS: usize = 8;
/// Copies for one eviction, at most; then the oldest is dropped even if it was read.
const TURNS: usize = 32;
/// A return is fast if it took less than this part of the time that main's oldest has lain unread.
const FAST: f32 = 0.4;
/// One in so many unknown keys is tried at the door.
const STRAY_BITS: u32 = 6;

impl Shard {
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
            let Some(head) = self.log.oldest(Queue::Main, !rules.budget.bytes_over()) else { return true };
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

    /// Compacts if the log has grown over what is dead, and evicts until the cache is within its
    /// bound or this shard has nothing left to give but the entry just written.
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
        let relieved = compacted || self.evict(rules, now) || (rules.budget.bytes_over() && self.forget_wanted());
        self.settle(&rules.budget);
        relieved
    }

    fn forget_wanted(&mut self) -> bool {
        self.side_changed = true;
        self.wanted.forget() | self.departures.forget()
    }

    pub(crate) fn relocate(&mut self, position: u32, hash: u64, queue: Queue, bits: u8) {
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
            // Where there are too many keys only, an empty segment is room for the next ones.
            let keep_tail = !rules.budget.bytes_over();
            let mut oldest = self.log.oldest(queue, keep_tail);
            if oldest.is_none() || oldest == Some(self.newest) {
                let other = self.log.oldest(queue.other(), keep_tail);
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
            if record::end(record, meta).is_some_and(|end| Shard::due(rules, end.at, end.is_soft, now) <= now) {
                self.stats.expirations += 1;
                self.note_departure(hash, Departure::Expired);
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
