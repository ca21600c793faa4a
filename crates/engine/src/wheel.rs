//! The timing wheel: which entries expire when, in four bytes each.
//!
//! Four levels of 64 slots; a slot of the first spans 256 ms, each further level 64 times more (16
//! s, 17 min, 18 h; the last level's horizon is 49 days and what lies beyond waits in its farthest
//! slot). A slot holds [`Hint`]s, not positions: entries move in the log and are deleted without
//! telling the wheel. When a slot is due, its hints are looked up; what has expired is
//! removed, what has not is put into the slot of its real expiry. An entry's hint always waits in a
//! slot that is due at or before its expiry.

use crate::{index::Hint, time::Millis};

const LEVELS: usize = 4;
const SLOTS: usize = 64;
const SLOT_BITS: u32 = 6;
/// The first level's slot is 2^8 ms.
const TICK_BITS: u32 = 8;
/// Hints of a due slot that are handed out at a time: the shard is locked meanwhile.
const PART: usize = 128;

#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Vec<Vec<Hint>>,
    /// What is left of the slot that is due.
    due: Vec<Hint>,
    /// Ticks that have been turned to.
    tick: u64,
    len: usize,
    bytes: usize,
    /// Where the sweep for hints of vanished entries stands: slot and place in it.
    sweep: (usize, usize),
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel { slots: Vec::new(), due: Vec::new(), tick: 0, len: 0, bytes: 0, sweep: (0, 0) }
    }

    /// Hints held, those of vanished entries included.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.slots.capacity() * size_of::<Vec<Hint>>()
    }

    pub(crate) fn add(&mut self, hint: Hint, expiry: Millis, now: Millis) {
        if self.slots.is_empty() {
            self.slots.resize_with(LEVELS * SLOTS, Vec::new);
        }
        if self.len == 0 {
            self.tick = self.tick.max(now >> TICK_BITS);
        }
        // One tick later than the expiry's own, so that everything in a due slot of the first level has
        // really expired.
        let due = ((expiry >> TICK_BITS) + 1).max(self.tick + 1);
        let ahead = due - self.tick;
        let level = (0..LEVELS as u32 - 1).find(|l| ahead < 1 << (SLOT_BITS * (l + 1))).unwrap_or(LEVELS as u32 - 1);
        // In a coarse level the slot is turned to when its span begins: at or before `due`.
        let horizon = self.tick + (1 << (SLOT_BITS * LEVELS as u32)) - 1;
        let number = (due.min(horizon) >> (SLOT_BITS * level)) as usize % SLOTS;
        let slot = &mut self.slots[level as usize * SLOTS + number];
        let before = slot.capacity();
        slot.push(hint);
        self.bytes += (slot.capacity() - before) * size_of::<Hint>();
        self.len += 1;
    }

    /// Takes some hints of a slot that is due; `None` if there is none. Call until then.
    pub(crate) fn due(&mut self, now: Millis) -> Option<Vec<Hint>> {
        if self.due.is_empty() {
            self.due = self.due_slot(now)?;
        }
        let mut hints = self.due.split_off(self.due.len().saturating_sub(PART));
        self.len -= hints.len();
        if self.due.is_empty() {
            self.bytes -= self.due.capacity() * size_of::<Hint>();
            self.due = Vec::new();
        }
        hints.sort_unstable();
        hints.dedup();
        Some(hints)
    }

    /// Takes all hints of one slot that is due. They stay on the account.
    fn due_slot(&mut self, now: Millis) -> Option<Vec<Hint>> {
        let target = now >> TICK_BITS;
        if self.len == 0 {
            self.tick = self.tick.max(target);
            return None;
        }
        // A coarse slot is emptied when its span begins, so that its hints are sorted into finer slots in
        // time.
        loop {
            for level in (0..LEVELS as u32).rev() {
                if self.tick & ((1 << (SLOT_BITS * level)) - 1) != 0 {
                    continue;
                }
                let number = (self.tick >> (SLOT_BITS * level)) as usize % SLOTS;
                let slot = &mut self.slots[level as usize * SLOTS + number];
                if !slot.is_empty() {
                    return Some(std::mem::take(slot));
                }
            }
            if self.tick >= target {
                return None;
            }
            self.tick += 1;
        }
    }

    /// Looks at up to `count` hints and forgets those for which `keep` says no, and, if it
    /// `sorts`, those that a slot holds twice. To sort a slot of many hints takes a while.
    pub(crate) fn sweep(&mut self, count: usize, sorts: bool, mut keep: impl FnMut(Hint) -> bool) {
        let (mut number, mut at) = self.sweep;
        for _ in 0..count {
            let Some(slot) = self.slots.get_mut(number) else {
                return;
            };
            if at == 0 && sorts {
                let before = slot.len();
                slot.sort_unstable();
                slot.dedup();
                self.len -= before - slot.len();
            }
            let Some(hint) = slot.get(at) else {
                let before = slot.capacity();
                slot.shrink_to_fit();
                self.bytes -= (before - slot.capacity()) * size_of::<Hint>();
                (number, at) = ((number + 1) % (LEVELS * SLOTS), 0);
                continue;
            };
            if keep(*hint) {
                at += 1;
            } else {
                slot.swap_remove(at);
                self.len -= 1;
            }
        }
        self.sweep = (number, at);
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        let all = || self.slots.iter().chain([&self.due]);
        assert_eq!(self.len, all().map(Vec::len).sum::<usize>());
        assert_eq!(self.bytes, all().map(|s| s.capacity() * size_of::<Hint>()).sum::<usize>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_of_many_hints_comes_out_in_parts() {
        let mut wheel = Wheel::new();
        let count = if cfg!(miri) { 300 } else { 10_000 };
        (0..count).for_each(|n| wheel.add(Hint::of(n << 32 | n), 1000, 0));
        let mut came = Vec::new();
        while let Some(hints) = wheel.due(2000) {
            assert!(hints.len() <= 200, "{}", hints.len());
            came.extend(hints);
            wheel.check();
        }
        came.sort_unstable();
        came.dedup();
        assert_eq!((came.len(), wheel.len(), wheel.due(2000)), (count as usize, 0, None));
    }

    /// Whatever the moment of adding and the expiry, a hint that is put back while not yet due
    /// comes out within two ticks after its expiry.
    #[test]
    fn every_hint_comes_out_soon_after_its_expiry_and_never_before() {
        let start = 1_800_000_000_123;
        for life in [
            0,
            1,
            255,
            256,
            300,
            16_383,
            16_384,
            16_640,
            20_000,
            1_048_576,
            1_100_000,
            67_000_000,
            70_000_000,
            4_300_000_000,
            6_000_000_000_u64,
        ] {
            // Miri runs a thousandth of the speed.
            if cfg!(miri) && life > 300 {
                continue;
            }
            let mut wheel = Wheel::new();
            wheel.add(Hint::of(1), start, start);
            let mut now = start;
            while wheel.due(now + 1000).is_none() {}
            let expiry = start + life;
            let hint = Hint::of(7);
            wheel.add(hint, expiry, now);
            let mut came = None;
            let step = (life / 1000).max(100);
            while came.is_none() && now < expiry + 10 * step + 1000 {
                now += step;
                while let Some(hints) = wheel.due(now) {
                    for h in hints {
                        if now >= expiry { came = Some(now) } else { wheel.add(h, expiry, now) }
                    }
                }
                wheel.check();
            }
            let came = came.expect("the hint comes out");
            assert!(came <= expiry + step + 512 + 1000, "life {life}: {} late", came - expiry);
        }
    }
}
