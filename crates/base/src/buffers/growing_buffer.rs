//! A buffer that grows with what arrives. Once it is large it lies in pages of its own: they go
//! back to the system at once, where an allocator would keep what a large buffer has left behind.
use bytes::Bytes;
use memmap2::MmapMut;
use std::{
    future::Future,
    io,
    ops::Deref,
    pin::pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// From here on pages are asked for.
const MAPPED: usize = 256 * 1024;
/// Once so much has come, pages are asked for all that has been announced. Those that are never
/// written to take no memory.
const BELIEVED: usize = 1 << 20;

/// Bytes, and room for more.
#[derive(Debug)]
pub enum GrowingBuffer {
    Heap(Vec<u8>),
    /// In pages, of which the first so many bytes are filled.
    Pages(MmapMut, usize),
}

impl GrowingBuffer {
    /// Bytes that it has room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        match self {
            GrowingBuffer::Heap(bytes) => bytes.capacity(),
            GrowingBuffer::Pages(pages, _) => pages.len(),
        }
    }

    /// Bytes of memory that it occupies: pages that were never written to occupy none.
    #[inline]
    pub fn occupied(&self) -> usize {
        match self {
            GrowingBuffer::Heap(bytes) => bytes.capacity(),
            GrowingBuffer::Pages(_, filled) => *filled,
        }
    }

    /// Makes room for at least `least` bytes, of `announced` that are to come: as much again as it
    /// has, or all of them once many have come.
    pub fn grow(&mut self, least: usize, announced: usize) {
        let len = self.len();
        if len >= BELIEVED && self.map(len + least.max(announced)) {
            return;
        }
        self.reserve_exact(least.max(announced.min(len)));
    }

    /// Moves to pages; false if the system gives none.
    fn map(&mut self, capacity: usize) -> bool {
        let Ok(mut pages) = MmapMut::map_anon(capacity) else { return false };
        let len = self.len();
        pages[..len].copy_from_slice(self);
        *self = GrowingBuffer::Pages(pages, len);
        true
    }

    /// Makes room for `more` bytes, and not for many beyond.
    pub fn reserve_exact(&mut self, more: usize) {
        let needed = self.len() + more;
        if needed <= self.capacity() {
            return;
        }
        if needed >= MAPPED && self.map(needed) {
            return;
        }
        match self {
            GrowingBuffer::Heap(bytes) => bytes.reserve_exact(more),
            // The system has no more mappings to give.
            GrowingBuffer::Pages(..) => {
                let mut bytes = Vec::with_capacity(needed);
                bytes.extend_from_slice(self);
                *self = GrowingBuffer::Heap(bytes);
            }
        }
    }

    /// Appends bytes, which with those to come will be `most`, as far as is known.
    pub fn extend(&mut self, bytes: &[u8], most: usize) {
        let len = self.len();
        if self.capacity() - len < bytes.len() {
            self.grow(bytes.len(), most.saturating_sub(len));
        }
        match self {
            GrowingBuffer::Heap(heap) => heap.extend_from_slice(bytes),
            GrowingBuffer::Pages(pages, filled) => {
                pages[len..len + bytes.len()].copy_from_slice(bytes);
                *filled += bytes.len();
            }
        }
    }

    /// Removes bytes from the front.
    pub fn remove_front(&mut self, bytes: usize) {
        match self {
            GrowingBuffer::Heap(heap) => drop(heap.drain(..bytes)),
            GrowingBuffer::Pages(pages, filled) => {
                pages.copy_within(bytes..*filled, 0);
                *filled -= bytes;
            }
        }
    }

    /// Reads once, into what room there is.
    pub fn poll_read(&mut self, from: &mut (impl AsyncRead + Unpin), cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self {
            GrowingBuffer::Heap(bytes) => pin!(from.read_buf(bytes)).poll(cx),
            GrowingBuffer::Pages(pages, filled) => {
                let read = pin!(from.read_buf(&mut &mut pages[*filled..])).poll(cx);
                if let Poll::Ready(Ok(bytes)) = &read {
                    *filled += bytes;
                }
                read
            }
        }
    }
}

impl Default for GrowingBuffer {
    fn default() -> Self {
        GrowingBuffer::Heap(Vec::new())
    }
}
impl Deref for GrowingBuffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            GrowingBuffer::Heap(bytes) => bytes,
            GrowingBuffer::Pages(pages, filled) => &pages[..*filled],
        }
    }
}
impl AsRef<[u8]> for GrowingBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
impl From<GrowingBuffer> for Bytes {
    fn from(growing: GrowingBuffer) -> Bytes {
        match growing {
            GrowingBuffer::Heap(bytes) => bytes.into(),
            pages => Bytes::from_owner(pages),
        }
    }
}
