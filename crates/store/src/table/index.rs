//! The perfect hash: every key of a table has a slot of its own, found in constant time from a few
//! bits per key.
//!
//! ```text
//! key ── XXH3, 128 bits ── high half ─► part ─► bucket ─► its pilot, one byte ─┐
//!                       └─ low half ──────────────────────────────────────────┴─ mixed ─► slot ── moved, if beyond the entries ─► entry
//! ```
//!
//! This is PtrHash (Groot Koerkamp, SEA 2025) with buckets of one size: a bucket's pilot is chosen
//! so that none of its keys falls on a slot that is taken; where none is such, the pilot that
//! throws out the least is, and the buckets thrown out are placed again. Three keys to a bucket and
//! 1.6 per cent more slots than keys cost 2.7 bits per key for pilots and half a bit for moved
//! slots. We have it here because a table is read on any machine from mapped bytes, and the crates
//! for it keep their structures as this machine lays them out.
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Pilots that a bucket can have.
const PILOTS: u64 = 256;
/// Keys to a bucket, on average.
const PER_BUCKET: usize = 3;
/// Another seed is tried after so many buckets were thrown out, per bucket.
const PATIENCE: usize = 16;
/// Seeds tried before the keys are called impossible.
const SEEDS: u32 = 64;

/// A key's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hash {
    /// Chooses part and bucket: ordered by this, keys are ordered by both.
    pub(super) high: u64,
    /// Chooses the slot.
    pub(super) low: u64,
}

impl Hash {
    #[inline]
    pub(super) fn of(key: &[u8], seed: u64) -> Hash {
        let both = xxh3_128_with_seed(key, seed);
        Hash { high: (both >> 64) as u64, low: both as u64 }
    }

    /// Which of 2 to `bits` parts.
    #[inline]
    pub(super) fn part(self, bits: u32) -> usize {
        // A shift by all 64 bits is none in Rust.
        (self.high >> 1 >> (63 - bits)) as usize
    }

    /// Which of a part's buckets.
    #[inline]
    pub(super) fn bucket(self, part_bits: u32, buckets: u32) -> usize {
        scale(self.high << part_bits, buckets)
    }

    /// Where a pilot puts the key, of so many slots.
    #[inline]
    pub(super) fn slot(self, pilot: u64, seed: u32, slots: u32) -> usize {
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        let salt = (pilot | u64::from(seed) << 8).wrapping_add(1).wrapping_mul(MIX);
        let wide = u128::from(self.low ^ salt) * u128::from(MIX);
        scale((wide >> 64) as u64 ^ wide as u64, slots)
    }
}

/// Brings a number of 64 bits down to less than `to`.
#[inline]
fn scale(number: u64, to: u32) -> usize {
    ((u128::from(number) * u128::from(to)) >> 64) as usize
}

/// The perfect hash of one part.
#[derive(Debug, Default)]
pub(super) struct TableIndex {
    /// One per bucket.
    pub(super) pilots: Vec<u8>,
    /// For each slot from the number of keys on: where its key lies instead (0 for a slot without
    /// one).
    pub(super) moved: Vec<u32>,
    pub(super) slots: u32,
    pub(super) seed: u32,
    /// For each key in the given order: its entry.
    pub(super) entry_of: Vec<u32>,
}

/// Builds the index of a part for distinct hashes in ascending order. `None`: no seed will do,
/// which does not happen to hashes that are distinct in their low halves.
pub(super) fn build(hashes: &[Hash], part_bits: u32) -> Option<TableIndex> {
    let entries = u32::try_from(hashes.len()).ok()?;
    if entries == 0 {
        return Some(TableIndex::default());
    }
    let buckets = hashes.len().div_ceil(PER_BUCKET);
    // begins[b]..begins[b + 1] are the keys of bucket b.
    let mut begins = vec![0u32; buckets + 1];
    for hash in hashes {
        begins[hash.bucket(part_bits, buckets as u32) + 1] += 1;
    }
    for bucket in 0..buckets {
        begins[bucket + 1] += begins[bucket];
    }
    let slots = entries.checked_add(entries / 64)?.checked_add(1)?;
    (0..SEEDS).find_map(|seed| {
        let mut builder = Builder {
            hashes,
            begins: &begins,
            seed,
            slots,
            taken: vec![FREE; slots as usize],
            pilots: vec![0; buckets],
        };
        builder.place_all().then(|| builder.finish(entries))
    })
}

const FREE: u32 = u32::MAX;

struct Builder<'a> {
    hashes: &'a [Hash],
    begins: &'a [u32],
    seed: u32,
    slots: u32,
    /// The bucket whose key a slot has.
    taken: Vec<u32>,
    pilots: Vec<u8>,
}

impl<'a> Builder<'a> {
    fn bucket(&self, bucket: u32) -> &'a [Hash] {
        let bucket = bucket as usize;
        &self.hashes[self.begins[bucket] as usize..self.begins[bucket + 1] as usize]
    }

    fn place_all(&mut self) -> bool {
        // The largest first, as long as there is much room.
        let mut order: Vec<u32> = (0..self.pilots.len() as u32).collect();
        order.sort_by_key(|&bucket| std::cmp::Reverse(self.bucket(bucket).len()));
        let mut patience = PATIENCE * order.len() + 1000;
        let mut waiting = Vec::new();
        let mut slots = Vec::new();
        // Whom not to throw out again at once.
        let mut recent = [FREE; 4];
        for bucket in order {
            waiting.push(bucket);
            while let Some(bucket) = waiting.pop() {
                if self.bucket(bucket).is_empty() {
                    continue;
                }
                let Some(pilot) = self
                    .free_pilot(bucket, &mut slots)
                    .or_else(|| self.least_pilot(bucket, &recent, patience, &mut slots))
                else {
                    return false;
                };
                self.slots_of(bucket, pilot, &mut slots);
                for &slot in &slots {
                    let owner = self.taken[slot];
                    if owner != FREE {
                        patience = patience.saturating_sub(1);
                        waiting.push(owner);
                        let (hashes, pilot) = (self.bucket(owner), self.pilots[owner as usize]);
                        for hash in hashes {
                            self.taken[hash.slot(pilot.into(), self.seed, self.slots)] = FREE;
                        }
                    }
                }
                for &slot in &slots {
                    self.taken[slot] = bucket;
                }
                self.pilots[bucket as usize] = pilot as u8;
                if !waiting.is_empty() {
                    recent.rotate_right(1);
                    recent[0] = bucket;
                }
                if patience == 0 {
                    return false;
                }
            }
        }
        true
    }

    /// The slots of a bucket's keys under a pilot; false if two keys share one.
    fn slots_of(&self, bucket: u32, pilot: u64, slots: &mut Vec<usize>) -> bool {
        slots.clear();
        for hash in self.bucket(bucket) {
            let slot = hash.slot(pilot, self.seed, self.slots);
            if slots.contains(&slot) {
                return false;
            }
            slots.push(slot);
        }
        true
    }

    /// A pilot under which all slots are free.
    fn free_pilot(&self, bucket: u32, slots: &mut Vec<usize>) -> Option<u64> {
        let hashes = self.bucket(bucket);
        (0..PILOTS).find(|&pilot| {
            hashes.iter().all(|hash| self.taken[hash.slot(pilot, self.seed, self.slots)] == FREE)
                && self.slots_of(bucket, pilot, slots)
        })
    }

    /// The pilot that throws out the fewest pairs of keys, and no pair that was placed lately.
    fn least_pilot(&self, bucket: u32, recent: &[u32], turn: usize, slots: &mut Vec<usize>) -> Option<u64> {
        let mut best = None;
        for pilot in 0..PILOTS {
            // Not always the same first.
            let pilot = (pilot + turn as u64) % PILOTS;
            if !self.slots_of(bucket, pilot, slots) {
                continue;
            }
            let owners = slots.iter().map(|&slot| self.taken[slot]).filter(|&owner| owner != FREE);
            let mut cost = 0;
            for owner in owners {
                cost += if recent.contains(&owner) { 1 << 20 } else { self.bucket(owner).len().pow(2) };
            }
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, pilot));
            }
        }
        best.map(|(_, pilot)| pilot)
    }

    /// Moves the keys beyond the entries to free slots.
    fn finish(self, entries: u32) -> TableIndex {
        let mut free = (0..entries).filter(|&slot| self.taken[slot as usize] == FREE);
        let moved: Vec<u32> = (entries..self.slots)
            .map(|slot| match self.taken[slot as usize] {
                FREE => 0,
                _ => free.next().expect("there are as many slots below as keys"),
            })
            .collect();
        let mut entry_of = Vec::with_capacity(self.hashes.len());
        for bucket in 0..self.pilots.len() as u32 {
            for hash in self.bucket(bucket) {
                let slot = hash.slot(self.pilots[bucket as usize].into(), self.seed, self.slots) as u32;
                entry_of.push(slot.checked_sub(entries).map_or(slot, |beyond| moved[beyond as usize]));
            }
        }
        TableIndex { pilots: self.pilots, moved, slots: self.slots, seed: self.seed, entry_of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: usize, seed: u64) -> Vec<Hash> {
        let mut hashes: Vec<_> = (0..count).map(|key| Hash::of(&key.to_le_bytes(), seed)).collect();
        hashes.sort();
        hashes
    }

    #[test]
    fn every_key_has_an_entry_of_its_own() {
        for count in (0..200).chain([1000, 65_536, 150_001]) {
            let hashes = hashes(count, count as u64);
            let index = build(&hashes, 0).expect("an index");
            let mut entries = index.entry_of.clone();
            entries.sort_unstable();
            assert!(entries.iter().copied().eq(0..count as u32), "{count} keys");
            let bits = 8.0 * (index.pilots.len() + 4 * index.moved.len()) as f64 / count as f64;
            assert!(count < 1000 || bits < 3.3, "{bits} bits per key");
        }
    }

    #[test]
    fn parts_are_the_first_bits() {
        let hash = Hash { high: 0xabcd_0000_0000_0000, low: 0 };
        assert_eq!([0, 4, 8, 16].map(|bits| hash.part(bits)), [0, 0xa, 0xab, 0xabcd]);
    }
}
