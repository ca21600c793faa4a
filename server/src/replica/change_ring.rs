//! Records of changes in the order in which they were made, of which the oldest are forgotten when there are too many.
//!
//! ```text
//!   record:  bit 31 it is a clear · bits 0-30 length | bytes        a key, or a clear as `frames` writes it
//! ```
use std::collections::VecDeque;

const HEAD: usize = 4;
const CLEAR: u32 = 1 << 31;
/// Capacity of a ring that has just begun.
const FIRST_CAPACITY: usize = 1 << 10;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// A key whose entry changed.
    Key,
    /// A clear of many entries.
    Clear,
}

/// A place between two records: the number of the next record, and the offset of its first byte since the ring began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RingCursor {
    pub(super) record: u64,
    at: u64,
}

/// The records that a reader wants are forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forgotten;

/// A bounded queue of records.
#[derive(Debug)]
pub(super) struct ChangeRing {
    bytes: VecDeque<u8>,
    max: usize,
    /// The oldest record that is kept.
    begin: RingCursor,
    next: u64,
}

impl ChangeRing {
    /// Keeps at most `max` bytes.
    pub(super) fn new(max: usize) -> ChangeRing {
        ChangeRing { bytes: VecDeque::new(), max, begin: RingCursor::default(), next: 0 }
    }

    /// Bytes of memory.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The place after the latest record.
    pub(super) fn end(&self) -> RingCursor {
        RingCursor { record: self.next, at: self.begin.at + self.bytes.len() as u64 }
    }

    /// Forgets all records and gives the memory back.
    pub(super) fn forget(&mut self) {
        self.begin = self.end();
        self.bytes = VecDeque::new();
    }

    /// Adds a record.
    pub(super) fn append(&mut self, kind: RecordKind, bytes: &[u8]) {
        let size = HEAD + bytes.len();
        self.next += 1;
        if size > self.max {
            // Nobody can read past this record.
            self.forget();
            return;
        }
        while self.bytes.len() + size > self.max {
            self.forget_first();
        }
        self.make_room(size);
        let head = bytes.len() as u32 | if kind == RecordKind::Clear { CLEAR } else { 0 };
        self.bytes.extend(head.to_le_bytes());
        self.bytes.extend(bytes);
    }

    /// Doubles the capacity where needed, but never past the bound.
    fn make_room(&mut self, size: usize) {
        let needed = self.bytes.len() + size;
        if needed > self.bytes.capacity() {
            let wanted = (self.bytes.capacity() * 2).max(needed).max(FIRST_CAPACITY).min(self.max);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
    }

    fn forget_first(&mut self) {
        let size = self.size_at(0);
        self.bytes.drain(..size);
        self.begin = RingCursor { record: self.begin.record + 1, at: self.begin.at + size as u64 };
    }

    fn head_at(&self, index: usize) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|byte| self.bytes[index + byte]))
    }

    /// Bytes of the record that begins there.
    fn size_at(&self, index: usize) -> usize {
        HEAD + (self.head_at(index) & !CLEAR) as usize
    }

    /// The place before a record; `None` if that record is forgotten or was never there.
    pub(super) fn find(&self, record: u64) -> Option<RingCursor> {
        if record < self.begin.record || record > self.next {
            return None;
        }
        let mut index = 0;
        for _ in self.begin.record..record {
            index += self.size_at(index);
        }
        Some(RingCursor { record, at: self.begin.at + index as u64 })
    }

    /// Appends keys from `cursor` on to `out`, with their heads, and moves the cursor past them: up to record `until`, up to a clear, and
    /// until `out` has `enough` bytes.
    ///
    /// # Errors
    /// The record at the cursor is forgotten.
    pub(super) fn read_keys(
        &self,
        cursor: &mut RingCursor,
        until: u64,
        enough: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Forgotten> {
        let from = self.index(*cursor)?;
        let (mut to, mut record) = (from, cursor.record);
        while record < until && to - from < enough && self.head_at(to) & CLEAR == 0 {
            to += self.size_at(to);
            record += 1;
        }
        self.copy(from, to, out);
        *cursor = RingCursor { record, at: cursor.at + (to - from) as u64 };
        Ok(())
    }

    /// Appends the clear at `cursor` to `out`, without its head, and moves the cursor past it.
    ///
    /// # Errors
    /// It is forgotten.
    pub(super) fn read_clear(&self, cursor: &mut RingCursor, out: &mut Vec<u8>) -> Result<(), Forgotten> {
        let from = self.index(*cursor)?;
        let size = self.size_at(from);
        self.copy(from + HEAD, from + size, out);
        *cursor = RingCursor { record: cursor.record + 1, at: cursor.at + size as u64 };
        Ok(())
    }

    fn index(&self, cursor: RingCursor) -> Result<usize, Forgotten> {
        if cursor.record < self.begin.record { Err(Forgotten) } else { Ok((cursor.at - self.begin.at) as usize) }
    }

    fn copy(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        let (front, back) = self.bytes.as_slices();
        let split = front.len();
        out.extend_from_slice(&front[from.min(split)..to.min(split)]);
        out.extend_from_slice(&back[from.max(split) - split..to.max(split) - split]);
    }
}

/// The keys that [`ChangeRing::read_keys`] wrote.
pub(super) fn keys(mut records: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (head, rest) = records.split_first_chunk::<HEAD>()?;
        let (key, rest) = rest.split_at(u32::from_le_bytes(*head) as usize);
        records = rest;
        Some(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(ring: &ChangeRing, cursor: &mut RingCursor, enough: usize) -> Result<Vec<Vec<u8>>, Forgotten> {
        let mut out = Vec::new();
        ring.read_keys(cursor, ring.end().record, enough, &mut out)?;
        Ok(keys(&out).map(<[u8]>::to_vec).collect())
    }

    proptest! {
        /// A reader sees every record in order, or hears that it was too slow. The ring stays within its bound.
        #[test]
        fn readers_see_all_records_or_hear_that_some_are_forgotten(
            steps in prop::collection::vec((0..40usize, prop::bool::ANY), 1..200),
            max in 64..512usize,
        ) {
            let mut ring = ChangeRing::new(max);
            let mut all: Vec<Vec<u8>> = Vec::new();
            let mut cursor = ring.end();
            for (number, (len, reads)) in steps.into_iter().enumerate() {
                let key = vec![number as u8; len];
                ring.append(RecordKind::Key, &key);
                all.push(key);
                prop_assert!(ring.capacity() <= max);
                if reads {
                    let before = cursor.record as usize;
                    match read(&ring, &mut cursor, usize::MAX) {
                        Ok(seen) => prop_assert_eq!(&seen[..], &all[before..]),
                        Err(Forgotten) => {
                            let kept: usize = all[before..].iter().map(|key| HEAD + key.len()).sum();
                            prop_assert!(kept > max, "{} bytes fit into {}", kept, max);
                            cursor = ring.end();
                        }
                    }
                }
                // Who comes back with a number alone finds the same place.
                prop_assert_eq!(ring.find(cursor.record).is_some(), ring.index(cursor).is_ok());
                if let Some(found) = ring.find(cursor.record) {
                    prop_assert_eq!(found, cursor);
                }
            }
        }
    }

    #[test]
    fn reading_stops_at_a_clear_and_when_there_is_enough() {
        let mut ring = ChangeRing::new(1000);
        let mut cursor = ring.end();
        for key in ["a", "b", "c"] {
            ring.append(RecordKind::Key, key.as_bytes());
        }
        ring.append(RecordKind::Clear, b"clear");
        ring.append(RecordKind::Key, b"d");
        assert_eq!(read(&ring, &mut cursor, 1).unwrap(), [b"a"]);
        assert_eq!(read(&ring, &mut cursor, 100).unwrap(), [b"b", b"c"]);
        assert!(read(&ring, &mut cursor, 100).unwrap().is_empty());
        let mut clear = Vec::new();
        ring.read_clear(&mut cursor, &mut clear).unwrap();
        assert_eq!((&clear[..], read(&ring, &mut cursor, 100).unwrap()), (&b"clear"[..], vec![b"d".to_vec()]));
        assert!(ring.find(6).is_none());
        // One that does not fit makes all readers start over.
        ring.append(RecordKind::Key, &[0; 1000]);
        assert_eq!(read(&ring, &mut cursor, 100), Err(Forgotten));
        assert!(ring.find(5).is_none() && ring.find(6) == Some(ring.end()));
    }
}
