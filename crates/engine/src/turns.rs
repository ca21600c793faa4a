//! The decisions of the plain policies ([`Eviction::Sieve`] and [`Eviction::Lru`]): one queue, from
//! whose oldest end entries are asked in turn whether they were read.
//!
//! ```text
//!            SIEVE                                   LRU, by CLOCK
//!   hand ──► ahead ◄── new keys              ahead ◄── new keys
//!              │ read meanwhile                │ └──── read meanwhile
//!              ▼                               └─unread─► dropped
//!            behind ── ahead is empty: they change their roles
//! ```
//!
//! SIEVE's entries stay where they are when the hand passes them. In a log nothing can stay, so what
//! lies behind the hand is a queue of its own. When the hand has come to the newest entry, it begins
//! again with the oldest: the two queues change their roles.

use crate::{
    decisions::{TURNS, Victim},
    log::Queue,
    policy::{Eviction, HITS, Policy},
    policy_state::PolicyState,
    queues::Queues,
};

impl Policy {
    /// Where a new entry goes, and its policy bits.
    #[cold]
    pub(crate) fn admit_plainly(&mut self, hash: u64) -> (Queue, u8) {
        if let Some(history) = &mut self.history {
            history.recall(hash);
        }
        (self.ahead, 0)
    }

    /// The place of an entry of which the policy's state is known, maybe that of another policy.
    pub(crate) fn place(&self, known: PolicyState) -> (Queue, u8) {
        match self.eviction {
            Eviction::S3Fifo => known.place(),
            Eviction::Sieve | Eviction::Lru => (self.ahead, (known.frequency & HITS).min(1)),
        }
    }

    /// Chooses the entry that leaves, and remembers it for the causes of misses. `None` if there is
    /// none.
    #[cold]
    pub(crate) fn next_in_turn(&mut self, queues: &mut impl Queues) -> Option<Victim> {
        let entries = queues.entries();
        self.fit_history(entries);
        for turn in 0.. {
            let position = match queues.oldest(self.ahead) {
                Some(position) => position,
                None => {
                    self.ahead = self.ahead.other();
                    queues.oldest(self.ahead)?
                }
            };
            let (hash, bits) = (queues.hash(position), queues.bits(position));
            if position == queues.newest() {
                if entries == 1 {
                    return None;
                }
                // The queue that will be asked last.
                let is_alone = queues.live(self.ahead) == queues.footprint(position);
                let to = if is_alone { self.ahead.other() } else { self.ahead };
                queues.relocate(position, hash, to, bits, 0);
                continue;
            }
            let has_ended = queues.has_ended(position);
            if !has_ended && bits & HITS > 0 && turn < TURNS {
                let to = if self.eviction == Eviction::Sieve { self.ahead.other() } else { self.ahead };
                queues.relocate(position, hash, to, 0, 0);
                continue;
            }
            if let Some(history) = self.history.as_mut().filter(|_| !has_ended) {
                history.dropped_from_small(hash, false);
            }
            return Some(Victim { position, hash, has_ended });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cache, Config, Eviction, Write};
    use proptest::prelude::*;

    /// The policies as their papers have them, on one list, oldest first.
    struct Reference {
        eviction: Eviction,
        entries: usize,
        queue: Vec<(u8, bool)>,
        hand: usize,
    }

    impl Reference {
        fn read(&mut self, key: u8) -> bool {
            if let Some(held) = self.queue.iter_mut().find(|held| held.0 == key) {
                held.1 = true;
                return true;
            }
            self.queue.push((key, false));
            if self.queue.len() > self.entries {
                self.evict(key);
            }
            false
        }

        /// As the tier does it: the new entry is there already, and stays.
        fn evict(&mut self, newest: u8) {
            loop {
                let (key, was_read) = self.queue[self.hand];
                match (was_read, self.eviction) {
                    (_, Eviction::Sieve) if key == newest => self.hand = 0,
                    (true, Eviction::Sieve) => {
                        self.queue[self.hand].1 = false;
                        self.hand += 1;
                    }
                    (false, _) if key != newest => {
                        self.queue.remove(self.hand);
                        return;
                    }
                    _ => {
                        self.queue.remove(0);
                        self.queue.push((key, false));
                    }
                }
            }
        }
    }

    fn assert_same(eviction: Eviction, entries: usize, keys: &[u8]) {
        let config = Config { max_keys: Some(entries), shards: Some(1), seed: Some(1), eviction, ..Config::default() };
        let (cache, mut reference) = (Cache::new(config), Reference { eviction, entries, queue: Vec::new(), hand: 0 });
        let mut tier = cache.tier();
        for (at, name) in keys.iter().enumerate() {
            let bytes = [*name];
            let key = cache.key(&bytes);
            let is_hit = tier.get(key, 0, |_| ()).is_some();
            if !is_hit {
                tier.set(key, Write::new(b"v"), 0).expect("it fits");
            }
            assert_eq!(is_hit, reference.read(*name), "{eviction:?} with {entries} entries, request {at} of {keys:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

        #[test]
        fn the_plain_policies_are_those_of_their_papers(
            entries in 1..20_usize,
            keys in prop::collection::vec(0..40_u8, 1..if cfg!(miri) { 60 } else { 600 }),
        ) {
            assert_same(Eviction::Sieve, entries, &keys);
            assert_same(Eviction::Lru, entries, &keys);
        }
    }

    #[test]
    fn an_evicted_key_is_known_as_evicted() {
        for eviction in [Eviction::Sieve, Eviction::Lru] {
            let cache = Cache::new(Config { max_keys: Some(100), shards: Some(1), eviction, ..Config::default() });
            let mut tier = cache.tier();
            for n in 0..150_u32 {
                tier.set(cache.key(&n.to_le_bytes()), Write::new(b"v"), 0).expect("it fits");
            }
            for n in 0..50_u32 {
                assert!(tier.get(cache.key(&n.to_le_bytes()), 0, |_| ()).is_none());
            }
            drop(tier);
            let causes = cache.stats().miss_causes;
            assert!(causes.evicted > 45 && causes.unknown < 5, "{causes:?}");
            assert_eq!(cache.eviction(), eviction);
        }
    }
}
