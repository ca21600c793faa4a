//! The sampled keys: what each would be in each of the simulated sizes.

use crate::{log::Queue, time::Millis};
use hashbrown::HashTable;
use std::ops::{Index, IndexMut};

/// How many sizes are simulated.
pub(crate) const SIZES: usize = 6;
/// No slot, in a list.
pub(super) const NONE: u32 = u32::MAX;
/// Never, in [`Ticks`].
pub(super) const NEVER: Ticks = Ticks::MAX;
/// Moments of the simulation: units of 16 ms since it began, so two years fit.
pub(super) type Ticks = u32;
const TICK_BITS: u32 = 4;

/// How long a value lasts that is fetched or written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasts {
    Forever,
    /// Milliseconds from the moment at which it is stored.
    For(u64),
    Until(Millis),
}

/// What the tier holds of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// Bytes of its record, large value included.
    pub(crate) weight: usize,
    pub(crate) lasts: Lasts,
}

/// A key in one size under the tier's policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct InPolicy {
    pub(super) older: u32,
    pub(super) newer: u32,
    pub(super) end: Ticks,
    /// The policy's clock when it was put into its queue.
    pub(super) birth: u32,
    pub(super) bits: u8,
    /// `None`: it is not held.
    pub(super) queue: Option<Queue>,
}

impl InPolicy {
    const OUT: InPolicy = InPolicy { older: NONE, newer: NONE, end: 0, birth: 0, bits: 0, queue: None };
}

/// One sampled key.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) hash: u64,
    pub(super) weight: usize,
    pub(super) lasts: Lasts,
    /// Number of its last access.
    pub(super) access: u64,
    /// The tier missed it when it was read last, so a fill is to come.
    pub(super) is_missed: bool,
    pub(super) policy: [InPolicy; SIZES],
    /// Its end in each size under LRU.
    pub(super) lru_ends: [Ticks; SIZES],
    /// Bit i: size i holds it under LRU.
    pub(super) in_lru: u8,
}

impl Slot {
    fn new(hash: u64, held: Held) -> Slot {
        Slot {
            hash,
            weight: held.weight,
            lasts: held.lasts,
            access: u64::MAX,
            is_missed: false,
            policy: [InPolicy::OUT; SIZES],
            lru_ends: [0; SIZES],
            in_lru: 0,
        }
    }

    pub(super) fn is_in_lru(&self, size: usize) -> bool {
        self.in_lru & 1 << size != 0
    }

    fn is_held(&self) -> bool {
        self.in_lru != 0 || self.policy.iter().any(|place| place.queue.is_some())
    }
}

/// Slots by number, in parts of equal size: more slots need no copies of those that there are.
#[derive(Debug, Default)]
pub(super) struct SlotTable {
    parts: Vec<Vec<Slot>>,
}

/// Slots of a part.
const PART: usize = 64;

impl SlotTable {
    pub(super) fn len(&self) -> usize {
        self.parts.last().map_or(0, |last| (self.parts.len() - 1) * PART + last.len())
    }

    fn push(&mut self, slot: Slot) {
        match self.parts.last_mut().filter(|last| last.len() < PART) {
            Some(last) => last.push(slot),
            None => {
                let mut part = Vec::with_capacity(PART);
                part.push(slot);
                self.parts.push(part);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.parts.len() * PART * size_of::<Slot>() + self.parts.capacity() * size_of::<Vec<Slot>>()
    }
}

impl Index<u32> for SlotTable {
    type Output = Slot;

    fn index(&self, number: u32) -> &Slot {
        &self.parts[number as usize / PART][number as usize % PART]
    }
}

impl IndexMut<u32> for SlotTable {
    fn index_mut(&mut self, number: u32) -> &mut Slot {
        &mut self.parts[number as usize / PART][number as usize % PART]
    }
}

/// All sampled keys that at least one size holds.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) slots: SlotTable,
    free: Vec<u32>,
    by_hash: HashTable<u32>,
    /// The moment of the first event.
    began: Option<Millis>,
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots { slots: SlotTable::default(), free: Vec::new(), by_hash: HashTable::new(), began: None }
    }

    /// Moments count from the first event on.
    pub(super) fn begin(&mut self, now: Millis) {
        self.began.get_or_insert(now);
    }

    /// The slots whose keys have hashes like this.
    pub(super) fn numbers(&self, like: impl Fn(u64) -> bool) -> impl Iterator<Item = u32> {
        self.by_hash.iter().copied().filter(move |number| like(self.get(*number).hash))
    }

    pub(super) fn len(&self) -> usize {
        self.by_hash.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes() + self.free.capacity() * 4 + self.by_hash.allocation_size()
    }

    pub(super) fn find(&self, hash: u64) -> Option<u32> {
        self.by_hash.find(hash, |slot| self.slots[*slot].hash == hash).copied()
    }

    pub(super) fn add(&mut self, hash: u64, held: Held) -> u32 {
        let new = Slot::new(hash, held);
        let number = match self.free.pop() {
            Some(free) => {
                self.slots[free] = new;
                free
            }
            None => {
                self.slots.push(new);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        self.by_hash.insert_unique(hash, number, |slot| slots[*slot].hash);
        number
    }

    /// Gives a slot back if no size holds its key any more.
    pub(super) fn free_unheld(&mut self, number: u32) {
        let slot = &self.slots[number];
        if slot.is_held() {
            return;
        }
        if let Ok(found) = self.by_hash.find_entry(slot.hash, |held| *held == number) {
            found.remove();
            self.free.push(number);
            // The log of accesses need not keep its place.
            self.slots[number].access = u64::MAX;
        }
    }

    pub(super) fn get(&self, number: u32) -> &Slot {
        &self.slots[number]
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Slot {
        &mut self.slots[number]
    }

    pub(super) fn ticks(&self, now: Millis) -> Ticks {
        let since = now.saturating_sub(self.began.unwrap_or(now));
        u32::try_from(since >> TICK_BITS).unwrap_or(NEVER - 1)
    }

    /// When a value ends that is stored now; `None`: it is over already.
    pub(super) fn end(&self, lasts: Lasts, now: Millis) -> Option<Ticks> {
        match lasts {
            Lasts::Forever => Some(NEVER),
            Lasts::For(time) => Some(self.end_at(now.saturating_add(time), now)),
            Lasts::Until(at) if at <= now => None,
            Lasts::Until(at) => Some(self.end_at(at, now)),
        }
    }

    /// The nearest tick, so that lifetimes are right in the mean.
    fn end_at(&self, at: Millis, now: Millis) -> Ticks {
        self.ticks(at.saturating_add(1 << (TICK_BITS - 1))).max(self.ticks(now) + 1)
    }
}
