//! What was changed in a shard while entries are being restored to it ([`crate::restore`]): entries
//! that a restore has of these keys, prefixes and tags are older than the change.
//!
//! Keys and tags are noted by their hashes. Two keys with one hash cost an entry that is not
//! restored, nothing else.

use crate::key::Key;
use hashbrown::HashTable;
use std::{
    collections::BTreeSet,
    ops::Bound::{Included, Unbounded},
};

/// What a prefix takes in the set and in the allocator, besides its bytes, roughly.
const PREFIX: usize = 48;

/// Keys, prefixes and tags.
#[derive(Debug, Default)]
pub(crate) struct Overtaken {
    keys: HashTable<u64>,
    tags: HashTable<u64>,
    /// None of them begins with another: the last one up to a key is the only one that may cover it.
    prefixes: BTreeSet<Box<[u8]>>,
    prefix_bytes: usize,
}

impl Overtaken {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Overtaken>() + self.keys.allocation_size() + self.tags.allocation_size() + self.prefix_bytes
    }

    /// Notes a key, and gives the number of bytes that this takes.
    pub(crate) fn note_key(&mut self, hash: u64) -> usize {
        note(&mut self.keys, hash)
    }

    /// Like `note_key`, for all that carry a tag.
    pub(crate) fn note_tag(&mut self, hash: u64) -> usize {
        note(&mut self.tags, hash)
    }

    /// Like `note_key`, for all keys under a prefix, which is not empty. Negative: it takes the
    /// place of longer ones.
    pub(crate) fn note_prefix(&mut self, prefix: &[u8]) -> isize {
        if self.covers(prefix) {
            return 0;
        }
        let before = self.prefix_bytes as isize;
        let from = (Included(prefix), Unbounded);
        while let Some(longer) = self.prefixes.range::<[u8], _>(from).next().filter(|other| other.starts_with(prefix)) {
            let longer = longer.clone();
            self.prefix_bytes -= longer.len() + PREFIX;
            self.prefixes.remove(&longer);
        }
        self.prefix_bytes += prefix.len() + PREFIX;
        self.prefixes.insert(prefix.into());
        self.prefix_bytes as isize - before
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.prefixes.range::<[u8], _>((Unbounded, Included(key))).next_back().is_some_and(|last| key.starts_with(last))
    }

    /// Whether something happened to the key, or to one of the tags (by their hashes).
    pub(crate) fn has(&self, key: Key<'_>, mut tags: impl Iterator<Item = u64>) -> bool {
        let noted = |table: &HashTable<u64>, hash: u64| table.find(hash, |other| *other == hash).is_some();
        noted(&self.keys, key.hash)
            || !self.tags.is_empty() && tags.any(|tag| noted(&self.tags, tag))
            || self.covers(key.bytes)
    }
}

fn note(table: &mut HashTable<u64>, hash: u64) -> usize {
    let before = table.allocation_size();
    if table.find(hash, |other| *other == hash).is_none() {
        table.insert_unique(hash, hash, |hash| *hash);
    }
    table.allocation_size() - before
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_is_covered_if_it_begins_with_a_noted_prefix(
            prefixes in proptest::collection::vec("[ab]{1,4}", 0..12),
            key in "[ab]{0,6}",
        ) {
            let (mut overtaken, mut bytes) = (Overtaken::default(), size_of::<Overtaken>() as isize);
            for prefix in &prefixes {
                bytes += overtaken.note_prefix(prefix.as_bytes());
            }
            prop_assert_eq!(overtaken.covers(key.as_bytes()), prefixes.iter().any(|prefix| key.starts_with(prefix.as_str())));
            prop_assert_eq!(overtaken.bytes() as isize, bytes);
            // Only what no shorter one says: a look at one of them is enough.
            for noted in &overtaken.prefixes {
                let others = overtaken.prefixes.iter().filter(|other| *other != noted);
                prop_assert!(!others.clone().any(|other| noted.starts_with(other)), "{:?}", overtaken.prefixes);
            }
        }
    }
}
