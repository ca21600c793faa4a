//! A page of the index: the buckets of the entries whose hashes begin alike. A full bucket spills
//! into the next and counts how many entries went past it, so that a search stops where nothing
//! did.

use crate::{
    index_blocks::{BLOCK, Blocks, BucketAt},
    index_bucket::{SLOTS, TagBits},
};

/// How full a page is, in hundredths, when it grows by a block.
const FULL: usize = 95;
/// How full it would be with a block less when it gives one back. The number of a page's entries
/// goes up and down by some tens where the tier is full and entries come and go.
const SPARSE: usize = 85;
/// Blocks that a page can have. The mean of its entries has half of them
/// ([`PAGE_ENTRIES`](crate::index)).
const MOST_BLOCKS: usize = 15;

/// One cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Page {
    blocks: [u32; MOST_BLOCKS],
    len: u16,
    count: u8,
    /// Bits that the tags do not have.
    taken: u8,
}

impl Page {
    /// Without memory, with tags of so many bits.
    pub(crate) fn new(tag_bits: TagBits) -> Page {
        Page { blocks: [0; MOST_BLOCKS], len: 0, count: 0, taken: tag_bits.0.trailing_zeros() as u8 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    #[inline(always)]
    fn tag_bits(&self) -> TagBits {
        TagBits(u16::MAX << self.taken)
    }

    fn buckets(&self) -> usize {
        usize::from(self.count) * BLOCK
    }

    /// The numbers of its blocks.
    pub(crate) fn taken_blocks(&self) -> &[u32] {
        &self.blocks[..usize::from(self.count)]
    }

    /// One of its blocks has another number.
    pub(crate) fn renumber(&mut self, from: u32, to: u32) {
        let block = self.blocks.iter_mut().take(self.count.into()).find(|block| **block == from);
        *block.expect("a block is its page's") = to;
    }

    /// Monotone in the tag.
    #[inline(always)]
    fn home(&self, tag: u16) -> usize {
        (usize::from(self.tag_bits().of(tag)) * self.buckets()) >> 16
    }

    #[inline(always)]
    fn at(&self, bucket: usize) -> BucketAt {
        (self.blocks[bucket / BLOCK], bucket % BLOCK)
    }

    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets() { 0 } else { bucket + 1 }
    }

    /// Has the processor fetch the bucket in which a search begins.
    pub(crate) fn prefetch(&self, blocks: &Blocks, tag: u16) {
        if self.count > 0 {
            blocks.prefetch(self.at(self.home(tag)));
        }
    }

    /// Walks the buckets in which `tag` may stand until `probe` knows a position. Gives bucket,
    /// slot and what it said.
    #[inline(always)]
    pub(crate) fn search<T>(
        &self,
        blocks: &Blocks,
        tag: u16,
        mut probe: impl FnMut(u32) -> Option<T>,
    ) -> Option<(usize, usize, T)> {
        let tag_bits = self.tag_bits();
        let mut number = self.home(tag);
        for _ in 0..self.buckets() {
            let bucket = &blocks[self.at(number)];
            let mut matches = bucket.matches(tag, tag_bits);
            while matches != 0 {
                let slot = matches.trailing_zeros() as usize;
                if let Some(known) = probe(bucket.position(slot, tag_bits)) {
                    return Some((number, slot, known));
                }
                matches &= matches - 1;
            }
            if bucket.spill == 0 {
                return None;
            }
            number = self.next(number);
        }
        None
    }

    /// The place of a position that is stored under a tag.
    fn place_of(&self, blocks: &Blocks, tag: u16, position: u32) -> (usize, usize) {
        let found = self.search(blocks, tag, |p| (p == position).then_some(()));
        let (bucket, slot, ()) = found.expect("a live entry is indexed");
        (bucket, slot)
    }

    /// Adds an entry. There must be [room](Page::make_room) for it.
    pub(crate) fn place(&mut self, blocks: &mut Blocks, tag: u16, position: u32) {
        let mut number = self.home(tag);
        loop {
            let bucket = &mut blocks[self.at(number)];
            if let Some(slot) = bucket.free_slot() {
                bucket.set(slot, tag, self.tag_bits(), position);
                self.len += 1;
                return;
            }
            bucket.spill += 1;
            number = self.next(number);
        }
    }

    /// `page` is its own number, here and below.
    pub(crate) fn remove(&mut self, blocks: &mut Blocks, page: usize, tag: u16, position: u32) {
        let (number, slot) = self.place_of(blocks, tag, position);
        let mut passed = self.home(tag);
        while passed != number {
            blocks[self.at(passed)].spill -= 1;
            passed = self.next(passed);
        }
        blocks[self.at(number)].free(slot);
        self.len -= 1;
        let fewer = usize::from(self.count) - 1;
        if self.len() * 100 <= fewer * BLOCK * SLOTS * SPARSE {
            self.rebuild(blocks, page, fewer, self.tag_bits());
        }
    }

    /// An entry has another position.
    #[inline]
    pub(crate) fn moved(&mut self, blocks: &mut Blocks, page: usize, tag: u16, from: u32, to: u32) {
        self.reach(blocks, page, to);
        let (number, slot) = self.place_of(blocks, tag, from);
        blocks[self.at(number)].set(slot, tag, self.tag_bits(), to);
    }

    pub(crate) fn entries(&self, blocks: &Blocks) -> impl Iterator<Item = (u16, u32)> {
        let tag_bits = self.tag_bits();
        let entries = move |number: usize| {
            let bucket = &blocks[self.at(number)];
            bucket.slots().map(move |slot| (bucket.tag(slot, tag_bits), bucket.position(slot, tag_bits)))
        };
        (0..self.buckets()).flat_map(entries)
    }

    /// What a tag may have become: the lowest bits may be gone.
    pub(crate) fn shortened(&self, tag: u16) -> u16 {
        self.tag_bits().of(tag)
    }

    /// Blocks that hold so many entries and one more.
    fn blocks_for(entries: usize) -> usize {
        (entries * 100 / FULL / (SLOTS * BLOCK) + 1).min(MOST_BLOCKS)
    }

    /// Makes room for one more entry, at this position. False if a page cannot have more.
    #[inline]
    pub(crate) fn make_room(&mut self, blocks: &mut Blocks, page: usize, position: u32) -> bool {
        self.reach(blocks, page, position);
        let slots = self.buckets() * SLOTS;
        if self.len() * 100 < slots * FULL {
            return true;
        }
        if usize::from(self.count) == MOST_BLOCKS {
            return self.len() < slots;
        }
        self.rebuild(blocks, page, usize::from(self.count) + 1, self.tag_bits());
        true
    }

    /// Makes room for so many entries in a page that has none.
    pub(crate) fn reserve(&mut self, blocks: &mut Blocks, page: usize, entries: usize) {
        self.rebuild(blocks, page, if entries == 0 { 0 } else { Page::blocks_for(entries) }, self.tag_bits());
    }

    /// Takes bits off the tags if the position needs them.
    #[inline]
    fn reach(&mut self, blocks: &mut Blocks, page: usize, position: u32) {
        let tag_bits = TagBits::beside(position);
        if tag_bits < self.tag_bits() {
            self.rebuild(blocks, page, self.count.into(), tag_bits);
        }
    }

    /// Places its entries again, in so many blocks.
    fn rebuild(&mut self, blocks: &mut Blocks, page: usize, count: usize, tag_bits: TagBits) {
        let entries = self.entries(blocks).collect();
        self.refill(blocks, page, count, tag_bits, entries);
    }

    /// Holds these entries instead of its own, in so many blocks.
    fn refill(&mut self, blocks: &mut Blocks, page: usize, count: usize, tag_bits: TagBits, entries: Vec<(u16, u32)>) {
        let before = usize::from(self.count);
        self.blocks.iter_mut().take(count).skip(before).for_each(|block| *block = blocks.take(page));
        self.blocks.iter().take(before).skip(count).for_each(|block| blocks.give_back(*block));
        self.blocks.iter().take(before.min(count)).for_each(|block| blocks.empty(*block));
        (self.count, self.len, self.taken) = (count as u8, 0, tag_bits.0.trailing_zeros() as u8);
        for (tag, position) in entries {
            self.place(blocks, tag, position);
        }
    }

    /// Whether it can take in another page, with room to spare.
    pub(crate) fn can_absorb(&self, other: &Page) -> bool {
        (self.len() + other.len()) * 100 < MOST_BLOCKS * BLOCK * SLOTS * FULL
    }

    /// Takes in the entries of another page. Both have the tags of their entries, so no key is read.
    pub(crate) fn absorb(&mut self, blocks: &mut Blocks, page: usize, other: Page) {
        let entries: Vec<(u16, u32)> = self.entries(blocks).chain(other.entries(blocks)).collect();
        let tag_bits = self.tag_bits().min(other.tag_bits());
        other.dissolve(blocks);
        let count = if entries.is_empty() { 0 } else { Page::blocks_for(entries.len()) };
        self.refill(blocks, page, count, tag_bits, entries);
    }

    /// Gives all its memory back.
    pub(crate) fn dissolve(self, blocks: &mut Blocks) {
        self.taken_blocks().iter().for_each(|block| blocks.give_back(*block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_cache_line() {
        assert_eq!(size_of::<Page>(), 64);
    }

    #[test]
    fn a_page_grows_before_it_is_full_and_shrinks() {
        let (mut page, mut blocks) = (Page::new(TagBits::ALL), Blocks::default());
        let tag = |n: u32| (n as u16).wrapping_mul(40_503);
        let most = (MOST_BLOCKS * BLOCK * SLOTS) as u32;
        for n in 0..most {
            assert!(page.make_room(&mut blocks, 9, n));
            page.place(&mut blocks, tag(n), n);
            let blocks_of_it = usize::from(page.count);
            assert!(blocks_of_it == MOST_BLOCKS || page.len() * 100 <= page.buckets() * SLOTS * FULL + 100);
            assert!(blocks_of_it <= Page::blocks_for(page.len()));
        }
        assert!(!page.make_room(&mut blocks, 9, most), "it has no block and no slot left");
        for n in 0..most {
            page.remove(&mut blocks, 9, tag(n), n);
            let fewer = usize::from(page.count).saturating_sub(1);
            assert!(page.count == 0 || page.len() * 100 > fewer * BLOCK * SLOTS * SPARSE);
            blocks.check(page.taken_blocks().iter().map(|block| (9, *block)));
        }
        assert_eq!(page.count, 0, "an empty page has no memory of its own");
    }
}
