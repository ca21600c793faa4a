//! A bucket of the index: a cache line of twelve tags and positions, five bytes each.
//!
//! Tag and position share the five bytes: 24 bits are the position's, enough for a log of 16 MiB,
//! and 16 the tag's. A page with a position beyond that takes lowest bits off its tags: a search
//! then looks at more records that are not the key's. A tag without these bits is not above what it
//! was, so the order of tags stays.

use wide::u16x8;

pub(crate) const SLOTS: usize = 12;
/// Lanes that are compared at once.
const LANES: usize = 8;
/// Bits of a position that do not lie in a lane.
const LOW_BITS: u32 = 24;

/// One cache line.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bucket {
    /// The tag and, in the bits that the page's tags do not have, the highest of the position.
    lanes: [u16; SLOTS],
    /// Bit i: slot i is taken.
    used: u16,
    /// Entries stored further on that searched this bucket first.
    pub(crate) spill: u16,
    /// The lowest bits of the position.
    low: [u16; SLOTS],
    /// Those between.
    middle: [u8; SLOTS],
}

/// The bits of a lane that are the tag's: the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TagBits(pub(crate) u16);

impl TagBits {
    pub(crate) const ALL: TagBits = TagBits(u16::MAX);

    /// Those that are left beside a position.
    #[inline]
    pub(crate) fn beside(position: u32) -> TagBits {
        let taken = u32::BITS - (position >> LOW_BITS).leading_zeros();
        TagBits(u16::MAX << taken)
    }

    /// The tag as far as it is stored.
    #[inline(always)]
    pub(crate) fn of(self, tag: u16) -> u16 {
        tag & self.0
    }
}

impl Bucket {
    /// Bit i: slot i is taken and has this tag.
    #[inline(always)]
    pub(crate) fn matches(&self, tag: u16, tag_bits: TagBits) -> u16 {
        // Eight lanes compare at once: the first eight and the last eight.
        let (tags, bits) = (u16x8::splat(tag_bits.of(tag)), u16x8::splat(tag_bits.0));
        let equal = |from: usize| {
            let lanes: [u16; LANES] = self.lanes[from..from + LANES].try_into().expect("eight lanes");
            (u16x8::new(lanes) & bits).simd_eq(tags).to_bitmask() as u16
        };
        (equal(0) | equal(SLOTS - LANES) << (SLOTS - LANES)) & self.used
    }

    #[inline(always)]
    pub(crate) fn position(&self, slot: usize, tag_bits: TagBits) -> u32 {
        let high = u32::from(self.lanes[slot] & !tag_bits.0) << LOW_BITS;
        high | u32::from(self.middle[slot]) << 16 | u32::from(self.low[slot])
    }

    /// As far as it is stored.
    pub(crate) fn tag(&self, slot: usize, tag_bits: TagBits) -> u16 {
        tag_bits.of(self.lanes[slot])
    }

    /// The position's highest bits must not be the tag's.
    pub(crate) fn set(&mut self, slot: usize, tag: u16, tag_bits: TagBits, position: u32) {
        debug_assert!(tag_bits <= TagBits::beside(position));
        self.lanes[slot] = tag_bits.of(tag) | (position >> LOW_BITS) as u16;
        self.middle[slot] = (position >> 16) as u8;
        self.low[slot] = position as u16;
        self.used |= 1 << slot;
    }

    pub(crate) fn free(&mut self, slot: usize) {
        self.used &= !(1 << slot);
    }

    pub(crate) fn free_slot(&self) -> Option<usize> {
        let slot = (!self.used).trailing_zeros() as usize;
        (slot < SLOTS).then_some(slot)
    }

    /// The slots that are taken.
    pub(crate) fn slots(&self) -> impl Iterator<Item = usize> + use<> {
        let mut mask = self.used;
        std::iter::from_fn(move || {
            let slot = mask.trailing_zeros() as usize;
            mask &= mask.wrapping_sub(1);
            (slot < SLOTS).then_some(slot)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_a_cache_line() {
        assert_eq!(size_of::<Bucket>(), 64);
    }

    #[test]
    fn tags_leave_their_lowest_bits_to_long_positions() {
        let lengths =
            [(0, 0xffff), (0xff_ffff, 0xffff), (0x100_0000, 0xfffe), (0x3ff_ffff, 0xfffc), (u32::MAX, 0xff00)];
        for (position, bits) in lengths {
            let tag_bits = TagBits::beside(position);
            assert_eq!(tag_bits.0, bits, "{position:#x}");
            let mut bucket = Bucket::default();
            bucket.set(3, 0xabcd, tag_bits, position);
            assert_eq!((bucket.tag(3, tag_bits), bucket.position(3, tag_bits)), (0xabcd & bits, position));
            assert_eq!(bucket.matches(0xabcd, tag_bits), 1 << 3);
            assert_eq!(bucket.matches(0x2bcd, tag_bits), 0);
        }
    }
}
