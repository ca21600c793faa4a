//! Why keys are not held: what a miss can be told about its key.
//!
//! The ghost remembers what was evicted. This remembers the other reasons, by fingerprint, in
//! buckets of which each is a FIFO, as in the ghost: two keys may have one fingerprint, and what
//! left long ago is forgotten. A miss takes out what it is told, because a fill follows it.

/// Slots of a bucket: half a cache line.
const WAYS: usize = 16;
/// Slots at the start.
const FEWEST: usize = 64;
/// Entries for each slot.
const ENTRIES_PER_SLOT: usize = 2;
/// Of a slot: which reason. The other bits are the fingerprint.
const REASON_BITS: u32 = 2;

/// Why a key is not held, besides eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// Its lifetime was over.
    Expired,
    /// It was deleted, invalidated or cleared.
    Invalidated,
    /// What was fetched for it was too large for the bound.
    TooLarge,
    /// What was fetched for it was not to be kept.
    NotKept,
}

impl Departure {
    const ALL: [Departure; 4] = [Departure::Expired, Departure::Invalidated, Departure::TooLarge, Departure::NotKept];
}

/// Made at the first departure, and again, larger, when there are many more entries.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    /// 14 bits of fingerprint, never 0, then the reason; newest first. 0: free.
    buckets: Vec<[u16; WAYS]>,
}

impl Departures {
    /// Notes why a key is not held any more; `entries` are those of the shard. True if the memory
    /// has grown.
    pub(crate) fn note(&mut self, hash: u64, reason: Departure, entries: usize) -> bool {
        let wanted = (entries / ENTRIES_PER_SLOT).max(FEWEST);
        let grows = self.buckets.len() * WAYS < wanted / 2 || self.buckets.is_empty();
        if grows {
            self.buckets = vec![[0; WAYS]; wanted.div_ceil(WAYS)];
        }
        let (at, fingerprint) = self.place(hash);
        let bucket = &mut self.buckets[at];
        let found = bucket.iter().position(|slot| slot >> REASON_BITS == fingerprint);
        bucket.copy_within(..found.unwrap_or(WAYS - 1), 1);
        bucket[0] = fingerprint << REASON_BITS | reason as u16;
        grows
    }

    /// Takes out why a key is not held.
    pub(crate) fn take(&mut self, hash: u64) -> Option<Departure> {
        if self.buckets.is_empty() {
            return None;
        }
        let (at, fingerprint) = self.place(hash);
        let bucket = &mut self.buckets[at];
        let found = bucket.iter().position(|slot| slot >> REASON_BITS == fingerprint)?;
        let reason = Departure::ALL[usize::from(bucket[found]) & ((1 << REASON_BITS) - 1)];
        bucket.copy_within(found + 1.., found);
        bucket[WAYS - 1] = 0;
        Some(reason)
    }

    /// Gives its memory back; false if it has none.
    pub(crate) fn forget(&mut self) -> bool {
        let had_some = !self.buckets.is_empty();
        self.buckets = Vec::new();
        had_some
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<[u16; WAYS]>()
    }

    fn place(&self, hash: u64) -> (usize, u16) {
        let at = ((hash >> 32) * self.buckets.len() as u64) >> 32;
        (at as usize, (hash as u16 >> REASON_BITS).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32)
    }

    #[test]
    fn reasons_are_told_once_and_the_latest_counts() {
        let mut departures = Departures::default();
        assert_eq!((departures.take(hash(1)), departures.bytes()), (None, 0));
        assert!(departures.note(hash(1), Departure::Expired, 0), "it was made");
        assert!(!departures.note(hash(2), Departure::TooLarge, 0));
        departures.note(hash(1), Departure::Invalidated, 0);
        departures.note(hash(3), Departure::NotKept, 0);
        assert_eq!(departures.take(hash(1)), Some(Departure::Invalidated));
        assert_eq!(departures.take(hash(1)), None);
        assert_eq!(departures.take(hash(2)), Some(Departure::TooLarge));
        assert_eq!(departures.take(hash(3)), Some(Departure::NotKept));
    }

    #[test]
    fn about_half_as_many_are_remembered_as_there_are_entries() {
        let mut departures = Departures::default();
        for n in 0..10_000 {
            departures.note(hash(n), Departure::Expired, 2000);
        }
        let known = |departures: &mut Departures, range: std::ops::Range<u64>| {
            range.filter(|n| departures.take(hash(*n)).is_some()).count()
        };
        assert!(known(&mut departures, 9_500..10_000) > 400);
        assert!(known(&mut departures, 0..5_000) < 50, "but for chance likenesses");
        assert_eq!(departures.bytes(), 63 * 32);
        assert!(departures.note(hash(1), Departure::Expired, 20_000), "it has grown");
        assert!(departures.forget() && !departures.forget() && departures.bytes() == 0);
    }
}
