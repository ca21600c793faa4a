//! An entry too large for a segment of the log.

use bytes::{Bytes, BytesMut};
use memmap2::MmapMut;

/// An entry too large for a segment: key and value in one allocation, so that the value can leave by reference.
#[derive(Debug)]
pub(crate) struct Large {
    data: Bytes,
    key_len: usize,
    /// Bytes that the allocation takes.
    allocated: usize,
}

/// What an allocator keeps beside an allocation, roughly.
const ALLOCATION: usize = 16;
/// From here on the operating system is asked for pages: an allocator that is given values of all sizes in turn keeps up to as
/// much again in the gaps between them.
const MAPPED: usize = if cfg!(miri) { usize::MAX } else { 64 << 10 };
const PAGE: usize = 4096;

impl Large {
    pub(crate) fn new(key: &[u8], value: &[u8]) -> Large {
        let (key_len, len) = (key.len(), key.len() + value.len());
        if len >= MAPPED
            && let Ok(mut pages) = MmapMut::map_anon(len)
        {
            let (to_key, to_value) = pages.split_at_mut(key_len);
            to_key.copy_from_slice(key);
            to_value.copy_from_slice(value);
            return Large { data: Bytes::from_owner(pages), key_len, allocated: len.next_multiple_of(PAGE) };
        }
        let data = [key, value].concat();
        Large { key_len, allocated: data.capacity() + ALLOCATION, data: data.into() }
    }

    /// A value whose key lies elsewhere and which nothing is charged for.
    pub(crate) fn outside(value: Bytes) -> Large {
        Large { data: value, key_len: 0, allocated: 0 }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.data[..self.key_len]
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.data[self.key_len..]
    }

    pub(crate) fn share(&self) -> Bytes {
        self.data.slice(self.key_len..)
    }

    /// Rewrites the value: in place, unless a reader still holds it or it lies in pages of its own. What is edited once is
    /// likely to be again, so it moves to the heap, where it can grow.
    pub(crate) fn edit(&mut self, edit: impl FnOnce(&mut BytesMut, usize)) {
        let mut data =
            std::mem::take(&mut self.data).try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        edit(&mut data, self.key_len);
        self.allocated = data.capacity() + ALLOCATION;
        self.data = data.freeze();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.allocated
    }
}
