//! Names of keys that changed, each once, in the order in which they first changed.
use bytes::Bytes;
use std::collections::{HashSet, VecDeque};

/// Bytes of all names that wait, with what a name takes besides.
const MAX_BYTES: usize = 64 << 20;
/// What a name takes besides its bytes: its places in the queue and in the set, and its allocation.
const OVERHEAD: usize = 144;

/// So many changes may wait between two looks of the task.
const FEW: usize = 64;

/// A bounded queue of names.
#[derive(Debug, Default)]
pub(super) struct ChangedKeys {
    queue: VecDeque<Bytes>,
    queued: HashSet<Bytes, foldhash::fast::RandomState>,
    bytes: usize,
    /// Names that had to be forgotten.
    forgotten: u64,
    /// All keys must be compared again: names were forgotten, or changes had no names.
    walks_again: bool,
}

impl ChangedKeys {
    /// Adds a name, unless it waits already. Whether the queue was empty, or the name had no room.
    pub(super) fn push(&mut self, key: &[u8]) -> bool {
        if self.queued.contains(key) {
            return false;
        }
        let was_empty = self.queue.is_empty();
        self.bytes += key.len() + OVERHEAD;
        if self.bytes > MAX_BYTES {
            // As many names are as expensive as all keys.
            self.forgotten += self.queue.len() as u64 + 1;
            (self.queue, self.queued, self.bytes) = (VecDeque::new(), HashSet::default(), 0);
            self.walks_again = true;
            return true;
        }
        let key = Bytes::copy_from_slice(key);
        self.queued.insert(key.clone());
        self.queue.push_back(key);
        was_empty
    }

    /// Takes the first names out, at most `limit`.
    pub(super) fn take(&mut self, limit: usize) -> Vec<Bytes> {
        let names: Vec<Bytes> = self.queue.drain(..limit.min(self.queue.len())).collect();
        for name in &names {
            self.queued.remove(name);
            self.bytes -= name.len() + OVERHEAD;
        }
        names
    }

    pub(super) fn walk_again(&mut self) {
        self.walks_again = true;
    }

    /// Whether all keys must be compared again. They are, from now on.
    pub(super) fn take_walk(&mut self) -> bool {
        std::mem::take(&mut self.walks_again)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether nothing waits, and no walk.
    pub(super) fn is_settled(&self) -> bool {
        self.queue.is_empty() && !self.walks_again
    }

    /// Whether no more than the latest changes wait. Under load there are always some.
    pub(super) fn is_short(&self) -> bool {
        self.queue.len() < FEW
    }

    /// Whether no more than the latest changes wait, and no walk.
    pub(super) fn has_few(&self) -> bool {
        self.is_short() && !self.walks_again
    }

    /// How many names wait, and how many were forgotten.
    pub(super) fn numbers(&self) -> (u64, u64) {
        (self.queue.len() as u64, self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_waits_once_and_too_many_names_are_a_walk() {
        let mut changed = ChangedKeys::default();
        assert!(changed.push(b"a"), "it was empty");
        assert!(!changed.push(b"b") && !changed.push(b"a"));
        assert_eq!(changed.take(1), ["a"]);
        // It is being copied: the next change waits again.
        assert!(!changed.push(b"a"));
        assert_eq!(changed.take(9), ["b", "a"]);
        assert!(changed.is_settled() && changed.bytes == 0 && !changed.take_walk());
        let long = vec![0; 1 << 20];
        let name = |number: u8| [&[number][..], &long].concat();
        let most = (MAX_BYTES / (name(0).len() + OVERHEAD)) as u8;
        for number in 0..most {
            changed.push(&name(number));
        }
        assert_eq!(changed.numbers(), (u64::from(most), 0));
        assert!(!changed.walks_again);
        assert!(changed.push(&name(most)), "the task must hear of it");
        assert_eq!(changed.numbers(), (0, u64::from(most) + 1));
        assert!(changed.take_walk() && !changed.take_walk() && changed.bytes == 0);
        assert!(changed.push(b"a"));
    }
}
