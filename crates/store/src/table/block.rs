//! Where in a block an entry's key and value lie.
use super::{
    chunks::Stop,
    format::{BLOCK, PLACE, Part, frame_width, place_at, u32_at},
    frames::{Frames, Framing, StoredFrame},
    open::Table,
};
use std::ops::Range;

impl Table {
    /// The key of an entry of a part, and where its value is.
    #[inline]
    pub(super) fn entry(&self, part: &Part, entry: usize) -> Result<(&[u8], StoredFrame<'_>), Stop> {
        let (block, nth) = (entry / BLOCK, entry % BLOCK);
        let count = BLOCK.min(part.entries as usize - block * BLOCK);
        let (begin, end) = self.block(part, block)?;
        // It comes from memory together with the lengths.
        self.prefetch_entry(part, entry, begin, end);
        let width = usize::from(self.body.bytes(begin..begin + 1)?[0]);
        let data = begin + 1 + 2 * width * count;
        if !matches!(width, 1 | 2 | 4) || data > end {
            return Err(self.exceeded(begin));
        }
        let lengths = Lengths { bytes: self.body.bytes(begin + 1..data)?, width };
        if let Some(frames) = &self.frames {
            return self.framed(frames, (lengths, nth), begin, data..end);
        }
        let (key, value) = (lengths.at(2 * nth), lengths.at(2 * nth + 1));
        // At most 32 numbers of 32 bits: no overflow.
        let key_at = data + lengths.sum_of_first(2 * nth);
        if key_at + key + value > end {
            return Err(self.exceeded(begin));
        }
        let (key, bytes) = self.body.bytes(key_at..key_at + key + value)?.split_at(key);
        Ok((key, StoredFrame { bytes, at: key_at + key.len(), raw: value, value: 0..value }))
    }

    /// Like `entry`, for a block with frames, which begins at `begin`: in `data` are the keys, the
    /// frames' lengths, the frames.
    fn framed(
        &self,
        frames: &Frames,
        (lengths, nth): (Lengths<'_>, usize),
        begin: usize,
        data: Range<usize>,
    ) -> Result<(&[u8], StoredFrame<'_>), Stop> {
        let (mut key_at, mut lens_at) = (data.start, data.start);
        let mut framing = Framing::new(frames.limit);
        // Of all frames, and of the one that has the value: its number, its bytes, which are the value's.
        let (mut number, mut own, mut raw, mut value) = (0, usize::MAX, 0, 0..0);
        for entry in 0..lengths.count() {
            let (key, len) = (lengths.at(2 * entry), lengths.at(2 * entry + 1));
            number += usize::from(framing.add(len));
            if entry == nth {
                (key_at, own, value) = (lens_at, number, framing.raw() - len..framing.raw());
            }
            if number == own {
                raw = framing.raw();
            }
            lens_at += key;
        }
        let width = frame_width(lengths.width);
        let frames_at = lens_at + width * (number + 1);
        if frames_at > data.end {
            return Err(self.exceeded(begin));
        }
        let lens = Lengths { bytes: self.body.bytes(lens_at..frames_at)?, width };
        let (at, len) = (frames_at + lens.sum_of_first(own), lens.at(own));
        if len > raw || at + len > data.end {
            return Err(self.exceeded(begin));
        }
        let key = self.body.bytes(key_at..key_at + lengths.at(2 * nth))?;
        Ok((key, StoredFrame { bytes: self.body.bytes(at..at + len)?, at, raw, value }))
    }

    fn exceeded(&self, block: usize) -> Stop {
        self.body.stop("block", block, "its lengths exceed it")
    }

    /// Fetches about what an entry of a block from `begin` to `end` has: exactly where it lies is
    /// read from the block.
    #[inline]
    pub(super) fn prefetch_entry(&self, part: &Part, entry: usize, begin: usize, end: usize) {
        let nth = entry % BLOCK;
        let count = BLOCK.min(part.entries as usize - (entry - nth));
        let about = begin + (end - begin) * nth / count;
        // It seldom lies in one cache line.
        self.body.prefetch(about);
        self.body.prefetch(about + 64);
    }

    /// Where a block begins and ends in the file.
    #[inline]
    pub(super) fn block(&self, part: &Part, block: usize) -> Result<(usize, usize), Stop> {
        let place = part.places_at() + PLACE * block;
        let places = self.body.bytes(place..place + 2 * PLACE)?;
        let (begin, end) = (place_at(places, 0), place_at(places, PLACE));
        let blocks = part.blocks_at() as u64;
        let room = part.end() as u64 - blocks;
        if begin >= end || end > room {
            return Err(self.body.stop("places of blocks", place, "a block is not within its part"));
        }
        Ok(((blocks + begin) as usize, (blocks + end) as usize))
    }

    /// Where a block ends as its places have it, and as its lengths have it.
    pub(super) fn block_ends(&self, part: &Part, block: usize) -> Result<(usize, usize), Stop> {
        let last = (block * BLOCK + BLOCK).min(part.entries as usize) - 1;
        let (_, stored) = self.entry(part, last)?;
        Ok((self.block(part, block)?.1, stored.at + stored.bytes.len()))
    }
}

/// Lengths of one width, little-endian.
#[derive(Clone, Copy)]
struct Lengths<'t> {
    bytes: &'t [u8],
    width: usize,
}
impl Lengths<'_> {
    /// Entries: of each there are two.
    fn count(self) -> usize {
        self.bytes.len() / self.width / 2
    }
    #[inline]
    fn at(self, nth: usize) -> usize {
        match self.width {
            1 => self.bytes[nth].into(),
            2 => u16::from_le_bytes([self.bytes[2 * nth], self.bytes[2 * nth + 1]]).into(),
            _ => u32_at(self.bytes, 4 * nth) as usize,
        }
    }
    #[inline]
    fn sum_of_first(self, count: usize) -> usize {
        match (self.width, self.bytes.try_into()) {
            (1, Ok(all)) => sum_of_first(all, count) as usize,
            _ => (0..count).map(|nth| self.at(nth)).sum(),
        }
    }
}

/// The sum of the first `count` numbers, in a time that does not depend on how many they are: a
/// loop would be guessed wrongly by the processor.
#[inline]
fn sum_of_first(numbers: &[u8; 2 * BLOCK], count: usize) -> u64 {
    const EVERY_OTHER: u64 = 0x00ff_00ff_00ff_00ff;
    let (words, _) = numbers.as_chunks::<8>();
    let sums = words.iter().enumerate().map(|(nth, word)| {
        let bits = (8 * count).saturating_sub(64 * nth).min(64) as u32;
        // A shift by 64 bits is none in Rust: by half of them twice.
        let wanted = u64::from_le_bytes(*word) & !(u64::MAX << (bits / 2) << (bits - bits / 2));
        (wanted & EVERY_OTHER) + (wanted >> 8 & EVERY_OTHER)
    });
    // Four numbers of 16 bits, none above 4 · 2 · 255; the product's highest is their sum.
    sums.sum::<u64>().wrapping_mul(0x0001_0001_0001_0001) >> 48
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    #[test]
    fn sums_without_a_loop_are_sums() {
        for seed in 0..50u64 {
            let numbers: [u8; 32] =
                std::array::from_fn(|at| (xxh3_64(&[seed as u8, at as u8]) | ((seed % 3) * 0xff)) as u8);
            for count in 0..=32 {
                let sum: u64 = numbers[..count].iter().map(|&number| u64::from(number)).sum();
                assert_eq!(sum_of_first(&numbers, count), sum, "{count} of {numbers:?}");
            }
        }
    }
}
