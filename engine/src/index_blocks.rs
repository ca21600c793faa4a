//! The memory of the index's buckets. Buckets come in blocks of a fixed size, so a page grows by a
//! block without moving, and what one page gives back fits any other. Arrays of a page's own, which
//! the allocator would place, lost a sixth of their memory between them.

use crate::index_bucket::Bucket;
use prefetch_index::prefetch_index;
use std::ops::{Index, IndexMut};

/// Buckets of a block.
pub(crate) const BLOCK: usize = 4;
/// Blocks that are allocated together.
const CHUNK: usize = 32;
const CHUNK_BUCKETS: usize = CHUNK * BLOCK;

/// Blocks by number. They are empty when they are taken.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// The memory beyond the last block of the last chunk has not been touched yet. The first chunk
    /// begins with one block and doubles, so that an index of a few entries takes little.
    chunks: Vec<Vec<Bucket>>,
    free: Vec<u32>,
    bytes: usize,
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

    pub(crate) fn take(&mut self) -> u32 {
        if let Some(block) = self.free.pop() {
            self.empty(block);
            return block;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == chunk.capacity()) {
            self.grow();
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let block = number * CHUNK + chunk.len() / BLOCK;
        chunk.extend([Bucket::default(); BLOCK]);
        block as u32
    }

    #[cold]
    fn grow(&mut self) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_BUCKETS => chunk.reserve_exact(chunk.len()),
            _ => {
                if self.chunks.len() == self.chunks.capacity() {
                    self.chunks.reserve_exact((self.chunks.len() / 8).max(1));
                }
                let buckets = if self.chunks.is_empty() { BLOCK } else { CHUNK_BUCKETS };
                self.chunks.push(Vec::with_capacity(buckets));
            }
        }
        self.count();
    }

    pub(crate) fn give_back(&mut self, block: u32) {
        let capacity = self.free.capacity();
        self.free.push(block);
        if self.free.capacity() != capacity {
            self.count();
        }
    }

    /// Counts the bytes that are allocated.
    fn count(&mut self) {
        let buckets = self.chunks.iter().map(Vec::capacity).sum::<usize>();
        self.bytes = buckets * size_of::<Bucket>()
            + self.chunks.capacity() * size_of::<Vec<Bucket>>()
            + self.free.capacity() * size_of::<u32>();
    }

    /// Chunks whose blocks would all fit into those that are free, once these are a fifth of all.
    pub(crate) fn spare_chunks(&self) -> usize {
        if self.free.len() * 5 < self.chunks.len() * CHUNK { 0 } else { self.free.len() / CHUNK }
    }

    /// Frees the last chunks. `blocks` are all that are taken: those in these chunks move.
    #[cold]
    pub(crate) fn drop_chunks<'b>(&mut self, count: usize, blocks: impl Iterator<Item = &'b mut u32>) {
        let first = ((self.chunks.len() - count) * CHUNK) as u32;
        self.free.retain(|block| *block < first);
        for block in blocks.filter(|block| **block >= first) {
            let to = self.free.pop().expect("as many blocks are free as are dropped");
            (0..BLOCK).for_each(|place| self[(to, place)] = self[(*block, place)]);
            *block = to;
        }
        self.chunks.truncate(first as usize / CHUNK);
        self.chunks.shrink_to(self.chunks.len() + self.chunks.len() / 8);
        self.free.shrink_to_fit();
        self.count();
    }

    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(crate) fn check(&self, mut taken: Vec<u32>) {
        taken.extend(&self.free);
        taken.sort_unstable();
        let all = self.chunks.iter().map(|chunk| chunk.len() / BLOCK).sum::<usize>();
        assert_eq!(taken, (0..all as u32).collect::<Vec<_>>(), "each block is a page's or free");
        assert!(self.chunks.iter().skip(1).all(|chunk| chunk.capacity() == CHUNK_BUCKETS));
        let buckets = self.chunks.iter().map(Vec::capacity).sum::<usize>();
        let lists = self.chunks.capacity() * size_of::<Vec<Bucket>>() + self.free.capacity() * 4;
        assert_eq!(self.bytes, buckets * size_of::<Bucket>() + lists);
    }
}
