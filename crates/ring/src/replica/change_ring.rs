//! Records of changes in the order in which they were made, of which the oldest are forgotten when
//! there are too many.
//!
//! ```text
//!   record:  bit 31 it is a clear · bits 0-30 length | bytes        a key, or a clear as `frames` writes it
//!   segment: records one behind the other; the oldest segment is forgotten as a whole, and its memory used again
//! ```
//!
//! A key that stands in a record which no reader has read yet is not put again: its entry is read
//! later than the record, and so is as it is now. A clear ends that for all records before it,
//! because what is changed after a clear has to be sent after it.
use std::collections::VecDeque;

const HEAD: usize = 4;
const CLEAR: u32 = 1 << 31;
/// Capacity of the first segment; each is twice as large as the one before, up to the bound's
/// share.
const FIRST_CAPACITY: usize = 1 << 10;
/// The bound divided by the capacity of a segment: so much of it is forgotten at once.
const SEGMENTS: usize = 8;
/// Keys that are looked at before one is put again.
const RECENT: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordKind {
    /// A key whose entry changed.
    Key,
    /// A clear of many entries.
    Clear,
}

/// A place between two records: the number of the next record, and the offset of its first byte
/// since the ring began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RingCursor {
    pub(super) record: u64,
    at: u64,
}

/// The records that a reader wants are forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forgotten;

#[derive(Debug)]
struct Segment {
    begin: RingCursor,
    bytes: Vec<u8>,
}

/// A bounded queue of records.
#[derive(Debug)]
pub(super) struct ChangeRing {
    segments: VecDeque<Segment>,
    /// Bytes of all segments, used or not.
    capacity: usize,
    max: usize,
    /// The place after the latest record.
    end: RingCursor,
    /// A reader has read the records before this one, or wants only what is after them, or they
    /// stand before a clear.
    read_up_to: u64,
    /// Where keys of the latest records stand, by their hash.
    recent: [(u64, RingCursor); RECENT],
}

impl ChangeRing {
    /// Keeps at most `max` bytes.
    pub(super) fn new(max: usize) -> ChangeRing {
        let (end, recent) = (RingCursor::default(), [(0, RingCursor::default()); RECENT]);
        ChangeRing { segments: VecDeque::new(), capacity: 0, max, end, read_up_to: 0, recent }
    }

    /// Bytes of memory.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The place after the latest record.
    pub(super) fn end(&self) -> RingCursor {
        self.end
    }

    /// Like `end`, for a reader that begins there.
    pub(super) fn begin_at_end(&mut self) -> RingCursor {
        self.read_up_to = self.end.record;
        self.end
    }

    /// The oldest record that is kept.
    fn begin(&self) -> RingCursor {
        self.segments.front().map_or(self.end, |segment| segment.begin)
    }

    /// Forgets all records and gives the memory back.
    pub(super) fn forget(&mut self) {
        self.segments = VecDeque::new();
        self.capacity = 0;
    }

    /// Adds a key, unless it stands in a record already that every reader is going to read. `hash`:
    /// of the key.
    pub(super) fn append_key(&mut self, hash: u64, key: &[u8]) {
        let slot = hash as usize % RECENT;
        let (of, place) = self.recent[slot];
        if of == hash && place.record >= self.read_up_to && self.record_at(place) == Some(key) {
            return;
        }
        self.recent[slot] = (hash, self.append(RecordKind::Key, key));
    }

    /// Adds a clear.
    pub(super) fn append_clear(&mut self, clear: &[u8]) {
        self.append(RecordKind::Clear, clear);
        self.read_up_to = self.end.record;
    }

    /// Adds a record. Gives its place.
    fn append(&mut self, kind: RecordKind, bytes: &[u8]) -> RingCursor {
        let (size, place) = (HEAD + bytes.len(), self.end);
        self.end = RingCursor { record: place.record + 1, at: place.at + size as u64 };
        if size > self.max {
            // No reader can pass this record.
            self.forget();
            return place;
        }
        let has_room = |segment: &&mut Segment| segment.bytes.capacity() - segment.bytes.len() >= size;
        let segment = match self.segments.back_mut().filter(has_room) {
            Some(segment) => segment,
            None => self.begin_segment(size, place),
        };
        let head = bytes.len() as u32 | if kind == RecordKind::Clear { CLEAR } else { 0 };
        segment.bytes.extend_from_slice(&head.to_le_bytes());
        segment.bytes.extend_from_slice(bytes);
        place
    }

    /// Begins a segment with room for a record. Forgets the oldest ones where the bound says so.
    #[inline(never)]
    fn begin_segment(&mut self, size: usize, begin: RingCursor) -> &mut Segment {
        let last = self.segments.back().map_or(0, |segment| segment.bytes.capacity());
        let largest = self.max / SEGMENTS;
        let wanted = (2 * last).clamp(FIRST_CAPACITY.min(largest), largest).max(size);
        let mut bytes = Vec::new();
        while self.capacity + wanted > self.max {
            let Some(oldest) = self.segments.pop_front() else { break };
            self.capacity -= oldest.bytes.capacity();
            bytes = oldest.bytes;
        }
        bytes.clear();
        if bytes.capacity() < size || self.capacity + bytes.capacity() > self.max {
            bytes = Vec::new();
            bytes.reserve_exact(wanted);
        }
        self.capacity += bytes.capacity();
        self.segments.push_back(Segment { begin, bytes });
        self.segments.back_mut().expect("one was pushed")
    }

    /// The number of the segment that a place is in; past the last one, if nothing was added there
    /// yet.
    fn segment_of(&self, cursor: RingCursor) -> Result<usize, Forgotten> {
        match cursor.record < self.begin().record {
            true => Err(Forgotten),
            false => Ok(self.segments.partition_point(|segment| segment.begin.at <= cursor.at).saturating_sub(1)),
        }
    }

    /// The bytes of a record, if it is kept.
    fn record_at(&self, place: RingCursor) -> Option<&[u8]> {
        let segment = self.segments.get(self.segment_of(place).ok()?)?;
        let rest = &segment.bytes[(place.at - segment.begin.at) as usize..];
        rest[HEAD..].get(..length_at(rest, 0))
    }

    /// The place before a record; `None` if that record is forgotten or was never there.
    pub(super) fn find(&self, record: u64) -> Option<RingCursor> {
        if record < self.begin().record || record > self.end.record {
            return None;
        }
        let number = self.segments.partition_point(|segment| segment.begin.record <= record);
        let Some(segment) = number.checked_sub(1).and_then(|number| self.segments.get(number)) else {
            return Some(self.end);
        };
        let mut index = 0;
        for _ in segment.begin.record..record {
            index += HEAD + length_at(&segment.bytes, index);
        }
        Some(RingCursor { record, at: segment.begin.at + index as u64 })
    }

    /// Appends keys from `cursor` on to `out`, with their heads, and moves the cursor past them: up
    /// to record `until`, up to a clear, and until `out` has `enough` bytes.
    ///
    /// # Errors
    /// The record at the cursor is forgotten.
    pub(super) fn read_keys(
        &mut self,
        cursor: &mut RingCursor,
        until: u64,
        enough: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Forgotten> {
        let first = self.segment_of(*cursor)?;
        for segment in self.segments.range(first..) {
            let from = (cursor.at - segment.begin.at) as usize;
            let (mut to, mut record) = (from, cursor.record);
            let mut is_over = false;
            while to < segment.bytes.len() {
                is_over = record >= until || out.len() + to - from >= enough || is_clear_at(&segment.bytes, to);
                if is_over {
                    break;
                }
                to += HEAD + length_at(&segment.bytes, to);
                record += 1;
            }
            out.extend_from_slice(&segment.bytes[from..to]);
            *cursor = RingCursor { record, at: cursor.at + (to - from) as u64 };
            if is_over {
                break;
            }
        }
        self.read_up_to = self.read_up_to.max(cursor.record);
        Ok(())
    }

    /// Appends the clear at `cursor` to `out`, without its head, and moves the cursor past it.
    ///
    /// # Errors
    /// It is forgotten.
    pub(super) fn read_clear(&self, cursor: &mut RingCursor, out: &mut Vec<u8>) -> Result<(), Forgotten> {
        let clear = self.record_at(*cursor).ok_or(Forgotten)?;
        out.extend_from_slice(clear);
        *cursor = RingCursor { record: cursor.record + 1, at: cursor.at + (HEAD + clear.len()) as u64 };
        Ok(())
    }
}

fn head_at(bytes: &[u8], index: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[index + byte]))
}
/// Bytes of the record whose head begins there, without the head.
fn length_at(bytes: &[u8], index: usize) -> usize {
    (head_at(bytes, index) & !CLEAR) as usize
}
fn is_clear_at(bytes: &[u8], index: usize) -> bool {
    head_at(bytes, index) & CLEAR != 0
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
    use std::{
        collections::{BTreeMap, hash_map::DefaultHasher},
        hash::{Hash as _, Hasher as _},
    };

    fn hash(key: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        // Few, so that keys meet.
        hasher.finish() % 3
    }
    fn append(ring: &mut ChangeRing, key: &[u8]) {
        ring.append_key(hash(key), key);
    }
    fn read(ring: &mut ChangeRing, cursor: &mut RingCursor, enough: usize) -> Result<Vec<Vec<u8>>, Forgotten> {
        let mut out = Vec::new();
        ring.read_keys(cursor, ring.end().record, enough, &mut out)?;
        Ok(keys(&out).map(<[u8]>::to_vec).collect())
    }

    proptest! {
        /// A reader sees every record in order, or hears that it was too slow. The ring stays within its bound, and forgets no more than a
        /// segment too much.
        #[test]
        fn readers_see_all_records_or_hear_that_some_are_forgotten(
            steps in prop::collection::vec((0..40usize, prop::bool::ANY), 1..200),
            max in 64..20_000usize,
        ) {
            let mut ring = ChangeRing::new(max);
            let mut all: Vec<Vec<u8>> = Vec::new();
            let mut cursor = ring.begin_at_end();
            for (number, (len, reads)) in steps.into_iter().enumerate() {
                let key = [&(number as u32).to_le_bytes()[..], &vec![7; len]].concat();
                append(&mut ring, &key);
                all.push(key);
                prop_assert!(ring.capacity() <= max);
                if reads {
                    let before = cursor.record as usize;
                    match read(&mut ring, &mut cursor, usize::MAX) {
                        Ok(seen) => prop_assert_eq!(&seen[..], &all[before..]),
                        Err(Forgotten) => {
                            let kept: usize = all[before..].iter().map(|key| HEAD + key.len()).sum();
                            // Segments that are forgotten as a whole, and what is left of others where a record needs more.
                            let lost = 3 * (max / SEGMENTS).max(48) + SEGMENTS * 48;
                            prop_assert!(kept + lost > max, "{} bytes fit into {}", kept, max);
                            cursor = ring.begin_at_end();
                        }
                    }
                }
                // Who comes back with a number alone finds the same place.
                prop_assert_eq!(ring.find(cursor.record).is_some(), ring.segment_of(cursor).is_ok());
                if let Some(found) = ring.find(cursor.record) {
                    prop_assert_eq!(found, cursor);
                }
            }
        }

        /// However keys repeat: readers that read each key's present state whenever they come to its name end with all present states.
        #[test]
        fn keys_that_are_not_put_again_reach_all_readers(
            steps in prop::collection::vec((0..8usize, 0..5u8, 1..60usize), 1..300),
        ) {
            let mut ring = ChangeRing::new(1 << 20);
            let mut state = BTreeMap::new();
            let begun = ring.begin_at_end();
            // The third begins later.
            let mut readers = [(begun, BTreeMap::new()), (begun, BTreeMap::new()), (begun, BTreeMap::new())];
            for (version, (step, key, enough)) in steps.iter().copied().enumerate() {
                match step {
                    0..=3 => {
                        state.insert(key, version);
                        append(&mut ring, &[key]);
                    }
                    4 => {
                        state.remove(&key);
                        append(&mut ring, &[key]);
                    }
                    5 if key == 0 => {
                        state.clear();
                        ring.append_clear(b"clear");
                    }
                    5 if key == 1 => readers[2] = (ring.begin_at_end(), state.clone()),
                    step => {
                        let (cursor, held) = &mut readers[(step + usize::from(key)) % 3];
                        follow(&mut ring, cursor, enough, &state, held);
                    }
                }
            }
            for (mut cursor, mut held) in readers {
                while cursor != ring.end() {
                    follow(&mut ring, &mut cursor, usize::MAX, &state, &mut held);
                }
                prop_assert_eq!(&held, &state);
            }
        }
    }

    /// A reader's turn: some keys, or the clear that comes next.
    fn follow(
        ring: &mut ChangeRing,
        cursor: &mut RingCursor,
        enough: usize,
        state: &BTreeMap<u8, usize>,
        held: &mut BTreeMap<u8, usize>,
    ) {
        let before = *cursor;
        for key in read(ring, cursor, enough).expect("it is long enough") {
            match state.get(&key[0]) {
                Some(version) => held.insert(key[0], *version),
                None => held.remove(&key[0]),
            };
        }
        if *cursor == before && before != ring.end() {
            ring.read_clear(cursor, &mut Vec::new()).expect("a clear");
            held.clear();
        }
    }

    #[test]
    fn a_key_is_put_once_for_all_readers_that_have_not_read_it() {
        let mut ring = ChangeRing::new(1000);
        let mut cursor = ring.begin_at_end();
        for _ in 0..100 {
            append(&mut ring, b"hot");
        }
        assert_eq!(read(&mut ring, &mut cursor, 100).unwrap(), [b"hot"]);
        append(&mut ring, b"hot");
        assert_eq!(read(&mut ring, &mut cursor, 100).unwrap(), [b"hot"]);
    }

    #[test]
    fn reading_stops_at_a_clear_and_when_there_is_enough() {
        let mut ring = ChangeRing::new(1000);
        let mut cursor = ring.begin_at_end();
        for key in ["a", "b", "c"] {
            append(&mut ring, key.as_bytes());
        }
        ring.append_clear(b"clear");
        append(&mut ring, b"d");
        assert_eq!(read(&mut ring, &mut cursor, 1).unwrap(), [b"a"]);
        assert_eq!(read(&mut ring, &mut cursor, 100).unwrap(), [b"b", b"c"]);
        assert!(read(&mut ring, &mut cursor, 100).unwrap().is_empty());
        let mut clear = Vec::new();
        ring.read_clear(&mut cursor, &mut clear).unwrap();
        assert_eq!((&clear[..], read(&mut ring, &mut cursor, 100).unwrap()), (&b"clear"[..], vec![b"d".to_vec()]));
        assert!(ring.find(6).is_none());
        // One that does not fit makes all readers start over.
        append(&mut ring, &[0; 1000]);
        assert_eq!(read(&mut ring, &mut cursor, 100), Err(Forgotten));
        assert!(ring.find(5).is_none() && ring.find(6) == Some(ring.end()));
    }
}
