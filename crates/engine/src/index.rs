//! The index: key hash → position in the log, one cache line per probe.
//!
//! ```text
//!  hash (64 bits):  | tag 16 | shard 16 | page 32 |
//!
//!  pages   [ 0 ][ 1 ][ 2 ] …          linear hashing: one page is split at a time
//!            |
//!            v
//!  buckets [64 B][64 B] … [64 B]      a page's own array, grown by an eighth at a time;
//!                                     home bucket = tag × buckets / 65536
//! ```
//!
//! A bucket holds ten tags and ten positions. A full one spills into the next and counts how many
//! entries went past it, so that a search stops where nothing did. Because the home bucket is
//! monotone in the stored tag, growing a page moves entries without reading their keys; only the
//! split of a page does (once per doubling of the index). The order (page prefix, tag) of an entry
//! never changes, which is what [`Index::scan`] relies on.

use prefetch_index::prefetch_index;
use wide::u16x8;

const SLOTS: usize = 10;
/// Mean entries per page at which a page is split: small enough that a split is short, large enough
/// that page headers (32 B) vanish.
const PAGE_ENTRIES: usize = 384;

#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    tags: [u16; SLOTS],
    /// Bit i: slot i is taken.
    used: u16,
    /// Entries stored further on that searched this bucket first.
    spill: u16,
    positions: [u32; SLOTS],
}

impl Bucket {
    /// Bit i: slot i is taken and has this tag.
    #[inline]
    fn matches(&self, tag: u16) -> u16 {
        // Eight lanes compare at once: the first eight tags and the last eight.
        let equal = |from: usize| {
            let tags: [u16; 8] = self.tags[from..from + 8].try_into().expect("eight lanes");
            u16x8::new(tags).simd_eq(u16x8::splat(tag)).to_bitmask() as u16
        };
        (equal(0) | equal(SLOTS - 8) << (SLOTS - 8)) & self.used
    }

    fn free_slot(&self) -> Option<usize> {
        let slot = (!self.used).trailing_zeros() as usize;
        (slot < SLOTS).then_some(slot)
    }
}

/// Set bits of a mask, lowest first.
fn bits(mut mask: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (slot < 16).then_some(slot)
    })
}

#[derive(Debug, Default)]
struct Page {
    buckets: Vec<Bucket>,
    len: usize,
}

impl Page {
    fn with_room_for(entries: usize) -> Page {
        let buckets = if entries == 0 { 0 } else { entries * 5 / (SLOTS * 4) + 1 };
        Page { buckets: vec![Bucket::default(); buckets], len: 0 }
    }

    fn home(&self, tag: u16) -> usize {
        (usize::from(tag) * self.buckets.len()) >> 16
    }

    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Walks the buckets in which `tag` may stand until `probe` knows a position. Gives bucket,
    /// slot and what it said.
    #[inline(always)]
    fn search<T>(&self, tag: u16, mut probe: impl FnMut(u32) -> Option<T>) -> Option<(usize, usize, T)> {
        let mut at = self.home(tag);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let mut matches = bucket.matches(tag);
            while matches != 0 {
                let slot = matches.trailing_zeros() as usize;
                if let Some(known) = probe(bucket.positions[slot]) {
                    return Some((at, slot, known));
                }
                matches &= matches - 1;
            }
            if bucket.spill == 0 {
                return None;
            }
            at = self.next(at);
        }
        None
    }

    /// The page must have a free slot.
    fn place(&mut self, tag: u16, position: u32) {
        let mut at = self.home(tag);
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(slot) = bucket.free_slot() {
                bucket.tags[slot] = tag;
                bucket.positions[slot] = position;
                bucket.used |= 1 << slot;
                self.len += 1;
                return;
            }
            bucket.spill += 1;
            at = self.next(at);
        }
    }

    fn take(&mut self, tag: u16, at: usize, slot: usize) {
        let mut passed = self.home(tag);
        while passed != at {
            self.buckets[passed].spill -= 1;
            passed = self.next(passed);
        }
        self.buckets[at].used &= !(1 << slot);
        self.len -= 1;
    }

    fn entries(&self) -> impl Iterator<Item = (u16, u32)> {
        self.buckets.iter().flat_map(|b| bits(b.used).map(|slot| (b.tags[slot], b.positions[slot])))
    }

    fn resize(&mut self, buckets: usize) {
        let mut page = Page { buckets: Vec::new(), len: 0 };
        page.buckets.reserve_exact(buckets);
        page.buckets.resize(buckets, Bucket::default());
        for (tag, position) in self.entries() {
            page.place(tag, position);
        }
        *self = page;
    }

    fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }
}

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
    bytes: usize,
}

impl Index {
    pub(crate) fn new() -> Index {
        let pages = vec![Page::default()];
        let bytes = pages.capacity() * size_of::<Page>();
        Index { pages, mask: 1, len: 0, bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
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
        self.pages[place.page].search(place.tag, probe).map(|found| found.2)
    }

    /// Has the processor fetch the bucket in which a search for `hash` begins.
    pub(crate) fn prefetch(&self, hash: u64) {
        let Place { page, tag } = self.place_of(hash);
        prefetch_index(&self.pages[page].buckets, self.pages[page].home(tag));
    }

    /// Adds a position; `hash_of` gives the hash of one already stored.
    pub(crate) fn insert(&mut self, hash: u64, position: u32, hash_of: impl Fn(u32) -> u64) {
        if self.len >= self.pages.len() * PAGE_ENTRIES {
            self.split(hash_of);
        }
        let place = self.place_of(hash);
        let page = &mut self.pages[place.page];
        let buckets = page.buckets.len();
        if page.len >= buckets * SLOTS * 7 / 8 {
            page.resize(buckets + (buckets / 8).max(1));
            self.bytes += (self.pages[place.page].buckets.len() - buckets) * size_of::<Bucket>();
        }
        self.pages[place.page].place(place.tag, position);
        self.len += 1;
    }

    /// The entry has moved in the log.
    pub(crate) fn moved(&mut self, hash: u64, from: u32, to: u32) {
        let place = self.place_of(hash);
        let page = &mut self.pages[place.page];
        let (at, slot, ()) = page.search(place.tag, |p| (p == from).then_some(())).expect("a live entry is indexed");
        page.buckets[at].positions[slot] = to;
    }

    pub(crate) fn remove(&mut self, hash: u64, position: u32) {
        let place = self.place_of(hash);
        let page = &mut self.pages[place.page];
        let (at, slot, ()) =
            page.search(place.tag, |p| (p == position).then_some(())).expect("a live entry is indexed");
        page.take(place.tag, at, slot);
        self.len -= 1;
        let before = page.bytes();
        if page.len * 5 < page.buckets.len() * SLOTS * 2 && page.buckets.len() > 1 {
            page.resize(page.len * 5 / (SLOTS * 4) + 1);
        }
        self.bytes -= before - page.bytes();
    }

    fn split(&mut self, hash_of: impl Fn(u32) -> u64) {
        let base = self.base();
        let source = self.pages.len() - base;
        let old = std::mem::take(&mut self.pages[source]);
        let sorted: Vec<(bool, u16, u32)> = old
            .entries()
            .map(|(tag, position)| (hash_of(position) as u32 as usize & base != 0, tag, position))
            .collect();
        let moving = sorted.iter().filter(|e| e.0).count();
        let mut low = Page::with_room_for(sorted.len() - moving);
        let mut high = Page::with_room_for(moving);
        for (up, tag, position) in sorted {
            if up { high.place(tag, position) } else { low.place(tag, position) }
        }
        let capacity = self.pages.capacity();
        self.bytes = self.bytes + low.bytes() + high.bytes() - old.bytes();
        self.pages[source] = low;
        if self.pages.len() == capacity {
            self.pages.reserve_exact((capacity / 8).max(4));
        }
        self.bytes += (self.pages.capacity() - capacity) * size_of::<Page>();
        self.pages.push(high);
        self.mask = 2 * self.base() - 1;
    }

    /// Positions that `hint` may mean.
    pub(crate) fn hinted(&self, hint: Hint, mut each: impl FnMut(u32)) {
        let page = &self.pages[self.page_of((hint.0 >> 8) as usize)];
        let buckets = page.buckets.len();
        if buckets == 0 {
            return;
        }
        let high = (hint.0 & 0xff) as u16;
        let last = page.home(high << 8 | 0xff);
        let mut at = page.home(high << 8);
        let mut beyond = false;
        for _ in 0..buckets {
            let bucket = &page.buckets[at];
            for slot in bits(bucket.used) {
                if bucket.tags[slot] >> 8 == high {
                    each(bucket.positions[slot]);
                }
            }
            beyond |= at == last;
            if beyond && bucket.spill == 0 {
                return;
            }
            at = page.next(at);
        }
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
            sorted.extend(self.pages[number].entries().filter(|e| e.0 >= at.tag));
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
            if page.len > 0 {
                return page.entries().nth((seed >> 32) as usize % page.len).map(|e| e.1);
            }
        }
        None
    }

    /// Every position, in no order.
    #[cfg(test)]
    pub(crate) fn positions(&self) -> Vec<u32> {
        self.pages.iter().flat_map(|p| p.entries().map(|e| e.1)).collect()
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert_eq!(self.mask, 2 * self.base() - 1);
        let mut len = 0;
        let mut bytes = self.pages.capacity() * size_of::<Page>();
        for page in &self.pages {
            assert_eq!(page.len, page.entries().count());
            len += page.len;
            bytes += page.bytes();
            for (tag, position) in page.entries() {
                assert!(page.search(tag, |p| (p == position).then_some(())).is_some());
            }
        }
        assert_eq!(len, self.len);
        assert_eq!(bytes, self.bytes);
    }
}
