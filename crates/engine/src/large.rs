//! Large entries: key, attributes and value in one allocation, so that the value can leave by
//! reference.
//!
//! A reader may hold a value for longer than the tier does. Such memory is off the tier's account,
//! which counts what the tier holds; [`Lent`] counts it, once, however many readers there are.

use bytes::{Bytes, BytesMut};
use memmap2::MmapMut;
use std::{
    mem,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

/// From here on the operating system is asked for pages: an allocator that is given values of all
/// sizes in turn keeps up to as much again in the gaps between them.
const MAPPED: usize = if cfg!(miri) { usize::MAX } else { 64 << 10 };
const PAGE: usize = 4096;
/// What an allocator keeps beside an allocation, roughly.
const ALLOCATION: usize = 16;
/// What an entry takes besides its bytes: [`Memory`] and the reference to it, with their counts.
const OVERHEAD: usize = size_of::<Memory>() + size_of::<Owner>() + 2 * (ALLOCATION + 2 * size_of::<usize>());

/// Bytes of values that have left the tier while readers still hold them. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Lent(Arc<AtomicUsize>);

impl Lent {
    /// The bytes.
    pub fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// An entry too large for a segment.
#[derive(Debug)]
pub(crate) struct Large {
    data: Bytes,
    /// What `data` refers to; `None` outside of a tier.
    memory: Option<Arc<Memory>>,
    key_len: usize,
    /// Where the value begins; the attributes lie before it.
    value_at: usize,
    /// Bytes that the allocation takes.
    allocated: usize,
    /// What a caller noted about the value, and the version of the entry that this is about; 0: of
    /// none.
    note: (u32, u64),
}

/// The bytes of an entry, kept by the entry and by those who read it.
#[derive(Debug)]
struct Memory {
    bytes: Storage,
    /// The entry has left the tier: these bytes are in `lent`.
    has_left: AtomicBool,
    lent: Lent,
}

#[derive(Debug)]
enum Storage {
    Pages(MmapMut),
    Heap(BytesMut),
}

impl Storage {
    fn as_slice(&self) -> &[u8] {
        match self {
            Storage::Pages(pages) => pages,
            Storage::Heap(bytes) => bytes,
        }
    }

    fn allocated(&self) -> usize {
        OVERHEAD
            + match self {
                Storage::Pages(pages) => pages.len().next_multiple_of(PAGE),
                Storage::Heap(bytes) => bytes.capacity() + ALLOCATION,
            }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if *self.has_left.get_mut() {
            self.lent.0.fetch_sub(self.bytes.allocated(), Relaxed);
        }
    }
}

/// Lets [`Bytes`] refer to the memory.
struct Owner(Arc<Memory>);
impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes.as_slice()
    }
}

impl Large {
    pub(crate) fn new(key: &[u8], attributes: &[u8], value: &[u8], lent: &Lent) -> Large {
        let (key_len, value_at) = (key.len(), key.len() + attributes.len());
        let len = value_at + value.len();
        if len >= MAPPED
            && let Ok(mut pages) = MmapMut::map_anon(len)
        {
            pages[..key_len].copy_from_slice(key);
            pages[key_len..value_at].copy_from_slice(attributes);
            pages[value_at..].copy_from_slice(value);
            return Large::of(Storage::Pages(pages), key_len, value_at, lent.clone());
        }
        let mut bytes = BytesMut::with_capacity(len);
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(attributes);
        bytes.extend_from_slice(value);
        Large::of(Storage::Heap(bytes), key_len, value_at, lent.clone())
    }

    fn of(bytes: Storage, key_len: usize, value_at: usize, lent: Lent) -> Large {
        let allocated = bytes.allocated();
        let memory = Arc::new(Memory { bytes, has_left: AtomicBool::new(false), lent });
        Large {
            data: Bytes::from_owner(Owner(memory.clone())),
            memory: Some(memory),
            key_len,
            value_at,
            allocated,
            note: (0, 0),
        }
    }

    /// A value whose key lies elsewhere and which nothing is charged for.
    pub(crate) fn outside(value: Bytes) -> Large {
        Large { data: value, memory: None, key_len: 0, value_at: 0, allocated: 0, note: (0, 0) }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.data[..self.key_len]
    }

    pub(crate) fn attributes(&self) -> &[u8] {
        &self.data[self.key_len..self.value_at]
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.data[self.value_at..]
    }

    pub(crate) fn share(&self) -> Bytes {
        self.data.slice(self.value_at..)
    }

    /// Rewrites the value: in place, unless a reader still holds it or it lies in pages of its own.
    /// What is edited once is likely to be again, so it moves to the heap, where it can grow.
    pub(crate) fn edit(&mut self, edit: impl FnOnce(&mut BytesMut, usize)) {
        let Some(memory) = &mut self.memory else { return };
        let lent = memory.lent.clone();
        // Then the memory is the entry's alone, unless a reader has it.
        self.data = Bytes::new();
        let mut bytes = match Arc::get_mut(memory) {
            Some(Memory { bytes: Storage::Heap(bytes), .. }) => mem::take(bytes),
            _ => BytesMut::from(memory.bytes.as_slice()),
        };
        self.leave();
        edit(&mut bytes, self.value_at);
        *self = Large::of(Storage::Heap(bytes), self.key_len, self.value_at, lent);
    }

    /// Notes something about the value of this version.
    pub(crate) fn set_note(&mut self, version: u32, note: u64) {
        self.note = (version, note);
    }

    /// What was noted, if the entry still has that version.
    pub(crate) fn note(&self, version: u32) -> Option<u64> {
        (self.note.0 == version && version != 0).then_some(self.note.1)
    }

    /// Bytes on the tier's account.
    pub(crate) fn bytes(&self) -> usize {
        self.allocated
    }

    /// From now on the memory is its readers', if there are any.
    fn leave(&mut self) {
        if let Some(memory) = self.memory.take() {
            // Marked before the last reference of the entry's is gone, so that the thread that drops the memory
            // sees it.
            memory.has_left.store(true, Relaxed);
            memory.lent.0.fetch_add(memory.bytes.allocated(), Relaxed);
        }
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Room that a value gets for later growth, as a share of its length: 1 in this many bytes.
const GROWTH: usize = 8;

/// Replaces a part of the bytes. Only what lies behind it moves, unless the memory is too small for
/// the result, or more than twice as large: then the result gets memory of its own.
pub(crate) fn replace_range(data: &mut BytesMut, range: Range<usize>, with: &[u8]) {
    let before = data.len();
    let after = before - range.len() + with.len();
    if after > data.capacity() || after < data.capacity() / 2 {
        let mut moved = BytesMut::with_capacity(after + after / GROWTH);
        moved.extend_from_slice(&data[..range.start]);
        moved.extend_from_slice(with);
        moved.extend_from_slice(&data[range.end..]);
        *data = moved;
        return;
    }
    if after > before {
        data.resize(after, 0);
    }
    let behind = range.start + with.len();
    data.copy_within(range.end..before, behind);
    data[range.start..behind].copy_from_slice(with);
    data.truncate(after);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_leaves_the_tier_is_lent_until_its_last_reader_lets_go() {
        for size in [100, MAPPED.min(1 << 20)] {
            let lent = Lent::default();
            let large = Large::new(b"key", b"attributes", &vec![7; size], &lent);
            let (one, two) = (large.share(), large.share());
            assert_eq!(lent.bytes(), 0, "the tier has it on its account");
            let bytes = large.bytes();
            drop(large);
            assert_eq!(lent.bytes(), bytes);
            drop(one);
            assert_eq!((lent.bytes(), two.len()), (bytes, size));
            drop(two);
            assert_eq!(lent.bytes(), 0);
        }
    }

    proptest! {
        #[test]
        fn a_part_is_replaced(
            text in proptest::collection::vec(any::<u8>(), 0..200),
            room in 0_usize..100,
            (a, b) in any::<(prop::sample::Index, prop::sample::Index)>(),
            with in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let (a, b) = (a.index(text.len() + 1), b.index(text.len() + 1));
            let range = a.min(b)..a.max(b);
            let mut data = BytesMut::with_capacity(text.len() + room);
            data.extend_from_slice(&text);
            replace_range(&mut data, range.clone(), &with);
            prop_assert_eq!(&data[..], [&text[..range.start], &with, &text[range.end..]].concat());
            prop_assert!(data.len() * 3 + 16 > data.capacity());
        }

        /// Entries that are made, read, edited and dropped in any order: what is lent is what only readers hold.
        #[test]
        fn lent_is_what_only_readers_hold(steps in proptest::collection::vec((0usize..4, 0usize..8), 1..100)) {
            let lent = Lent::default();
            let mut tier: Vec<Option<Large>> = (0..4).map(|_| None).collect();
            // A reader, the memory that it holds, and that memory's size.
            let mut readers: Vec<(Bytes, *const u8, usize)> = Vec::new();
            for (slot, step) in steps {
                match step {
                    0 | 1 => tier[slot] = Some(Large::new(b"k", b"attributes", &vec![1; 10 + 100 * slot], &lent)),
                    2 => tier[slot] = None,
                    3 | 4 => if let Some(large) = &tier[slot] {
                        readers.push((large.share(), large.data.as_ptr(), large.bytes()));
                    },
                    5 => if let Some(large) = &mut tier[slot] {
                        let before = large.value().to_vec();
                        large.edit(|bytes, _| bytes.extend_from_slice(b"more"));
                        prop_assert_eq!(large.value(), &[&before[..], b"more"].concat()[..]);
                        prop_assert_eq!((large.key(), large.attributes()), (&b"k"[..], &b"attributes"[..]));
                    },
                    _ => if !readers.is_empty() {
                        readers.swap_remove(slot % readers.len());
                    },
                }
                let mut only: Vec<_> = readers.iter().map(|(_, at, size)| (*at, *size)).collect();
                only.sort_unstable();
                only.dedup();
                only.retain(|(at, _)| !tier.iter().flatten().any(|large| large.data.as_ptr() == *at));
                prop_assert_eq!(lent.bytes(), only.iter().map(|(_, size)| size).sum::<usize>());
            }
            drop((tier, readers));
            prop_assert_eq!(lent.bytes(), 0);
        }
    }
}
