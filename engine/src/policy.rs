//! The eviction policy: S3-FIFO on a log.

use crate::{
    Millis,
    log::Queue,
    record::{self, Meta},
    shard::{Rules, Shard},
};
use std::hash::BuildHasher;

/// The log is compacted, and nothing evicted, while this much of it is dead.
const SLACK: f32 = 0.25;
/// Segments compacted for one that was opened. Each gives back a quarter or more of itself, most often half.
const COMPACTIONS: usize = 4;

impl Shard {
    pub(crate) fn touched(&self, policy: u8) -> u8 {
        (policy + 1).min(3)
    }

    pub(crate) fn touch(&mut self, position: u32, meta: Meta) {
        let after = self.touched(meta.policy());
        if after != meta.policy() {
            meta.with_policy(after).write(self.log.record_mut(position));
        }
    }

    /// Where a new entry goes.
    pub(crate) fn admit(&mut self, hash: u64) -> (Queue, u8) {
        if self.ghost.take(hash) {
            (Queue::Main, 0)
        } else {
            (Queue::Small, 0)
        }
    }

    /// Compacts if the log has grown over what is dead, and evicts until the cache is within its bound or this shard has nothing left to give but the entry just written.
    pub(crate) fn make_room(&mut self, rules: &Rules, now: Millis) {
        if self.log.take_opened() {
            for _ in 0..COMPACTIONS {
                if self.log.slack() <= SLACK || !self.compact(rules) {
                    break;
                }
            }
        }
        self.settle(&rules.budget);
        while rules.budget.is_over() && self.relieve(rules, now) {}
        self.newest = u32::MAX;
    }

    /// One step of making room. False if there was nothing to give.
    pub(crate) fn relieve(&mut self, rules: &Rules, now: Millis) -> bool {
        let compacted =
            rules.budget.bytes_over() && self.log.slack() > SLACK && self.compact(rules);
        let relieved = compacted || self.evict(rules, now);
        self.settle(&rules.budget);
        relieved
    }

    fn relocate(&mut self, rules: &Rules, position: u32, queue: Queue, policy: u8) {
        let hash = rules.hasher.hash_one(self.log.key(position));
        let moved = self.log.relocate(position, queue, policy);
        self.index.moved(hash, position, moved);
        if self.newest == position {
            self.newest = moved;
        }
    }

    /// Copies what lives in the sparsest segment to its queue's tail. False if none is sparse enough.
    fn compact(&mut self, rules: &Rules) -> bool {
        let Some((queue, records)) = self.log.sparsest(SLACK) else {
            return false;
        };
        for position in records {
            let policy = Meta::read(self.log.record(position)).policy();
            self.relocate(rules, position, queue, policy);
        }
        true
    }

    /// Drops one entry. False if there is none.
    pub(crate) fn evict(&mut self, rules: &Rules, now: Millis) -> bool {
        loop {
            let (small, main) = (self.log.live(Queue::Small), self.log.live(Queue::Main));
            let mut queue = if main == 0 || small * 10 > small + main {
                Queue::Small
            } else {
                Queue::Main
            };
            let Some(mut position) = self.log.oldest(queue) else {
                return false;
            };
            if position == self.newest {
                queue = queue.other();
                let Some(other) = self.log.oldest(queue) else {
                    return false;
                };
                position = other;
            }
            let record = self.log.record(position);
            let meta = Meta::read(record);
            let expired = record::expiry(record, meta).is_some_and(|at| at <= now);
            if !expired && meta.policy() > 0 {
                let left = if queue == Queue::Small {
                    0
                } else {
                    meta.policy() - 1
                };
                self.relocate(rules, position, Queue::Main, left);
                continue;
            }
            let hash = rules.hasher.hash_one(self.log.key(position));
            if expired {
                self.stats.expirations += 1;
            } else {
                self.stats.evictions += u64::from(!meta.is_absent());
                if queue == Queue::Small {
                    let entries = self.index.len();
                    self.ghost.insert(hash, entries);
                }
            }
            self.drop_entry(hash, position);
            return true;
        }
    }
}
