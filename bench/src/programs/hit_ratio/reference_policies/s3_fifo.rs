//! S3-FIFO: Yang and others, "FIFO Queues are All You Need for Cache Eviction", SOSP 2023,
//! algorithm 1, with the paper's sizes.
use super::reference_policy::{KeyMap, ReferencePolicy};
use std::collections::VecDeque;

/// Small's share of the keys.
const SMALL: f64 = 0.1;
/// Reads that are counted, at most.
const MOST_READS: u8 = 3;
/// Reads in small from which on a key moves to main.
const READS_FOR_MAIN: u8 = 2;

/// Two queues and a ghost with as many keys as main.
#[derive(Debug)]
pub(in super::super) struct S3Fifo {
    entries: usize,
    /// Reads of the keys that are held.
    reads: KeyMap<u8>,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    /// Keys dropped from small, with the number of the drop.
    ghost: KeyMap<u64>,
    ghost_queue: VecDeque<(u64, u64)>,
    drops: u64,
}

impl S3Fifo {
    fn small_size(&self) -> usize {
        ((self.entries as f64 * SMALL) as usize).max(1)
    }

    fn evict(&mut self) {
        let from_small = self.small.len() >= self.small_size() || self.main.is_empty();
        while self.reads.len() >= self.entries {
            if from_small && !self.small.is_empty() { self.evict_small() } else { self.evict_main() }
        }
    }

    /// Moves keys that were read to main, until one leaves.
    fn evict_small(&mut self) {
        while let Some(key) = self.small.pop_front() {
            if self.reads[&key] < READS_FOR_MAIN {
                self.reads.remove(&key);
                self.remember(key);
                return;
            }
            self.reads.insert(key, 0);
            self.main.push_back(key);
        }
    }

    fn evict_main(&mut self) {
        while let Some(key) = self.main.pop_front() {
            let reads = self.reads.get_mut(&key).expect("a queue's keys are held");
            if *reads == 0 {
                self.reads.remove(&key);
                return;
            }
            *reads -= 1;
            self.main.push_back(key);
        }
    }

    fn remember(&mut self, key: u64) {
        self.drops += 1;
        self.ghost.insert(key, self.drops);
        self.ghost_queue.push_back((key, self.drops));
        while self.ghost.len() > self.entries - self.small_size().min(self.entries - 1) {
            let Some((key, drop)) = self.ghost_queue.pop_front() else { return };
            if self.ghost.get(&key) == Some(&drop) {
                self.ghost.remove(&key);
            }
        }
    }
}

impl ReferencePolicy for S3Fifo {
    const NAME: &'static str = "s3_fifo";

    fn new(entries: usize) -> S3Fifo {
        S3Fifo {
            entries: entries.max(1),
            reads: KeyMap::default(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: KeyMap::default(),
            ghost_queue: VecDeque::new(),
            drops: 0,
        }
    }

    fn request(&mut self, key: u64) -> bool {
        if let Some(reads) = self.reads.get_mut(&key) {
            *reads = (*reads + 1).min(MOST_READS);
            return true;
        }
        self.evict();
        let is_known = self.ghost.remove(&key).is_some();
        if is_known {
            self.main.push_back(key)
        } else {
            self.small.push_back(key)
        }
        self.reads.insert(key, 0);
        false
    }
}
