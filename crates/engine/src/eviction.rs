//! Room is made: compaction of the log, and evictions as the policy decides
//! ([`crate::decisions`]).

use crate::{
    change_listener::Removal,
    decisions::Victim,
    departures::Departure,
    index::Index,
    log::{Log, Queue},
    queues::Queues,
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

/// The queues of a shard's log, as the policy sees them.
struct LogQueues<'s> {
    log: &'s mut Log,
    index: &'s mut Index,
    newest: &'s mut u32,
    rules: &'s Rules,
    now: Millis,
}

impl Queues for LogQueues<'_> {
    fn entries(&self) -> usize {
        self.index.len()
    }

    fn live(&self, queue: Queue) -> usize {
        self.log.live(queue)
    }

    fn oldest(&mut self, queue: Queue) -> Option<u32> {
        // Where there are too many keys only, an empty segment is room for the next ones.
        self.log.oldest(queue, !self.rules.budget.bytes_over())
    }

    fn bits(&self, position: u32) -> u8 {
        Meta::read(self.log.record(position)).policy()
    }

    fn hash(&self, position: u32) -> u64 {
        self.rules.hash(self.log.key(position))
    }

    fn footprint(&self, position: u32) -> usize {
        self.log.footprint(position)
    }

    fn has_ended(&self, position: u32) -> bool {
        let record = self.log.record(position);
        let end = record::end(record, Meta::read(record));
        end.is_some_and(|end| Shard::due(self.rules, end.at, end.is_soft, self.now) <= self.now)
    }

    fn oldest_birth(&mut self) -> u32 {
        self.log.oldest_birth()
    }

    fn relocate(&mut self, position: u32, hash: u64, queue: Queue, bits: u8, birth: u32) {
        let moved = self.log.relocate(position, queue, bits, birth);
        self.index.moved(hash, position, moved);
        if *self.newest == position {
            *self.newest = moved;
        }
    }

    fn newest(&self) -> u32 {
        *self.newest
    }

    fn has_room(&self) -> bool {
        self.rules.budget.has_room()
    }
}

impl Shard {
    /// Where a new entry of `weight` bytes goes, and its policy bits.
    pub(crate) fn admit(&mut self, rules: &Rules, hash: u64, weight: usize, now: Millis) -> (Queue, u8) {
        let Shard { log, index, newest, policy, .. } = self;
        policy.admit(&mut LogQueues { log, index, newest, rules, now }, hash, weight)
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

    /// Drops one entry. False if there is none.
    fn evict(&mut self, rules: &Rules, now: Millis) -> bool {
        let Shard { log, index, newest, policy, .. } = self;
        let victim = policy.next_victim(&mut LogQueues { log, index, newest, rules, now });
        let Some(Victim { position, hash, has_ended }) = victim else { return false };
        if has_ended {
            self.stats.expirations += 1;
            self.note_departure(hash, Departure::Expired);
        } else {
            let meta = Meta::read(self.log.record(position));
            self.stats.evictions += u64::from(!meta.is_absent() || meta.is_hidden());
            rules.evicted.note(self.stats.evictions, &self.log, position, &self.clock, now);
        }
        self.tell_of(rules, position);
        self.tell_removed(rules, position, if has_ended { Removal::Expired } else { Removal::Evicted });
        self.drop_entry(hash, position);
        true
    }
}
