//! What was changed in a shard while entries are being restored to it ([`crate::restore`]): entries
//! that a restore has of these keys, prefixes and tags are older than the change.
//!
//! Keys and tags are noted by their hashes. Two keys with one hash cost an entry that is not
//! restored, nothing else.

use crate::key::Key;
use hashbrown::HashTable;

/// What an allocator keeps beside an allocation, roughly.
const ALLOCATION: usize = 16;

/// Keys, prefixes and tags.
#[derive(Debug, Default)]
pub(crate) struct Overtaken {
    keys: HashTable<u64>,
    tags: HashTable<u64>,
    prefixes: Vec<Box<[u8]>>,
}

impl Overtaken {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Overtaken>()
            + self.keys.allocation_size()
            + self.tags.allocation_size()
            + self.prefixes.capacity() * size_of::<Box<[u8]>>()
            + self.prefixes.iter().map(|prefix| prefix.len() + ALLOCATION).sum::<usize>()
    }

    /// Notes a key, and gives the number of bytes that this takes.
    pub(crate) fn note_key(&mut self, hash: u64) -> usize {
        note(&mut self.keys, hash)
    }

    /// The same for all that carry a tag.
    pub(crate) fn note_tag(&mut self, hash: u64) -> usize {
        note(&mut self.tags, hash)
    }

    /// The same for all keys under a prefix, which is not empty.
    pub(crate) fn note_prefix(&mut self, prefix: &[u8]) -> usize {
        if self.prefixes.iter().any(|noted| prefix.starts_with(noted)) {
            return 0;
        }
        let before = self.bytes();
        self.prefixes.push(prefix.into());
        self.bytes() - before
    }

    /// Whether something happened to the key, or to one of the tags (by their hashes).
    pub(crate) fn has(&self, key: Key<'_>, mut tags: impl Iterator<Item = u64>) -> bool {
        let noted = |table: &HashTable<u64>, hash: u64| table.find(hash, |other| *other == hash).is_some();
        noted(&self.keys, key.hash)
            || !self.tags.is_empty() && tags.any(|tag| noted(&self.tags, tag))
            || self.prefixes.iter().any(|prefix| key.bytes.starts_with(prefix))
    }
}

fn note(table: &mut HashTable<u64>, hash: u64) -> usize {
    let before = table.allocation_size();
    if table.find(hash, |other| *other == hash).is_none() {
        table.insert_unique(hash, hash, |hash| *hash);
    }
    table.allocation_size() - before
}
