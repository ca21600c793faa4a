//! Short notes about keys of which nothing new is held: do not fetch before a moment, or do not
//! share a fetch. By hash: two keys with one hash share a note, which costs a fetch or saves one,
//! and nothing else.

use crate::time::Millis;
use hashbrown::{HashTable, hash_table::Entry};

/// Notes of one shard. With more, the ones that are over go, and if none is, the new one is not
/// kept.
const MOST: usize = 1024;

/// What a note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The source failed: what is held is served without asking again.
    NoFetch,
    /// The answer could not be kept: each reader fetches for itself.
    NoSharing,
}

#[derive(Debug, Default)]
pub(crate) struct Holds(HashTable<(u64, Hold, Millis)>);

impl Holds {
    pub(crate) fn bytes(&self) -> usize {
        self.0.allocation_size()
    }

    pub(crate) fn add(&mut self, hash: u64, hold: Hold, until: Millis, now: Millis) {
        if self.0.len() == MOST {
            self.0.retain(|(_, _, until)| *until > now);
        }
        let is_full = self.0.len() == MOST;
        match self.0.entry(hash, |held| held.0 == hash && held.1 == hold, |held| held.0) {
            Entry::Occupied(mut held) => held.get_mut().2 = until,
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(free) => {
                free.insert((hash, hold, until));
            }
        }
    }

    /// Whether a note holds. One that is over is removed.
    pub(crate) fn has(&mut self, hash: u64, hold: Hold, now: Millis) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let Ok(held) = self.0.find_entry(hash, |held| held.0 == hash && held.1 == hold) else { return false };
        let holds = held.get().2 > now;
        if !holds {
            held.remove();
        }
        holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_end_and_are_bounded() {
        let mut holds = Holds::default();
        holds.add(1, Hold::NoFetch, 10, 0);
        assert!(holds.has(1, Hold::NoFetch, 9) && !holds.has(1, Hold::NoSharing, 9));
        assert!(!holds.has(1, Hold::NoFetch, 10), "over");
        assert!(!holds.has(1, Hold::NoFetch, 9), "and gone");
        for hash in 0..2 * MOST as u64 {
            holds.add(hash, Hold::NoSharing, 100, 0);
        }
        assert_eq!(holds.0.len(), MOST);
        holds.add(7, Hold::NoSharing, 300, 0);
        holds.add(5000, Hold::NoSharing, 300, 200);
        assert!(holds.has(7, Hold::NoSharing, 200) && holds.has(5000, Hold::NoSharing, 200));
        assert_eq!(holds.0.len(), 2, "what was over made room");
    }
}
