//! The decisions of the policy ([`crate::policy`]): who is admitted to which queue, and who leaves.

use crate::{
    ghost::{History, Trace},
    log::Queue,
    policy::{Eviction, HITS, Policy, TURNED_AWAY},
    queues::Queues,
};

/// Entries of main that were read and are skipped, at most, to find one that the door can compare
/// with: for a key that the ghost knows, and for one that it does not. Each skip takes a hit from an
/// entry, so the second is small: strays must not wear down a main that is in use.
const DOOR_TURNS: (usize, usize) = (8, 2);
/// Copies for one eviction, at most; then the oldest is dropped even if it was read.
pub(crate) const TURNS: usize = 32;
/// A return is fast if it took less than this part of the time that main's oldest has lain unread.
const FAST: f32 = 0.4;
/// One in so many unknown keys is tried at the door.
const STRAY_BITS: u32 = 7;

/// The entry that has to leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Victim {
    pub(crate) position: u32,
    pub(crate) hash: u64,
    /// Its lifetime had ended.
    pub(crate) has_ended: bool,
}

impl Policy {
    /// Where a new entry of `weight` bytes goes, and its policy bits.
    pub(crate) fn admit(&mut self, queues: &mut impl Queues, hash: u64, weight: usize) -> (Queue, u8) {
        if self.eviction != Eviction::S3Fifo {
            return self.admit_plainly(hash);
        }
        let small_is_full = queues.live(Queue::Small) as f32 >= self.small_target(queues);
        let Some(history) = &mut self.history else {
            return (if small_is_full { Queue::Main } else { Queue::Small }, 0);
        };
        let memory = history.recall(hash);
        self.vote(memory, queues.entries());
        if small_is_full && queues.has_room() {
            return (Queue::Main, 0);
        }
        let stray = (hash ^ u64::from(self.drops)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - STRAY_BITS) == 0;
        let turns = if memory.small.is_some() { DOOR_TURNS.0 } else { DOOR_TURNS.1 };
        match memory.small.or(stray.then_some(Trace::OLDEST)) {
            None => (Queue::Small, 0),
            Some(trace) if self.passes_the_door(queues, (hash, weight), trace, turns) => (Queue::Main, 0),
            Some(_) => (Queue::Small, TURNED_AWAY),
        }
    }

    fn passes_the_door(
        &mut self,
        queues: &mut impl Queues,
        (hash, weight): (u64, usize),
        trace: Trace,
        mut turns: usize,
    ) -> bool {
        loop {
            let Some(head) = queues.oldest(Queue::Main) else { return true };
            let bits = queues.bits(head);
            let head_hash = queues.hash(head);
            if bits & HITS > 0 && turns > 0 {
                turns -= 1;
                self.second_life(queues, head, head_hash, bits);
                continue;
            }
            let Some(history) = &self.history else { return true };
            // For each byte that they take.
            let wanted = usize::from(history.frequency(hash)) * queues.footprint(head);
            let head_wanted = usize::from(history.frequency(head_hash)) * weight;
            // Where all of these were read, only a key that was wanted more often gets in.
            if wanted != head_wanted || bits & HITS > 0 {
                return wanted > head_wanted;
            }
            let back_after = history.drops_since(trace) + small_entries(queues);
            let unread_for = self.drops.wrapping_sub(queues.oldest_birth()) as f32;
            return back_after <= unread_for * FAST;
        }
    }

    fn small_target(&self, queues: &impl Queues) -> f32 {
        (queues.live(Queue::Small) + queues.live(Queue::Main)) as f32 * self.share
    }

    /// Main's oldest was read: it gives up one hit and goes round once more.
    fn second_life(&mut self, queues: &mut impl Queues, position: u32, hash: u64, bits: u8) {
        self.remember(|history| history.add(hash, 1));
        queues.relocate(position, hash, Queue::Main, bits - 1, self.drops);
    }

    /// Chooses the entry that leaves, and remembers it. `None` if there is none.
    pub(crate) fn next_victim(&mut self, queues: &mut impl Queues) -> Option<Victim> {
        if self.eviction != Eviction::S3Fifo {
            return self.next_in_turn(queues);
        }
        let entries = queues.entries();
        self.fit_history(entries);
        for turn in 0.. {
            let small_is_over = queues.live(Queue::Small) as f32 > self.small_target(queues);
            let mut queue = if small_is_over || queues.live(Queue::Main) == 0 { Queue::Small } else { Queue::Main };
            let mut oldest = queues.oldest(queue);
            if oldest.is_none() || oldest == Some(queues.newest()) {
                let other = queues.oldest(queue.other());
                (queue, oldest) = if other.is_some() { (queue.other(), other) } else { (queue, oldest) };
            }
            let position = oldest?;
            let (hash, bits) = (queues.hash(position), queues.bits(position));
            if position == queues.newest() {
                // Nothing stands before it, but something may stand behind it.
                if entries == 1 {
                    return None;
                }
                queues.relocate(position, hash, queue, bits, self.drops);
                continue;
            }
            if queues.has_ended(position) {
                return Some(Victim { position, hash, has_ended: true });
            }
            let hits = bits & HITS;
            if hits > 0 && turn < TURNS {
                match queue {
                    Queue::Main => self.second_life(queues, position, hash, bits),
                    Queue::Small => {
                        self.remember(|history| history.add(hash, hits));
                        queues.relocate(position, hash, Queue::Main, 0, self.drops);
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
                    self.drops = self.drops.wrapping_add(1);
                }
            }
            return Some(Victim { position, hash, has_ended: false });
        }
        None
    }

    fn remember(&mut self, note: impl FnOnce(&mut History)) {
        if let Some(history) = &mut self.history {
            note(history);
        }
    }
}

/// Entries in small, by its share of the bytes.
fn small_entries(queues: &impl Queues) -> f32 {
    let (small, main) = (queues.live(Queue::Small) as f32, queues.live(Queue::Main) as f32);
    queues.entries() as f32 * small / (small + main).max(1.0)
}
