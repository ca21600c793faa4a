//! Where walks through a store (SCAN) go on. A cursor is a number and a place is a key, so the
//! places are kept here.
//!
//! A walk occupies two: the one that it was given last, and the one that it was given that for, so
//! that a client may ask again for what it did not get. Unused cursors are forgotten when the room
//! is needed, the oldest first.
use bytes::Bytes;
use larder_base::buffers::{BufferKind, Buffers, TableShare};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// Cursors that are kept, and bytes that they occupy: these, or the table's share of `max-buffers`
/// if that is less.
const MOST: usize = 16 * 1024;
const MOST_BYTES: usize = 16 << 20;
/// Cursors are numbers that every language can hold exactly.
const FIRST: u64 = 1 << 50;

#[derive(Debug)]
pub struct Cursors(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    places: BTreeMap<u64, Place>,
    /// About what the places occupy.
    bytes: usize,
    share: TableShare,
    next: u64,
}
#[derive(Debug)]
struct Place {
    /// The last key that was seen.
    key: Bytes,
    /// The cursor that it was seen from; 0: none.
    before: u64,
}

/// About what a place with this key occupies.
fn owned(key: &Bytes) -> usize {
    key.len() + 128
}

impl Cursors {
    /// None yet.
    pub fn new(buffers: &Arc<Buffers>) -> Cursors {
        // A cursor of another life of the server must not be one of this.
        let next = fastrand::u64(1..=FIRST);
        let share = buffers.table(BufferKind::Cursors);
        Cursors(Mutex::new(Kept { places: BTreeMap::new(), bytes: 0, share, next }))
    }

    /// Where this cursor's walk goes on: behind this key.
    pub fn place(&self, cursor: u64) -> Option<Bytes> {
        self.0.lock().places.get(&cursor).map(|place| place.key.clone())
    }

    /// A cursor for what comes behind a key, for the walk that came here from cursor `before`.
    pub fn keep(&self, key: Bytes, before: u64) -> u64 {
        let kept = &mut *self.0.lock();
        // Who uses a cursor has received it: the one before is done with.
        if let Some(before) = kept.places.get(&before).map(|place| place.before) {
            kept.forget(before);
        }
        let cursor = kept.next;
        kept.next += 1;
        kept.bytes += owned(&key);
        kept.places.insert(cursor, Place { key, before });
        let max_bytes = kept.share.max().min(MOST_BYTES);
        while kept.places.len() > MOST || kept.bytes > max_bytes {
            let Some((&oldest, _)) = kept.places.first_key_value() else { break };
            kept.forget(oldest);
        }
        kept.share.settle(kept.bytes);
        cursor
    }
}
impl Kept {
    fn forget(&mut self, cursor: u64) {
        if let Some(place) = self.places.remove(&cursor) {
            self.bytes -= owned(&place.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_keeps_two_places_and_many_are_bounded() {
        let cursors = Cursors::new(&Buffers::unbounded());
        let abandoned = cursors.keep("abandoned".into(), 0);
        let mut cursor = 0;
        let mut given = Vec::new();
        for step in 0..2 * MOST {
            cursor = cursors.keep(format!("{step}").into(), cursor);
            given.push(cursor);
        }
        assert_eq!(cursors.place(cursor), Some(format!("{}", 2 * MOST - 1).into()));
        assert!(cursors.place(given[2 * MOST - 2]).is_some(), "may be asked for again");
        assert_eq!(cursors.place(given[2 * MOST - 3]), None);
        assert_eq!(cursors.place(abandoned), Some("abandoned".into()), "a long walk does not push others out");
        assert_eq!(cursors.0.lock().places.len(), 3);
        for _ in 0..MOST {
            cursors.keep("other".into(), 0);
        }
        assert_eq!((cursors.place(abandoned), cursors.place(cursor)), (None, None));
        for _ in 0..1000 {
            cursors.keep(vec![b'x'; 64 << 10].into(), 0);
        }
        let kept = cursors.0.lock();
        assert!(kept.bytes <= MOST_BYTES, "{}", kept.bytes);
        assert_eq!(kept.bytes, kept.places.values().map(|place| owned(&place.key)).sum::<usize>());
    }

    #[test]
    fn cursors_have_an_eighth_of_the_buffers() {
        let buffers = Buffers::new(8 << 20, 1, Vec::new());
        let cursors = Cursors::new(&buffers);
        for _ in 0..1000 {
            cursors.keep(vec![b'x'; 64 << 10].into(), 0);
        }
        let used = buffers.used();
        assert!((900 << 10..=1 << 20).contains(&used), "{used}");
    }
}
