//! The index: key hash → position in the log, one cache line per probe.
//!
//! ```text
//!  hash (64 bits):  | tag 16 | shard 16 | page 32 |
//!
//!  pages   [ 0 ][ 1 ][ 2 ] …          linear hashing: one page is split at a time
//!            |
//!            v
//!  blocks  [8 × 64 B] … [8 × 64 B]    a page grows by a block;
//!                                     home bucket = tag × buckets / 65536
//! ```
//!
//! `index_page` has the pages, `index_blocks` their memory, `index_bucket` what lies in a cache line
//! of it. The home bucket is monotone in the stored tag, so growing a page moves entries without
//! reading their keys. Only the split of a page reads them (once per doubling of the index). As
//! entries leave, the last page is merged with the one that it was split from. The order (page
//! prefix, tag) of an entry never changes, which is what [`Index::scan`] relies on. A tag may lose
//! its lowest bits, and pages may merge, so a scan sees some entries twice.

use crate::{
    index_blocks::{Blocks, shrink_list},
    index_bucket::TagBits,
    index_page::Page,
};

/// Mean entries per page at which a page is split: small enough that a split is short and that the
/// blocks of a page suffice until it is split, when it has twice as many. Large enough that page
/// headers (64 B) vanish.
const PAGE_ENTRIES: usize = 544;
/// Records of a page that is split are fetched so far ahead of their turn.
const AHEAD: usize = 8;
/// Mean entries per page below which two pages are merged. Far enough from the half of the other
/// mean that no page is split and merged by turns.
const MERGED_ENTRIES: usize = PAGE_ENTRIES * 3 / 8;

/// Where an entry's hash leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    page: usize,
    tag: u16,
}

/// A lossy, four-byte form of a hash, enough to find the few entries it may mean: the tag and the
/// lowest bits of the page. The wheel keeps these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hint(u32);

impl Hint {
    /// Bits of the page. More pages than these can tell apart are in shards of a GiB and more.
    const PAGE_BITS: u32 = 16;

    pub(crate) fn of(hash: u64) -> Hint {
        Hint((hash as u32) << (u32::BITS - Hint::PAGE_BITS) | (hash >> 48) as u32)
    }
}

/// How far a scan has come inside a shard: the page, by its bit-reversed prefix, and the next tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanAt {
    /// Behind the bits of the page's prefix comes a 1, which shows how many they are. 0: the start.
    pub(crate) prefix: u32,
    pub(crate) tag: u16,
}
impl ScanAt {
    pub(crate) const START: ScanAt = ScanAt { prefix: 0, tag: 0 };

    /// `level` is the number of the prefix's bits. There are fewer than 32: each page takes 64 B.
    fn new(prefix: u32, level: u32, tag: u16) -> ScanAt {
        ScanAt { prefix: prefix | 1 << (31 - level), tag }
    }

    /// The prefix and its number of bits.
    fn page(self) -> (u32, u32) {
        let lowest = self.prefix & self.prefix.wrapping_neg();
        (self.prefix ^ lowest, if lowest == 0 { 0 } else { lowest.leading_zeros() })
    }
}

/// The records at positions that the index holds.
pub(crate) trait Records {
    fn hash(&self, position: u32) -> u64;

    /// Has the processor fetch what `hash` reads.
    fn prefetch(&self, position: u32);
}

/// In this order for the sake of cache lines (see [`Shard`](crate::shard::Shard)).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Index {
    pages: Vec<Page>,
    blocks: Blocks,
    len: usize,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index { pages: vec![Page::new(TagBits::ALL)], blocks: Blocks::default(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.bytes() + self.pages.capacity() * size_of::<Page>()
    }

    /// Largest power of two not above the number of pages: the pages below `len - base` have been
    /// split this round.
    fn base(&self) -> usize {
        1 << self.pages.len().ilog2()
    }

    fn place_of(&self, hash: u64) -> Place {
        Place { page: self.page_of(hash as u32 as usize), tag: (hash >> 48) as u16 }
    }

    #[inline]
    fn page_of(&self, bits: usize) -> usize {
        // The bits that choose the page once this round of splits is over; the lower half of them,
        // until its page is split.
        let mask = usize::MAX >> self.pages.len().leading_zeros();
        let page = bits & mask;
        if page < self.pages.len() { page } else { page & mask >> 1 }
    }

    /// What `probe` says of the first position stored under `hash` that it knows.
    #[inline(always)]
    pub(crate) fn find<T>(&self, hash: u64, probe: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let place = self.place_of(hash);
        self.pages[place.page].search(&self.blocks, place.tag, probe).map(|found| found.2)
    }

    /// Has the processor fetch the bucket in which a search for `hash` begins.
    pub(crate) fn prefetch(&self, hash: u64) {
        let Place { page, tag } = self.place_of(hash);
        self.pages[page].prefetch(&self.blocks, tag);
    }

    /// Adds a position; `records` knows those already stored.
    pub(crate) fn insert(&mut self, hash: u64, position: u32, records: &impl Records) {
        if self.len >= self.pages.len() * PAGE_ENTRIES {
            self.split(records);
        }
        let mut place = self.place_of(hash);
        while !self.pages[place.page].make_room(&mut self.blocks, place.page, position) {
            // As good as never: it has far more than the others.
            self.split(records);
            place = self.place_of(hash);
        }
        self.pages[place.page].place(&mut self.blocks, place.tag, position);
        self.len += 1;
    }

    /// The entry has moved in the log.
    pub(crate) fn moved(&mut self, hash: u64, from: u32, to: u32) {
        let place = self.place_of(hash);
        self.pages[place.page].moved(&mut self.blocks, place.page, place.tag, from, to);
    }

    pub(crate) fn remove(&mut self, hash: u64, position: u32) {
        let place = self.place_of(hash);
        self.pages[place.page].remove(&mut self.blocks, place.page, place.tag, position);
        self.len -= 1;
        if self.len < self.pages.len() * MERGED_ENTRIES {
            self.merge();
        }
        if self.blocks.has_spare() {
            let Index { pages, blocks, .. } = self;
            blocks.shrink(|page, from, to| pages[page].renumber(from, to));
        }
    }

    /// Undoes the last split.
    #[cold]
    fn merge(&mut self) {
        let left = self.pages.len() - 1;
        let Some(bits) = left.checked_ilog2() else { return };
        let into = left - (1 << bits);
        // As good as always: the two have less than twice the mean each.
        if self.pages[into].can_absorb(&self.pages[left]) {
            let page = self.pages.pop().expect("there are two");
            self.pages[into].absorb(&mut self.blocks, into, page);
            shrink_list(&mut self.pages, 1);
        }
    }

    #[cold]
    fn split(&mut self, records: &impl Records) {
        let base = self.base();
        let source = self.pages.len() - base;
        let old = std::mem::replace(&mut self.pages[source], Page::new(TagBits::ALL));
        let mut tag_bits = TagBits::ALL;
        let positions: Vec<u32> = old.entries(&self.blocks).map(|e| e.1).collect();
        let sorted: Vec<(bool, u16, u32)> = positions
            .iter()
            .enumerate()
            .map(|(number, &position)| {
                if let Some(&later) = positions.get(number + AHEAD) {
                    records.prefetch(later);
                }
                let hash = records.hash(position);
                tag_bits = tag_bits.min(TagBits::beside(position));
                (hash as u32 as usize & base != 0, (hash >> 48) as u16, position)
            })
            .collect();
        old.dissolve(&mut self.blocks);
        let moving = sorted.iter().filter(|e| e.0).count();
        let (mut low, mut high) = (Page::new(tag_bits), Page::new(tag_bits));
        low.reserve(&mut self.blocks, source, sorted.len() - moving);
        high.reserve(&mut self.blocks, self.pages.len(), moving);
        for (up, tag, position) in sorted {
            let page = if up { &mut high } else { &mut low };
            page.place(&mut self.blocks, tag, position);
        }
        self.pages[source] = low;
        if self.pages.len() == self.pages.capacity() {
            self.pages.reserve_exact((self.pages.len() / 8).max(2));
        }
        self.pages.push(high);
    }

    /// Positions that `hint` may mean.
    pub(crate) fn hinted(&self, hint: Hint, mut each: impl FnMut(u32)) {
        let (bits, tag) = ((hint.0 >> (u32::BITS - Hint::PAGE_BITS)) as usize, hint.0 as u16);
        // Beyond the first, only where there are pages that the hint does not tell apart.
        let others = (bits + (1 << Hint::PAGE_BITS)..self.pages.len()).step_by(1 << Hint::PAGE_BITS);
        for page in std::iter::once(self.page_of(bits)).chain(others) {
            self.pages[page].search(&self.blocks, tag, |position| {
                each(position);
                None::<()>
            });
        }
    }

    /// Bits of the prefix that a page's entries have in common.
    fn level(&self, page: usize) -> u32 {
        let base = self.base();
        base.ilog2() + u32::from(page >= base || page < self.pages.len() - base)
    }

    /// Visits entries from `at` on, whole tags at a time, until `count` have been seen; `None` at
    /// the end.
    pub(crate) fn scan(&self, at: ScanAt, count: usize, mut visit: impl FnMut(u32)) -> Option<ScanAt> {
        let mut seen = 0;
        let ((mut prefix, before), mut tag) = (at.page(), at.tag);
        let mut sorted = Vec::new();
        if self.level(self.page_of(prefix.reverse_bits() as usize)) < before {
            // The page has been merged with one of which the scan may have seen nothing.
            tag = 0;
        }
        loop {
            let number = self.page_of(prefix.reverse_bits() as usize);
            let (page, level) = (&self.pages[number], self.level(number));
            // The page has the prefixes that begin with its own bits.
            let size = 1u64 << (32 - level);
            let begin = u64::from(prefix) & !(size - 1);
            sorted.clear();
            // The tags may have lost bits since the scan began.
            sorted.extend(page.entries(&self.blocks).filter(|e| e.0 >= page.shortened(tag)));
            sorted.sort_unstable();
            let mut last = None;
            for (tag, position) in sorted.drain(..) {
                if seen >= count && last != Some(tag) {
                    return Some(ScanAt::new(begin as u32, level, tag));
                }
                visit(position);
                seen += 1;
                last = Some(tag);
            }
            (prefix, tag) = (u32::try_from(begin + size).ok()?, 0);
            if seen >= count {
                return Some(ScanAt::new(prefix, level, tag));
            }
        }
    }

    /// A position chosen by `seed`, roughly evenly.
    pub(crate) fn random(&self, seed: u64) -> Option<u32> {
        let start = self.page_of(seed as u32 as usize);
        for step in 0..self.pages.len() {
            let page = &self.pages[(start + step) % self.pages.len()];
            if page.len() > 0 {
                return page.entries(&self.blocks).nth((seed >> 32) as usize % page.len()).map(|e| e.1);
            }
        }
        None
    }

    #[cfg(test)]
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Every position, in no order.
    #[cfg(test)]
    pub(crate) fn positions(&self) -> Vec<u32> {
        self.pages.iter().flat_map(|p| p.entries(&self.blocks).map(|e| e.1)).collect()
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut len = 0;
        for page in &self.pages {
            assert_eq!(page.len(), page.entries(&self.blocks).count());
            len += page.len();
            for (tag, position) in page.entries(&self.blocks) {
                assert!(page.search(&self.blocks, tag, |p| (p == position).then_some(())).is_some());
            }
        }
        assert_eq!(len, self.len);
        let taken = |(number, page): (usize, &'_ Page)| {
            page.taken_blocks().iter().map(move |block| (number, *block)).collect::<Vec<_>>()
        };
        self.blocks.check(self.pages.iter().enumerate().flat_map(taken));
    }
}
