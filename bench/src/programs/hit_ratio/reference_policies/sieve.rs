//! SIEVE: Zhang and others, "SIEVE is Simpler than LRU: an Efficient Turn-Key Eviction Algorithm
//! for Web Caches", NSDI 2024.
use super::{
    links::{Links, List, NONE},
    reference_policy::{KeyMap, ReferencePolicy},
};

#[derive(Debug, Clone, Copy)]
struct Slot {
    key: u64,
    is_visited: bool,
}

/// One queue, and a hand that goes from its oldest key to its newest.
#[derive(Debug)]
pub(in super::super) struct Sieve {
    entries: usize,
    by_key: KeyMap<u32>,
    slots: Vec<Slot>,
    links: Links,
    queue: List,
    hand: u32,
}

impl Sieve {
    /// Frees the slot of the next key that was not read since the hand passed it.
    fn evict(&mut self) -> u32 {
        let mut at = if self.hand == NONE { self.queue.oldest } else { self.hand };
        while std::mem::take(&mut self.slots[at as usize].is_visited) {
            at = self.links.newer(at);
            at = if at == NONE { self.queue.oldest } else { at };
        }
        self.hand = self.links.newer(at);
        self.links.take(&mut self.queue, at);
        self.by_key.remove(&self.slots[at as usize].key);
        at
    }
}

impl ReferencePolicy for Sieve {
    const NAME: &'static str = "sieve";

    fn new(entries: usize) -> Sieve {
        let (by_key, slots, links) = (KeyMap::default(), Vec::new(), Links::default());
        Sieve { entries: entries.max(1), by_key, slots, links, queue: List::EMPTY, hand: NONE }
    }

    fn request(&mut self, key: u64) -> bool {
        if let Some(slot) = self.by_key.get(&key) {
            self.slots[*slot as usize].is_visited = true;
            return true;
        }
        let new = Slot { key, is_visited: false };
        let slot = if self.by_key.len() < self.entries {
            self.slots.push(new);
            self.links.add()
        } else {
            let slot = self.evict();
            self.slots[slot as usize] = new;
            slot
        };
        self.links.push(&mut self.queue, slot);
        self.by_key.insert(key, slot);
        false
    }
}
