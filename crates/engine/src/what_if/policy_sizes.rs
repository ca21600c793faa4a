//! The tier's policy at one size: the real decisions, on lists of slots instead of a log.

use super::slots::{NONE, SlotTable, Slots, Ticks};
use crate::{
    log::Queue,
    policy::{Eviction, Policy, touched},
    queues::Queues,
};

/// What a size can hold of the sampled keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    pub(super) bytes: usize,
    pub(super) keys: usize,
}

/// A doubly linked list through the slots, oldest first.
#[derive(Debug, Clone, Copy)]
struct List {
    oldest: u32,
    newest: u32,
    bytes: usize,
}

impl List {
    const EMPTY: List = List { oldest: NONE, newest: NONE, bytes: 0 };
}

/// One size under the tier's policy.
#[derive(Debug)]
pub(super) struct PolicySize {
    size: usize,
    policy: Policy,
    lists: Lists,
}

#[derive(Debug)]
struct Lists {
    small: List,
    main: List,
    entries: usize,
    bounds: Bounds,
}

impl Lists {
    fn list(&self, queue: Queue) -> &List {
        match queue {
            Queue::Small => &self.small,
            Queue::Main => &self.main,
        }
    }

    fn list_mut(&mut self, queue: Queue) -> &mut List {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    fn bytes(&self) -> usize {
        self.small.bytes + self.main.bytes
    }

    fn is_over(&self) -> bool {
        self.bytes() > self.bounds.bytes || self.entries > self.bounds.keys
    }

    fn push(&mut self, slots: &mut SlotTable, size: usize, number: u32, queue: Queue) {
        let list = self.list_mut(queue);
        let before = std::mem::replace(&mut list.newest, number);
        list.bytes += slots[number].weight;
        match before {
            NONE => list.oldest = number,
            before => slots[before].policy[size].newer = number,
        }
        let place = &mut slots[number].policy[size];
        (place.older, place.newer, place.queue) = (before, NONE, Some(queue));
        self.entries += 1;
    }

    fn take(&mut self, slots: &mut SlotTable, size: usize, number: u32) {
        let (place, weight) = (slots[number].policy[size], slots[number].weight);
        let Some(queue) = place.queue else { return };
        let list = self.list_mut(queue);
        list.bytes -= weight;
        match place.older {
            NONE => list.oldest = place.newer,
            older => slots[older].policy[size].newer = place.newer,
        }
        match place.newer {
            NONE => list.newest = place.older,
            newer => slots[newer].policy[size].older = place.older,
        }
        slots[number].policy[size].queue = None;
        self.entries -= 1;
    }
}

/// The lists and the slots, as the policy sees them. A position is the number of a slot.
struct SlotQueues<'s> {
    slots: &'s mut SlotTable,
    lists: &'s mut Lists,
    size: usize,
    newest: u32,
    now: Ticks,
}

impl Queues for SlotQueues<'_> {
    fn entries(&self) -> usize {
        self.lists.entries
    }

    fn live(&self, queue: Queue) -> usize {
        self.lists.list(queue).bytes
    }

    fn oldest(&mut self, queue: Queue) -> Option<u32> {
        Some(self.lists.list(queue).oldest).filter(|oldest| *oldest != NONE)
    }

    fn bits(&self, position: u32) -> u8 {
        self.slots[position].policy[self.size].bits
    }

    fn hash(&self, position: u32) -> u64 {
        self.slots[position].hash
    }

    fn footprint(&self, position: u32) -> usize {
        self.slots[position].weight
    }

    fn has_ended(&self, position: u32) -> bool {
        self.slots[position].policy[self.size].end <= self.now
    }

    fn oldest_birth(&mut self) -> u32 {
        match self.lists.main.oldest {
            NONE => 0,
            oldest => self.slots[oldest].policy[self.size].birth,
        }
    }

    fn relocate(&mut self, position: u32, _hash: u64, queue: Queue, bits: u8, birth: u32) {
        self.lists.take(self.slots, self.size, position);
        self.lists.push(self.slots, self.size, position, queue);
        let place = &mut self.slots[position].policy[self.size];
        (place.bits, place.birth) = (bits, birth);
    }

    fn newest(&self) -> u32 {
        self.newest
    }

    fn has_room(&self) -> bool {
        let Bounds { bytes, keys } = self.lists.bounds;
        self.lists.bytes() < bytes - bytes / 32 && self.lists.entries < keys
    }
}

impl PolicySize {
    pub(super) fn new(size: usize, eviction: Eviction, bounds: Bounds) -> PolicySize {
        let lists = Lists { small: List::EMPTY, main: List::EMPTY, entries: 0, bounds };
        PolicySize { size, policy: Policy::new(eviction), lists }
    }

    /// It is full for the first time: nothing was evicted yet.
    pub(super) fn has_just_filled(&self) -> bool {
        let Bounds { bytes, keys } = self.lists.bounds;
        self.policy.history.is_none() && (self.lists.entries >= keys || self.lists.bytes() >= bytes - bytes / 64)
    }

    /// The share of its bound that it holds: of the bytes or of the keys, whichever is larger.
    pub(super) fn fullness(&self) -> f64 {
        let share = |held: usize, bound: usize| held as f64 / bound.max(1) as f64;
        let Lists { entries, bounds, .. } = self.lists;
        share(self.lists.bytes(), bounds.bytes).max(share(entries, bounds.keys))
    }

    pub(super) fn set_bounds(&mut self, bounds: Bounds) {
        self.lists.bounds = bounds;
    }

    pub(super) fn bytes(&self) -> usize {
        self.policy.bytes()
    }

    /// A read: whether this size would have answered it.
    pub(super) fn read(&mut self, slots: &mut Slots, number: u32, now: Ticks) -> bool {
        let place = &mut slots.get_mut(number).policy[self.size];
        if place.queue.is_none() {
            return false;
        }
        if place.end <= now {
            self.remove(slots, number);
            return false;
        }
        place.bits = touched(place.bits);
        true
    }

    pub(super) fn holds(&self, slots: &Slots, number: u32) -> bool {
        slots.get(number).policy[self.size].queue.is_some()
    }

    /// Stores a key that this size does not hold, and makes room for it.
    pub(super) fn insert(&mut self, slots: &mut Slots, number: u32, end: Ticks, now: Ticks) {
        let (hash, weight) = (slots.get(number).hash, slots.get(number).weight);
        if weight > self.lists.bounds.bytes || self.lists.bounds.keys == 0 {
            return;
        }
        let PolicySize { size, policy, lists } = self;
        let mut queues = SlotQueues { slots: &mut slots.slots, lists, size: *size, newest: number, now };
        let (queue, bits) = policy.admit(&mut queues, hash, weight);
        queues.lists.push(queues.slots, *size, number, queue);
        let place = &mut queues.slots[number].policy[*size];
        (place.end, place.bits, place.birth) = (end, bits, policy.drops);
        self.make_room(slots, number, now);
    }

    /// A key that is held was stored again.
    pub(super) fn renew(&self, slots: &mut Slots, number: u32, end: Ticks) {
        let place = &mut slots.get_mut(number).policy[self.size];
        (place.end, place.bits) = (end, touched(place.bits));
    }

    /// The size of a key changes from `before` to that of its slot.
    pub(super) fn reweigh(&mut self, slots: &Slots, number: u32, before: usize) {
        let slot = slots.get(number);
        if let Some(queue) = slot.policy[self.size].queue {
            let list = self.lists.list_mut(queue);
            list.bytes = list.bytes + slot.weight - before;
        }
    }

    pub(super) fn make_room(&mut self, slots: &mut Slots, newest: u32, now: Ticks) {
        while self.lists.is_over() {
            let PolicySize { size, policy, lists } = self;
            let mut queues = SlotQueues { slots: &mut slots.slots, lists, size: *size, newest, now };
            let Some(victim) = policy.next_victim(&mut queues) else { return };
            self.remove(slots, victim.position);
            slots.free_unheld(victim.position);
        }
    }

    /// Removes a key; its slot stays.
    pub(super) fn remove(&mut self, slots: &mut Slots, number: u32) {
        self.lists.take(&mut slots.slots, self.size, number);
    }
}
