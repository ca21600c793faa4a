//! The largest of many counts in a fixed number of slots.
//!
//! The randomized admission policy in sets of slots (Ben Basat, Einziger, Friedman, Kassner:
//! "Randomized Admission Policy for Efficient Top-k and Frequency Estimation", INFOCOM 2017). A
//! name that has no slot takes the one with the least count of its set, with a probability that
//! keeps its expected count right. So the many names that are counted once seldom replace one that
//! is counted often, and an addition looks at one set: there is no heap, and nothing to search.
use smallvec::SmallVec;

/// Slots of a set: their hashes fill a cache line.
const WAYS: usize = 8;
/// Names up to this length are kept without an allocation.
const SHORT: usize = 48;
/// Longer names are cut to this length, so that clients do not choose how much the slots occupy.
const LONGEST: usize = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct TopKeys {
    /// A power of two of sets.
    hashes: Vec<[u64; WAYS]>,
    /// 0: the slot is free.
    counts: Vec<[u64; WAYS]>,
    names: Vec<SmallVec<[u8; SHORT]>>,
}

impl TopKeys {
    /// With at least so many slots.
    pub(super) fn new(slots: usize) -> TopKeys {
        let sets = slots.div_ceil(WAYS).next_power_of_two();
        TopKeys {
            hashes: vec![[0; WAYS]; sets],
            counts: vec![[0; WAYS]; sets],
            names: vec![SmallVec::new(); sets * WAYS],
        }
    }

    /// Adds `weight` to a name. `hash` is that of the name, `random` decides whether the name gets
    /// a slot.
    #[inline]
    pub(super) fn add(&mut self, hash: u64, name: &[u8], weight: u64, random: u64) {
        let set = (hash >> 32) as usize & (self.hashes.len() - 1);
        let (hashes, counts) = (&mut self.hashes[set], &mut self.counts[set]);
        if let Some(way) = hashes.iter().position(|held| *held == hash)
            && counts[way] > 0
        {
            counts[way] += weight;
            return;
        }
        let (way, least) = counts.iter().copied().enumerate().min_by_key(|(_, count)| *count).expect("a set has slots");
        let total = least + weight;
        if (u128::from(random) * u128::from(total)) >> 64 >= u128::from(weight) {
            return;
        }
        (hashes[way], counts[way]) = (hash, total);
        let held = &mut self.names[set * WAYS + way];
        held.clear();
        held.extend_from_slice(&name[..name.len().min(LONGEST)]);
    }

    /// Halves every count so many times.
    pub(super) fn halve(&mut self, times: u32) {
        let halve = |count: &mut u64| *count = count.checked_shr(times).unwrap_or(0);
        self.counts.as_flattened_mut().iter_mut().for_each(halve);
    }

    /// Names and counts, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let counts = self.counts.as_flattened().iter().copied();
        self.names.iter().map(|name| &**name).zip(counts).filter(|(_, count)| *count > 0)
    }
}
