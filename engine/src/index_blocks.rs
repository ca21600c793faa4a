//! The memory of the index's buckets. Buckets come in blocks of a fixed size, so a page grows by a
//! block without moving, and what one page gives back fits any other. Arrays of a page's own, which
//! the allocator would place, lost a sixth of their memory between them.

use crate::index_bucket::Bucket;
use prefetch_index::prefetch_index;
use std::ops::{Index, IndexMut};

/// Buckets of a block.
pub(crate) const BLOCK: usize = 8;
/// Blocks that are allocated together.
const CHUNK: usize = 16;
const CHUNK_BUCKETS: usize = CHUNK * BLOCK;
/// Free blocks that are kept, beside those of a chunk: one of so many.
const KEPT: usize = 16;
/// The owner of a free block.
const FREE: u32 = u32::MAX;

/// Blocks by number. They are empty when they are taken. What a search needs comes first (see
/// [`Shard`](crate::shard::Shard)).
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Blocks {
    /// The memory beyond the last block of the last chunk has not been touched yet. The first chunk
    /// begins with one block and grows by a quarter, so that an index of a few entries takes little.
    chunks: Vec<Vec<Bucket>>,
    bytes: usize,
    book: Box<Book>,
}

/// Which blocks are whose.
#[derive(Debug, Default)]
struct Book {
    /// By block, the number of the page that has it.
    owners: Vec<u32>,
    free: Vec<u32>,
}

/// Where a bucket lies: the number of its block, and its place in it.
pub(crate) type BucketAt = (u32, usize);

impl Index<BucketAt> for Blocks {
    type Output = Bucket;

    #[inline(always)]
    fn index(&self, (block, place): BucketAt) -> &Bucket {
        &self.chunks[block as usize / CHUNK][block as usize % CHUNK * BLOCK + place]
    }
}

impl IndexMut<BucketAt> for Blocks {
    #[inline(always)]
    fn index_mut(&mut self, (block, place): BucketAt) -> &mut Bucket {
        &mut self.chunks[block as usize / CHUNK][block as usize % CHUNK * BLOCK + place]
    }
}

impl Blocks {
    /// Has the processor fetch a bucket.
    pub(crate) fn prefetch(&self, (block, place): BucketAt) {
        prefetch_index(&self.chunks[block as usize / CHUNK], block as usize % CHUNK * BLOCK + place);
    }

    /// Empties a block.
    pub(crate) fn empty(&mut self, block: u32) {
        (0..BLOCK).for_each(|place| self[(block, place)] = Bucket::default());
    }

    /// A block for a page.
    pub(crate) fn take(&mut self, page: usize) -> u32 {
        if let Some(block) = self.book.free.pop() {
            self.book.owners[block as usize] = page as u32;
            self.empty(block);
            return block;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == chunk.capacity()) {
            self.grow();
        }
        let block = self.book.owners.len();
        self.book.owners.push(page as u32);
        self.chunks[block / CHUNK].extend([Bucket::default(); BLOCK]);
        block as u32
    }

    #[cold]
    fn grow(&mut self) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_BUCKETS => {
                chunk.reserve_exact((chunk.len() / BLOCK).div_ceil(4).min(CHUNK - chunk.len() / BLOCK) * BLOCK)
            }
            _ => {
                if self.chunks.len() == self.chunks.capacity() {
                    self.chunks.reserve_exact((self.chunks.len() / 8).max(1));
                }
                let buckets = if self.chunks.is_empty() { BLOCK } else { CHUNK_BUCKETS };
                self.chunks.push(Vec::with_capacity(buckets));
            }
        }
        // Room for the owner of each block of the chunk.
        let (blocks, room) = (self.room(), self.book.owners.capacity());
        if blocks > room {
            self.book.owners.reserve_exact(blocks + room / 8 - self.book.owners.len());
        }
        self.count();
    }

    pub(crate) fn give_back(&mut self, block: u32) {
        let capacity = self.book.free.capacity();
        self.book.owners[block as usize] = FREE;
        self.book.free.push(block);
        if self.book.free.capacity() != capacity {
            self.count();
        }
    }

    /// Blocks for which there is memory.
    fn room(&self) -> usize {
        let first = self.chunks.first().map_or(0, Vec::capacity);
        first / BLOCK + self.chunks.len().saturating_sub(1) * CHUNK
    }

    /// Counts the bytes that are allocated.
    fn count(&mut self) {
        self.bytes = self.room() * BLOCK * size_of::<Bucket>()
            + self.chunks.capacity() * size_of::<Vec<Bucket>>()
            + (self.book.owners.capacity() + self.book.free.capacity()) * size_of::<u32>();
    }

    /// Whether [`shrink`](Blocks::shrink) has something to free.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        match self.chunks.len() {
            0 => false,
            1 => (self.book.owners.len() - self.book.free.len()) * 4 <= self.room() && self.room() > 1,
            _ => self.book.free.len() > CHUNK + self.book.owners.len() / KEPT,
        }
    }

    /// Frees the last chunk, or half of the only one. The blocks of pages that lie there move first:
    /// `moved` is told the page, the old number and the new one.
    #[cold]
    pub(crate) fn shrink(&mut self, mut moved: impl FnMut(usize, u32, u32)) {
        let kept = if self.chunks.len() > 1 { (self.chunks.len() - 1) * CHUNK } else { self.room() / 2 };
        self.book.free.retain(|block| (*block as usize) < kept);
        for from in kept..self.book.owners.len() {
            let (page, from) = (self.book.owners[from], from as u32);
            if page != FREE {
                let to = self.book.free.pop().expect("more blocks are free than are dropped");
                (0..BLOCK).for_each(|place| self[(to, place)] = self[(from, place)]);
                self.book.owners[to as usize] = page;
                moved(page as usize, from, to);
            }
        }
        self.book.owners.truncate(kept);
        if self.chunks.len() > 1 {
            self.chunks.pop();
        } else {
            self.chunks[0].truncate(kept * BLOCK);
            self.chunks[0].shrink_to(kept * BLOCK);
        }
        shrink_list(&mut self.chunks, 1);
        shrink_list(&mut self.book.owners, CHUNK);
        shrink_list(&mut self.book.free, CHUNK);
        self.count();
    }

    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + size_of::<Book>()
    }

    /// `taken`: the blocks of pages, with the page's number.
    #[cfg(test)]
    pub(crate) fn check(&self, taken: impl Iterator<Item = (usize, u32)>) {
        let mut all: Vec<u32> = taken
            .map(|(page, block)| {
                assert_eq!(self.book.owners[block as usize], page as u32, "block {block}");
                block
            })
            .collect();
        assert!(self.book.free.iter().all(|block| self.book.owners[*block as usize] == FREE));
        all.extend(&self.book.free);
        all.sort_unstable();
        let made = self.chunks.iter().map(|chunk| chunk.len() / BLOCK).sum::<usize>();
        assert_eq!(all, (0..made as u32).collect::<Vec<_>>(), "each block is a page's or free");
        assert_eq!(self.book.owners.len(), made);
        let (last, others) = self.chunks.split_last().map_or((0, 0), |(l, o)| (l.capacity(), o.len()));
        assert!(others == 0 || last == CHUNK_BUCKETS);
        let buckets = self.chunks.iter().map(Vec::capacity).sum::<usize>();
        let lists = (self.book.owners.capacity() + self.book.free.capacity()) * 4;
        let chunks = self.chunks.capacity() * size_of::<Vec<Bucket>>();
        assert_eq!(self.bytes, buckets * size_of::<Bucket>() + chunks + lists);
    }
}

/// Gives memory of a list back that is more than twice as long as it has to be, and longer than
/// `least`.
pub(crate) fn shrink_list<T>(list: &mut Vec<T>, least: usize) {
    if list.capacity() > (list.len() * 2).max(least) {
        list.shrink_to((list.len() + list.len() / 8).max(least));
    }
}
