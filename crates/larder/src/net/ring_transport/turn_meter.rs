//! How many clients a worker finds with input at once: those that it reads from per turn of its
//! runtime.
use std::cell::Cell;

/// The average is kept in parts of this.
const UNIT: u32 = 1 << 16;
/// A turn's share of the average: one in so many.
const TURNS: i64 = 64;
/// Clients of one turn that count, so that a single burst says little.
const MOST: u32 = 16;
/// A worker that never waits ends a turn after so many.
const LONGEST: u32 = 256;
/// From this average on, requests come together.
const CROWDED: u32 = 4 * UNIT;
/// Below this average, they come one after the other.
const CALM: u32 = 3 * UNIT / 2;

#[derive(Debug, Default)]
pub(super) struct TurnMeter {
    /// How often the worker had waited when this turn began.
    waits: Cell<u64>,
    /// Clients in this turn.
    reads: Cell<u32>,
    average: Cell<u32>,
    is_crowded: Cell<bool>,
}

impl TurnMeter {
    /// Input was read from a client that had been waited for. `waits`: how often the worker has
    /// waited for events until now.
    #[inline]
    pub(super) fn note_read(&self, waits: u64) {
        if self.waits.replace(waits) != waits || self.reads.get() == LONGEST {
            self.end_turn();
        }
        self.reads.set(self.reads.get() + 1);
    }

    /// The worker asks the kernel for more. A turn without reads says nothing.
    #[inline]
    pub(super) fn end_turn(&self) {
        let reads = self.reads.replace(0);
        if reads == 0 {
            return;
        }
        let old = i64::from(self.average.get());
        let seen = i64::from(reads.min(MOST) * UNIT);
        // Between 0 and MOST units.
        let average = (old + (seen - old) / TURNS) as u32;
        self.average.set(average);
        let bound = if self.is_crowded.get() { CALM } else { CROWDED };
        self.is_crowded.set(average >= bound);
    }

    /// Whether requests have come together for some time.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is crowded after `turns` turns of `reads` reads each.
    fn after(meter: &TurnMeter, turns: usize, reads: u32) -> bool {
        for _ in 0..turns {
            let waits = meter.waits.get() + 1;
            (0..reads).for_each(|_| meter.note_read(waits));
        }
        meter.is_crowded()
    }

    #[test]
    fn it_is_crowded_while_requests_come_together() {
        let meter = TurnMeter::default();
        assert!(!after(&meter, 10_000, 1), "one after the other");
        assert!(!after(&meter, 3, 250), "bursts");
        assert!(!after(&meter, 10_000, 3));
        assert!(after(&meter, 1_000, 5));
        assert!(after(&meter, 10_000, 2), "not so few yet");
        (0..10_000).for_each(|_| meter.end_turn());
        assert!(meter.is_crowded(), "idle turns");
        assert!(after(&meter, 10, 1), "a pause");
        assert!(!after(&meter, 1_000, 1));
    }

    #[test]
    fn a_worker_that_never_waits_is_crowded() {
        let meter = TurnMeter::default();
        (0..LONGEST * 100).for_each(|_| meter.note_read(1));
        assert!(meter.is_crowded());
    }
}
