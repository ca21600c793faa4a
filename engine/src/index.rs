//! The index: key hash → position in the log, one cache line per probe.
//!
//! ```text
//!  hash (64 bits):  | tag 16 | shard 16 | page 32 |
//!
//!  pages   [ 0 ][ 1 ][ 2 ] …          linear hashing: one page is split at a time
//!            |
//!            v
//!  blocks  [4 × 64 B] … [4 × 64 B]    a page grows by a block;
//!                                     home bucket = tag × buckets / 65536
//! ```
//!
//! `index_page` has the pages, `index_blocks` their memory, `index_bucket` what lies in a cache line
//! of it. Because the home bucket is monotone in the stored tag,
//! growing a page moves entries without reading their keys; only the split of a page does (once per
//! doubling of the index). The order (page prefix, tag) of an entry never changes, which is what
//! [`Index::scan`] relies on: a tag may lose its lowest bits, so a scan sees some entries twice.

use crate::{index_blocks::Blocks, index_bucket::TagBits, index_page::Page};

/// Mean entries per page at which a page is split: small enough that a split is short and that the
/// blocks of a page suffice until it is split, when it has twice as many. Large enough that page
/// headers (64 B) vanish.
const PAGE_ENTRIES: usize = 272;

/// Where an entry's hash leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    page: usize,
    tag: u16,
}

/// A lossy, four-byte form of a hash, enough to find the few entries it may mean. The wheel keeps
/// these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hint(u32);

impl Hint {
    pub(crate) fn of(hash: u64) -> Hint {
        Hint((hash as u32) << 8 | (hash >> 56) as u32)
    }
}

/// How far a scan has come inside a shard: the page's bit-reversed prefix and the next tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanAt {
    pub(crate) prefix: u32,
    pub(crate) tag: u16,
}
impl ScanAt {
    pub(crate) const START: ScanAt = ScanAt { prefix: 0, tag: 0 };
}

#[derive(Debug)]
pub(crate) struct Index {
    pages: Vec<Page>,
    /// Bits of a hash that choose the page once this round of splits is over; the lower half of
    /// them, until its page is split.
    mask: usize,
    len: usize,
    blocks: Blocks,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index { pages: vec![Page::new(TagBits::ALL)], mask: 1, len: 0, blocks: Blocks::default() }
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
        let page = bits & self.mask;
        if page < self.pages.len() { page } else { page & self.mask >> 1 }
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

    /// Adds a position; `hash_of` gives the hash of one already stored.
    pub(crate) fn insert(&mut self, hash: u64, position: u32, hash_of: impl Fn(u32) -> u64) {
        if self.len >= self.pages.len() * PAGE_ENTRIES {
            self.split(&hash_of);
        }
        let mut place = self.place_of(hash);
        while !self.pages[place.page].make_room(&mut self.blocks, position) {
            // As good as never: it has far more than the others.
            self.split(&hash_of);
            place = self.place_of(hash);
        }
        self.pages[place.page].place(&mut self.blocks, place.tag, position);
        self.len += 1;
    }

    /// The entry has moved in the log.
    pub(crate) fn moved(&mut self, hash: u64, from: u32, to: u32) {
        let place = self.place_of(hash);
        self.pages[place.page].moved(&mut self.blocks, place.tag, from, to);
    }

    pub(crate) fn remove(&mut self, hash: u64, position: u32) {
        let place = self.place_of(hash);
        self.pages[place.page].remove(&mut self.blocks, place.tag, position);
        self.len -= 1;
        let spare = self.blocks.spare_chunks();
        if spare > 0 {
            self.blocks.drop_chunks(spare, self.pages.iter_mut().flat_map(Page::blocks_mut));
        }
    }

    fn split(&mut self, hash_of: impl Fn(u32) -> u64) {
        let base = self.base();
        let source = self.pages.len() - base;
        let old = std::mem::replace(&mut self.pages[source], Page::new(TagBits::ALL));
        let mut tag_bits = TagBits::ALL;
        let sorted: Vec<(bool, u16, u32)> = old
            .entries(&self.blocks)
            .map(|(_, position)| {
                let hash = hash_of(position);
                tag_bits = tag_bits.min(TagBits::beside(position));
                (hash as u32 as usize & base != 0, (hash >> 48) as u16, position)
            })
            .collect();
        old.dissolve(&mut self.blocks);
        let moving = sorted.iter().filter(|e| e.0).count();
        let (mut low, mut high) = (Page::new(tag_bits), Page::new(tag_bits));
        low.reserve(&mut self.blocks, sorted.len() - moving);
        high.reserve(&mut self.blocks, moving);
        for (up, tag, position) in sorted {
            let page = if up { &mut high } else { &mut low };
            page.place(&mut self.blocks, tag, position);
        }
        self.pages[source] = low;
        if self.pages.len() == self.pages.capacity() {
            self.pages.reserve_exact((self.pages.len() / 8).max(2));
        }
        self.pages.push(high);
        self.mask = 2 * self.base() - 1;
    }

    /// Positions that `hint` may mean.
    pub(crate) fn hinted(&self, hint: Hint, each: impl FnMut(u32)) {
        let page = &self.pages[self.page_of((hint.0 >> 8) as usize)];
        page.beginning(&self.blocks, hint.0 as u8, each);
    }

    /// Visits entries from `at` on, whole tags at a time, until `count` have been seen; `None` at
    /// the end.
    pub(crate) fn scan(&self, at: ScanAt, count: usize, mut visit: impl FnMut(u32)) -> Option<ScanAt> {
        let mut seen = 0;
        let mut at = at;
        let mut sorted = Vec::new();
        loop {
            let number = self.page_of(at.prefix.reverse_bits() as usize);
            sorted.clear();
            let page = &self.pages[number];
            // The tags may have lost bits since the scan began.
            sorted.extend(page.entries(&self.blocks).filter(|e| e.0 >= page.shortened(at.tag)));
            sorted.sort_unstable();
            let mut last = None;
            for (tag, position) in sorted.drain(..) {
                if seen >= count && last != Some(tag) {
                    return Some(ScanAt { prefix: at.prefix, tag });
                }
                visit(position);
                seen += 1;
                last = Some(tag);
            }
            let base = self.base();
            let level = base.ilog2() + u32::from(number >= base || number < self.pages.len() - base);
            // The page covers the prefixes that begin with its `level` reversed bits.
            let size = 1u64 << (32 - level);
            let next = (u64::from(at.prefix) & !(size - 1)) + size;
            at = ScanAt { prefix: u32::try_from(next).ok()?, tag: 0 };
            if seen >= count {
                return Some(at);
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

    /// Every position, in no order.
    #[cfg(test)]
    pub(crate) fn positions(&self) -> Vec<u32> {
        self.pages.iter().flat_map(|p| p.entries(&self.blocks).map(|e| e.1)).collect()
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert_eq!(self.mask, 2 * self.base() - 1);
        let mut len = 0;
        for page in &self.pages {
            assert_eq!(page.len(), page.entries(&self.blocks).count());
            len += page.len();
            for (tag, position) in page.entries(&self.blocks) {
                assert!(page.search(&self.blocks, tag, |p| (p == position).then_some(())).is_some());
            }
        }
        assert_eq!(len, self.len);
        self.blocks.check(self.pages.iter().flat_map(Page::taken_blocks).copied().collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Entries by hash: the hash of a position is found by its number.
    #[derive(Default)]
    struct Model {
        held: HashMap<u32, u64>,
        next: u32,
    }

    fn mixed(n: u32) -> u64 {
        u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ u64::from(n).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32)
    }

    impl Model {
        /// A position that is not taken, with this number of bits.
        fn position(&mut self, bits: u32) -> u32 {
            self.next += 1;
            self.next | ((1u64 << bits) >> 1) as u32
        }

        fn check(&self, index: &Index) {
            index.check();
            assert_eq!(index.len(), self.held.len());
            for (position, hash) in &self.held {
                assert_eq!(index.find(*hash, |p| (p == *position).then_some(p)), Some(*position));
                let mut hinted = false;
                index.hinted(Hint::of(*hash), |p| hinted |= p == *position);
                assert!(hinted, "{position:#x} under its hint");
            }
            let (mut seen, mut at) = (Vec::new(), Some(ScanAt::START));
            while let Some(from) = at {
                at = index.scan(from, 10, |p| seen.push(p));
            }
            seen.sort_unstable();
            let mut all: Vec<u32> = self.held.keys().copied().collect();
            all.sort_unstable();
            assert_eq!(seen, all, "a scan of what does not change sees each entry once");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Steps: what is done, with which entry, and how many bits its new position has.
        #[test]
        fn positions_of_all_lengths_are_found(steps in prop::collection::vec((0u8..4, any::<u32>(), 20u32..=32), 1..900)) {
            let (mut index, mut model) = (Index::new(), Model::default());
            for (number, (what, which, bits)) in steps.into_iter().enumerate() {
                let chosen = {
                    let mut all: Vec<u32> = model.held.keys().copied().collect();
                    all.sort_unstable();
                    (!all.is_empty()).then(|| all[which as usize % all.len()])
                };
                match (what, chosen) {
                    (0, Some(position)) => index.remove(model.held.remove(&position).expect("held"), position),
                    (1, Some(position)) => {
                        let hash = model.held.remove(&position).expect("held");
                        let to = model.position(bits);
                        index.moved(hash, position, to);
                        model.held.insert(to, hash);
                    }
                    _ => {
                        let (position, hash) = (model.position(bits), mixed(number as u32));
                        index.insert(hash, position, |p| model.held[&p]);
                        model.held.insert(position, hash);
                    }
                }
            }
            model.check(&index);
        }
    }

    #[test]
    fn a_scan_sees_what_stays_while_tags_lose_bits() {
        let (mut index, mut model) = (Index::new(), Model::default());
        let add = |index: &mut Index, model: &mut Model, numbers: std::ops::Range<u32>, bits: u32| {
            for number in numbers {
                let (position, hash) = (model.position(bits), mixed(number));
                index.insert(hash, position, |p| model.held[&p]);
                model.held.insert(position, hash);
            }
        };
        add(&mut index, &mut model, 0..300, 20);
        let stay: Vec<u32> = model.held.keys().copied().collect();
        let (mut seen, mut at, mut bits) = (Vec::new(), Some(ScanAt::START), 24);
        while let Some(from) = at {
            at = index.scan(from, 30, |p| seen.push(p));
            add(&mut index, &mut model, bits * 1000..bits * 1000 + 40, bits.min(32));
            bits += 1;
        }
        assert!(stay.iter().all(|p| seen.contains(p)));
        model.check(&index);
    }
}
