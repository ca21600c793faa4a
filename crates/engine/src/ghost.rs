//! What is remembered of keys that are not held: fingerprints of those dropped lately, and how
//! often keys were wanted.
//!
//! Both are sized by the number of entries held (about 4 bytes for each, all in all) and made at
//! the first eviction. Of what is derived from keys it is remembered which was wanted lately
//! ([`Wanted`]).

use crate::fingerprints::{Fingerprints, WAYS, spread};

/// Of a bucket's slots, what counts as dropped just now: an eighth of the entries' number.
const NEAR: usize = 2;
const COUNTERS_PER_ENTRY: usize = 4;
/// Counters are halved after this many additions per entry.
const PERIOD: usize = 16;
/// Bytes halved with one addition while a halving is under way.
const HALVED: usize = 64;

/// Where a dropped key was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Place in its bucket: 0 is the latest.
    age: usize,
    /// It had been turned away from main before.
    pub(crate) turned_away: bool,
}

impl Trace {
    /// The frequency with which an unremembered key is tried now and then.
    pub(crate) const OLDEST: Trace = Trace { age: WAYS - 1, turned_away: false };

    pub(crate) fn is_near(self) -> bool {
        self.age < NEAR
    }
}

/// Keys that left, each with whether it had been turned away.
type Ghost = Fingerprints<1>;

/// What was wanted lately and was not there, from the first time on.
#[derive(Debug, Default)]
pub(crate) struct Wanted(Option<Ghost>);

impl Wanted {
    /// Notes that it is wanted. True if it was before, among the last `entries` or so.
    pub(crate) fn again(&mut self, hash: u64, entries: usize) -> bool {
        // The bound may have changed since it was made.
        let suits = |ghost: &Ghost| (entries / 2..=2 * entries.max(WAYS)).contains(&ghost.len());
        match &mut self.0 {
            Some(ghost) if suits(ghost) => ghost.insert(hash, 0),
            unfit => unfit.insert(Ghost::new(entries)).insert(hash, 0),
        }
    }

    /// Gives its memory back; false if it has none.
    pub(crate) fn forget(&mut self) -> bool {
        self.0.take().is_some()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Ghost::bytes)
    }
}

/// A count-min sketch of two rows in one array of 4-bit counters, with conservative update and
/// halving, as in TinyLFU (Einziger, Friedman, Manes: "TinyLFU: A Highly Efficient Cache Admission
/// Policy"). It is touched on a miss and at the queues' heads, never on a hit: a hit waits in the
/// record until then.
#[derive(Debug)]
struct Sketch {
    /// Two counters to a byte.
    bytes: Vec<u8>,
    added: usize,
    period: usize,
    /// Bytes still to be halved.
    halving: usize,
}

impl Sketch {
    fn new(entries: usize) -> Sketch {
        let bytes = (entries * COUNTERS_PER_ENTRY / 2).max(8);
        Sketch { bytes: vec![0; bytes], added: 0, period: entries * PERIOD + 16, halving: 0 }
    }

    fn places(&self, hash: u64) -> [usize; 2] {
        [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f].map(|m: u64| spread(hash.wrapping_mul(m), self.bytes.len() * 2))
    }

    fn at(&self, place: usize) -> u8 {
        self.bytes[place / 2] >> (place % 2 * 4) & 15
    }

    fn get(&self, hash: u64) -> u8 {
        let [a, b] = self.places(hash);
        self.at(a).min(self.at(b))
    }

    fn add(&mut self, hash: u64, by: u8) {
        let to = (self.get(hash) + by).min(15);
        for place in self.places(hash) {
            if self.at(place) < to {
                let shift = place % 2 * 4;
                let byte = &mut self.bytes[place / 2];
                *byte = *byte & !(15 << shift) | to << shift;
            }
        }
        self.added += usize::from(by);
        if self.added >= self.period {
            self.added /= 2;
            self.halving = self.bytes.len();
        }
        let end = self.halving;
        self.halving = end.saturating_sub(HALVED);
        for byte in &mut self.bytes[self.halving..end] {
            *byte = *byte >> 1 & 0x77;
        }
    }
}

/// A key wanted again, as far as it is remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// It was dropped from small.
    pub(crate) small: Option<Trace>,
    /// It was dropped from main just now.
    pub(crate) main: bool,
}

/// All that is remembered.
#[derive(Debug)]
pub(crate) struct History {
    entries: usize,
    small: Ghost,
    /// Only near drops count here, so it is an eighth of the size.
    main: Ghost,
    sketch: Sketch,
}

impl History {
    pub(crate) fn new(entries: usize) -> History {
        let entries = entries.max(WAYS);
        History {
            entries,
            small: Ghost::new(entries),
            main: Ghost::new(entries * NEAR / WAYS),
            sketch: Sketch::new(entries),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.small.bytes() + self.main.bytes() + self.sketch.bytes.len()
    }

    /// Is this the right size for so many entries, within a quarter above and half below?
    pub(crate) fn suits(&self, entries: usize) -> bool {
        entries * 4 <= self.entries * 5 && entries.max(WAYS) * 2 >= self.entries
    }

    pub(crate) fn dropped_from_small(&mut self, hash: u64, turned_away: bool) {
        self.small.insert(hash, u16::from(turned_away));
    }

    pub(crate) fn dropped_from_main(&mut self, hash: u64) {
        self.main.insert(hash, 0);
    }

    /// A key is wanted that is not held: counts it, and takes out what is remembered of it.
    pub(crate) fn recall(&mut self, hash: u64) -> Memory {
        self.sketch.add(hash, 1);
        let small = self.small.take(hash).map(|(age, bits)| Trace { age, turned_away: bits == 1 });
        Memory { small, main: self.main.take(hash).is_some() }
    }

    /// Whether a key was dropped not long ago.
    pub(crate) fn knows(&self, hash: u64) -> bool {
        self.small.has(hash) || self.main.has(hash)
    }

    pub(crate) fn add(&mut self, hash: u64, hits: u8) {
        if hits > 0 {
            self.sketch.add(hash, hits);
        }
    }

    /// How often a key was wanted lately, 0 to 15.
    pub(crate) fn frequency(&self, hash: u64) -> u8 {
        self.sketch.get(hash)
    }

    /// About how many drops from small ago a trace was left.
    pub(crate) fn drops_since(&self, trace: Trace) -> f32 {
        (trace.age as f32 + 0.5) * self.small.buckets() as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32)
    }

    #[test]
    fn the_ghost_knows_about_as_many_drops_as_there_are_entries_and_how_old_they_are() {
        let mut history = History::new(1600);
        for n in 0..10_000 {
            history.dropped_from_small(hash(n), n % 2 == 0);
        }
        let known = |history: &mut History, range: std::ops::Range<u64>| {
            range.filter_map(|n| history.recall(hash(n)).small).collect::<Vec<_>>()
        };
        let near = known(&mut history, 9_900..10_000);
        assert!(near.len() > 95 && near.iter().filter(|t| t.is_near()).count() > 80, "{near:?}");
        let old = known(&mut history, 8_900..9_000);
        assert!(old.len() > 60 && old.iter().all(|t| history.drops_since(*t) > 300.0));
        assert!(known(&mut history, 0..1000).len() < 30, "long gone, but for chance likenesses");
        assert!(known(&mut history, 9_900..10_000).len() < 5, "taken once");
    }

    #[test]
    fn what_is_wanted_again_soon_enough_is_known() {
        let mut wanted = Wanted::default();
        assert_eq!(wanted.bytes(), 0, "nothing before it is needed");
        let mut known = |range: std::ops::Range<u64>| range.filter(|n| wanted.again(hash(*n), 1600)).count();
        assert!(known(0..1000) < 10, "the first time, but for chance likenesses");
        assert!(known(0..1000) > 900);
        assert!(known(0..1000) > 900, "and from then on");
        known(10_000..20_000);
        assert!(known(0..1000) < 30, "long gone");
        assert_eq!(wanted.bytes(), 3200);
    }

    #[test]
    fn the_sketch_tells_frequent_from_rare_and_forgets() {
        let mut history = History::new(1000);
        for n in 0..1000 {
            history.add(hash(n), if n < 100 { 3 } else { 1 });
        }
        assert!((0..100).all(|n| history.frequency(hash(n)) >= 3));
        assert!((100..1000).filter(|n| history.frequency(hash(*n)) == 1).count() > 500);
        for n in 0..16_000 {
            history.add(hash(5000 + n % 50), 1);
        }
        assert!((0..100).filter(|n| history.frequency(hash(*n)) <= 1).count() > 70);
    }
}
