//! LRU at all sizes: one log of accesses, and for each size how far it has evicted.
//!
//! The last access of a key is the same for all sizes, so its place in the order is, too. A size
//! evicts the key of the oldest access that is its key's last one.

use super::{
    policy_sizes::Bounds,
    slots::{SIZES, Slots, Ticks},
};
use std::collections::VecDeque;

/// The log is rewritten without what is out of date when it has this many times as many accesses
/// as there are keys, and so many more.
const GROWTH: usize = 2;
const SPARE: usize = 256;

#[derive(Debug, Clone, Copy, Default)]
struct LruSize {
    /// Accesses before this one have been looked at.
    next: u64,
    bytes: usize,
    entries: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LruSizes {
    /// Slots in the order of the accesses.
    accesses: VecDeque<u32>,
    /// The number of the first access in the log.
    first: u64,
    sizes: [LruSize; SIZES],
}

impl LruSizes {
    pub(super) fn bytes(&self) -> usize {
        self.accesses.capacity() * size_of::<u32>()
    }

    /// A read: whether this size would have answered it.
    pub(super) fn read(&mut self, slots: &mut Slots, size: usize, number: u32, now: Ticks) -> bool {
        let slot = slots.get(number);
        if !slot.is_in_lru(size) {
            return false;
        }
        let is_fresh = slot.lru_ends[size] > now;
        if !is_fresh {
            self.remove(slots, size, number);
        }
        is_fresh
    }

    /// Makes room for the accesses of so many keys, so that reads need no memory.
    pub(super) fn reserve(&mut self, keys: usize) {
        let wanted = GROWTH * keys + SPARE + 1;
        if self.accesses.capacity() < wanted {
            self.accesses.reserve_exact(wanted + wanted / 4 - self.accesses.len());
        }
    }

    /// A key is the one accessed last.
    pub(super) fn touch(&mut self, slots: &mut Slots, number: u32) {
        slots.get_mut(number).access = self.first + self.accesses.len() as u64;
        self.accesses.push_back(number);
        if self.accesses.len() > GROWTH * slots.len() + SPARE {
            self.rewrite(slots);
        }
    }

    fn rewrite(&mut self, slots: &mut Slots) {
        let mut kept = 0;
        let mut next = [0; SIZES];
        for at in 0..self.accesses.len() {
            let access = self.first + at as u64;
            for (next, size) in next.iter_mut().zip(&self.sizes) {
                *next += u64::from(access < size.next && slots.get(self.accesses[at]).access == access);
            }
            let number = self.accesses[at];
            let slot = slots.get_mut(number);
            if slot.access == access {
                // Numbers after the rewrite are below those before it, so none is met twice.
                slot.access = kept;
                self.accesses[kept as usize] = number;
                kept += 1;
            }
        }
        self.accesses.truncate(kept as usize);
        for number in 0..kept {
            slots.get_mut(self.accesses[number as usize]).access += self.first + (1 << 32);
        }
        self.first += 1 << 32;
        for (size, next) in self.sizes.iter_mut().zip(next) {
            size.next = self.first + next;
        }
    }

    /// Stores a key that this size does not hold, and makes room for it. After
    /// [`touch`](LruSizes::touch).
    pub(super) fn insert(&mut self, slots: &mut Slots, (size, bounds): (usize, Bounds), number: u32, end: Ticks) {
        let slot = slots.get_mut(number);
        if slot.weight > bounds.bytes || bounds.keys == 0 {
            return;
        }
        slot.in_lru |= 1 << size;
        slot.lru_ends[size] = end;
        self.sizes[size].bytes += slot.weight;
        self.sizes[size].entries += 1;
        self.make_room(slots, size, bounds);
    }

    pub(super) fn renew(&self, slots: &mut Slots, size: usize, number: u32, end: Ticks) {
        slots.get_mut(number).lru_ends[size] = end;
    }

    pub(super) fn reweigh(&mut self, slots: &Slots, size: usize, number: u32, before: usize) {
        let slot = slots.get(number);
        if slot.is_in_lru(size) {
            self.sizes[size].bytes = self.sizes[size].bytes + slot.weight - before;
        }
    }

    pub(super) fn make_room(&mut self, slots: &mut Slots, size: usize, bounds: Bounds) {
        while self.sizes[size].bytes > bounds.bytes || self.sizes[size].entries > bounds.keys {
            let access = self.sizes[size].next;
            let Some(&number) = self.accesses.get((access - self.first) as usize) else { return };
            self.sizes[size].next += 1;
            let slot = slots.get(number);
            if slot.access == access && slot.is_in_lru(size) {
                self.remove(slots, size, number);
                slots.free_unheld(number);
            }
        }
    }

    /// Removes a key from a size that holds it; its slot stays.
    pub(super) fn remove(&mut self, slots: &mut Slots, size: usize, number: u32) {
        let slot = slots.get_mut(number);
        slot.in_lru &= !(1 << size);
        self.sizes[size].bytes -= slot.weight;
        self.sizes[size].entries -= 1;
    }
}
