//! The tags that the records of a shard carry, and up to which version each was cleared.
//!
//! ```text
//!   name ──► id ──► name, number of records that carry it       a record keeps ids (`attributes`)
//!              └──► version up to which it was cleared          entries of this version and below are gone, or out of date
//! ```
//!
//! A tag that no record carries has no row: the last record frees it. So a clear of an unused tag
//! leaves no trace but one in a ring of the latest clears: what was being fetched at the time may
//! carry the tag when it comes.

use crate::{attributes, time::Millis};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// Soft clears of one tag that are told apart. One more makes the oldest hard.
const SOFT_CLEARS: usize = 8;
/// Latest clears that are remembered while something is being fetched.
const RECENT: usize = 64;
/// What an allocator keeps beside an allocation, roughly.
const ALLOCATION: usize = 16;

#[derive(Debug)]
struct Row {
    name: Box<[u8]>,
    hash: u64,
    /// How many records carry the tag; 0: the row is free.
    records: u32,
}

/// The clears of a tag that has been cleared softly.
#[derive(Debug)]
struct SoftClears {
    /// Up to this version entries are gone.
    hard: u64,
    /// Up to which version entries are out of date, and since when; both ascend.
    soft: Vec<(u64, Millis)>,
}

/// What clears say of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cleared {
    No,
    /// It is out of date since then.
    Since(Millis),
    Gone,
}

#[derive(Debug)]
struct Recent {
    hash: u64,
    version: u64,
}

/// The tags of one shard.
#[derive(Debug, Default)]
pub(crate) struct TagTable {
    /// The latest version up to which a tag was cleared that records may still carry. What is newer
    /// need not be looked at.
    latest: u64,
    /// By id, the version up to which it was cleared in whatever way. Apart from the rows: reads
    /// look at it.
    cleared: Vec<u64>,
    rows: Vec<Row>,
    ids: HashTable<u32>,
    /// Free rows; bits beyond the rows are ignored.
    free: BinaryHeap<Reverse<u32>>,
    soft: HashMap<u32, SoftClears, FixedState>,
    /// Bytes of the lists in `soft`.
    soft_lists: usize,
    recent: VecDeque<Recent>,
    /// The latest clear that fell out of `recent`.
    forgotten: u64,
    /// Bytes of names, with their allocations.
    names: usize,
}

impl TagTable {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Tags that records carry.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.names
            + self.cleared.capacity() * size_of::<u64>()
            + self.rows.capacity() * size_of::<Row>()
            + self.ids.allocation_size()
            + self.free.capacity() * size_of::<u32>()
            + self.soft.allocation_size()
            + self.soft_lists
            + self.recent.capacity() * size_of::<Recent>()
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.ids.find(hash, |id| *self.rows[*id as usize].name == *name).copied()
    }

    pub(crate) fn name(&self, id: u32) -> &[u8] {
        &self.rows[id as usize].name
    }

    /// The id of a tag, counted as carried once more.
    pub(crate) fn intern(&mut self, hash: u64, name: &[u8]) -> u32 {
        if let Some(id) = self.find(hash, name) {
            self.rows[id as usize].records += 1;
            return id;
        }
        let row = Row { name: name.into(), hash, records: 1 };
        self.names += name.len() + ALLOCATION;
        let id = loop {
            match self.free.pop() {
                Some(Reverse(id)) if (id as usize) < self.rows.len() => {
                    self.rows[id as usize] = row;
                    break id;
                }
                Some(_) => {}
                None => {
                    if self.rows.len() == self.rows.capacity() {
                        let more = (self.rows.len() / 8).max(4);
                        self.rows.reserve_exact(more);
                        self.cleared.reserve_exact(more);
                    }
                    self.rows.push(row);
                    self.cleared.push(0);
                    break (self.rows.len() - 1) as u32;
                }
            }
        };
        self.ids.insert_unique(hash, id, |id| self.rows[*id as usize].hash);
        id
    }

    /// One record more carries these tags.
    pub(crate) fn retain(&mut self, ids: impl Iterator<Item = u32>) {
        ids.for_each(|id| self.rows[id as usize].records += 1);
    }

    /// One record less does.
    pub(crate) fn release(&mut self, ids: impl Iterator<Item = u32>) {
        for id in ids {
            let row = &mut self.rows[id as usize];
            row.records -= 1;
            if row.records == 0 {
                self.free(id);
            }
        }
    }

    fn free(&mut self, id: u32) {
        let row = &mut self.rows[id as usize];
        self.names -= row.name.len() + ALLOCATION;
        row.name = Box::default();
        if let Ok(found) = self.ids.find_entry(row.hash, |other| *other == id) {
            found.remove();
        }
        self.cleared[id as usize] = 0;
        self.forget_soft(id);
        self.free.push(Reverse(id));
        if self.ids.is_empty() {
            // What was fetched when it was cleared may still come.
            let (recent, forgotten) = (std::mem::take(&mut self.recent), self.forgotten);
            *self = TagTable { recent, forgotten, ..TagTable::default() };
            return;
        }
        while self.rows.last().is_some_and(|row| row.records == 0) {
            self.rows.pop();
            self.cleared.pop();
        }
        if self.rows.len() * 4 < self.rows.capacity() {
            self.shrink();
        }
    }

    fn forget_soft(&mut self, id: u32) {
        if !self.soft.is_empty()
            && let Some(clears) = self.soft.remove(&id)
        {
            self.soft_lists -= clears.bytes();
        }
    }

    /// Gives back most of what is not in use. Rows in the midst stay: records know them by number.
    fn shrink(&mut self) {
        let rows = self.rows.len();
        self.rows.shrink_to(rows * 2);
        self.cleared.shrink_to(rows * 2);
        self.free.retain(|Reverse(id)| (*id as usize) < rows);
        self.free.shrink_to_fit();
        self.ids.shrink_to(self.ids.len() * 2, |id| self.rows[*id as usize].hash);
        self.soft.shrink_to_fit();
    }

    /// Clears a tag: entries of `version` and below that carry it are gone, or out of date since
    /// `soft`. Gives the number of records that carry it. `flights`: something is being
    /// fetched, by flights that began below `version`.
    pub(crate) fn clear(
        &mut self,
        (hash, name): (u64, &[u8]),
        version: u64,
        soft: Option<Millis>,
        apart: u64,
        flights: bool,
    ) -> u32 {
        if flights {
            if self.recent.len() == RECENT {
                self.forgotten = self.recent.pop_front().map_or(self.forgotten, |oldest| oldest.version);
            }
            self.recent.push_back(Recent { hash, version });
        } else if !self.recent.is_empty() {
            self.recent = VecDeque::new();
        }
        let Some(id) = self.find(hash, name) else { return 0 };
        match soft {
            None => self.forget_soft(id),
            Some(since) => {
                let hard = self.cleared[id as usize];
                let clears = self.soft.entry(id).or_insert_with(|| SoftClears { hard, soft: Vec::new() });
                let before = if clears.soft.is_empty() { 0 } else { clears.bytes() };
                clears.add(version, since, apart);
                self.soft_lists = self.soft_lists + clears.bytes() - before;
            }
        }
        self.cleared[id as usize] = version;
        self.latest = version;
        self.rows[id as usize].records
    }

    /// Whether something that began to be fetched at version `begun` and carries this tag must not
    /// be stored.
    pub(crate) fn overtook(&self, hash: u64, begun: u64) -> bool {
        begun < self.forgotten || self.recent.iter().any(|clear| clear.hash == hash && begun < clear.version)
    }

    /// The latest version that a clear may concern; 0: none does.
    #[inline]
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// Every record was looked at and none is cleared, as of the clear that had this version.
    pub(crate) fn none_cleared(&mut self, latest: u64) {
        if self.latest == latest {
            self.latest = 0;
        }
    }

    /// What the clears of its tags say of an entry.
    pub(crate) fn judge(&self, word: u32, bytes: &[u8], version: u64) -> Cleared {
        let mut cleared = Cleared::No;
        for id in attributes::ids(word, bytes).filter(|id| version <= self.cleared[*id as usize]) {
            let of_this = self.soft.get(&id).map_or(Cleared::Gone, |clears| clears.judge(version));
            cleared = match (cleared, of_this) {
                (_, Cleared::Gone) => return Cleared::Gone,
                (Cleared::Since(one), Cleared::Since(other)) => Cleared::Since(one.min(other)),
                (other, Cleared::No) | (_, other) => other,
            };
        }
        cleared
    }

    /// The rows are those of these records, given by their words and attributes.
    #[cfg(test)]
    pub(crate) fn check<'a>(&self, records: impl Iterator<Item = (u32, &'a [u8])>) {
        let mut carried = std::collections::HashMap::new();
        for (word, bytes) in records {
            attributes::ids(word, bytes).for_each(|id| *carried.entry(id).or_insert(0) += 1);
        }
        assert_eq!(self.ids.len(), carried.len());
        for (id, records) in &carried {
            let row = &self.rows[*id as usize];
            assert_eq!((row.records, self.find(row.hash, &row.name)), (*records, Some(*id)));
        }
        assert_eq!(self.rows.len(), self.cleared.len());
        let names = carried.keys().map(|id| self.name(*id).len() + ALLOCATION);
        assert_eq!(self.names, names.sum::<usize>());
        assert_eq!(self.soft_lists, self.soft.values().map(SoftClears::bytes).sum::<usize>());
        assert!(self.soft.keys().all(|id| carried.contains_key(id)));
        let free = self.free.iter().filter(|id| (id.0 as usize) < self.rows.len());
        assert_eq!(free.count() + carried.len(), self.rows.len());
        assert!(self.rows.iter().all(|row| row.records > 0 || row.name.is_empty()));
    }
}

impl SoftClears {
    /// Clears that are less than `apart` ms apart count as one, the earlier one.
    fn add(&mut self, version: u64, since: Millis, apart: u64) {
        match self.soft.last_mut() {
            Some(last) if since < last.1.saturating_add(apart) => last.0 = version,
            _ => {
                if self.soft.len() == SOFT_CLEARS {
                    self.hard = self.soft.remove(0).0;
                }
                self.soft.reserve_exact(1);
                self.soft.push((version, since));
            }
        }
    }

    fn bytes(&self) -> usize {
        self.soft.capacity() * size_of::<(u64, Millis)>() + ALLOCATION
    }

    fn judge(&self, version: u64) -> Cleared {
        if version <= self.hard {
            return Cleared::Gone;
        }
        self.soft.iter().find(|clear| version <= clear.0).map_or(Cleared::No, |clear| Cleared::Since(clear.1))
    }
}
