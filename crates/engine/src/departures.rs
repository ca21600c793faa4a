//! Why keys are not held: what a miss can be told about its key.
//!
//! The ghost remembers what was evicted. This remembers the other reasons, in the same way. A miss
//! takes out what it is told, because a fill follows it.
use crate::fingerprints::Fingerprints;

/// Slots at the start.
const FEWEST: usize = 64;
/// Entries for each slot.
const ENTRIES_PER_SLOT: usize = 2;

/// Why a key is not held, besides eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// Its lifetime was over.
    Expired,
    /// It was deleted, invalidated or cleared.
    Invalidated,
    /// What was fetched for it was too large for the bound.
    TooLarge,
    /// What was fetched for it was not to be kept: a value, or that there is none.
    NotKept,
}

impl Departure {
    const ALL: [Departure; 4] = [Departure::Expired, Departure::Invalidated, Departure::TooLarge, Departure::NotKept];
}

/// Made at the first departure, and again, larger, when there are many more entries.
#[derive(Debug, Default)]
pub(crate) struct Departures(Option<Fingerprints<2>>);

impl Departures {
    /// Notes why a key is not held any more; `entries` are those of the shard. True if the memory
    /// has grown.
    pub(crate) fn note(&mut self, hash: u64, reason: Departure, entries: usize) -> bool {
        let wanted = (entries / ENTRIES_PER_SLOT).max(FEWEST);
        match &mut self.0 {
            Some(known) if known.len() >= wanted / 2 => {
                known.insert(hash, reason as u16);
                false
            }
            unfit => {
                unfit.insert(Fingerprints::new(wanted)).insert(hash, reason as u16);
                true
            }
        }
    }

    /// Takes out why a key is not held.
    pub(crate) fn take(&mut self, hash: u64) -> Option<Departure> {
        let (_, reason) = self.0.as_mut()?.take(hash)?;
        Some(Departure::ALL[usize::from(reason)])
    }

    /// Gives its memory back; false if it has none.
    pub(crate) fn forget(&mut self) -> bool {
        self.0.take().is_some()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Fingerprints::bytes)
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
