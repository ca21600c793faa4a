//! The bytes of a table that say where everything is; docs/formats/table.md describes all of them.
use super::{
    error::TableError,
    frames::{FrameCompression, MAX_DICTIONARY, MAX_FRAME},
};
use xxhash_rust::xxh3::xxh3_64;

/// How a table begins. The first byte is no text, the line ends show a transfer that changed them.
pub(super) use crate::magic::TABLE as MAGIC;
/// The version of the format that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;
/// Bytes of the header; the body begins behind them.
pub(super) const HEADER: usize = 4096;
/// Where the header's own checksum stands.
const HEADER_SUM: usize = HEADER - 8;
/// Binary logarithm of the bytes of the body that share one checksum.
pub(super) const CHUNK_BITS: u32 = 16;
/// Bytes of the body that share one checksum.
pub(super) const CHUNK: usize = 1 << CHUNK_BITS;
/// Entries of a block; the last block of a part may have fewer.
pub(super) const BLOCK: usize = 16;
/// Bytes of a block's place.
pub(super) const PLACE: usize = 5;
/// Bytes of one moved slot.
pub(super) const MOVED: usize = 4;
/// Bytes of one part in the directory.
pub(super) const PART: usize = 32;
/// Most parts: 2 to this.
pub(super) const MAX_PART_BITS: u32 = 24;

/// What the input of a table was, to see whether it has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// Bytes.
    pub len: u64,
    /// Modification time, nanoseconds since the Unix epoch.
    pub modified: u64,
}

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) entries: u64,
    pub(super) seed: u64,
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
    pub(super) body: u64,
    pub(super) tail: u64,
    pub(super) part_bits: u32,
    pub(super) tail_sum: u64,
    /// All 0: the input was no file.
    pub(super) origin: Origin,
    pub(super) compression: FrameCompression,
    /// Bytes of the dictionary, with which the tail ends.
    pub(super) dictionary: u32,
    /// Bytes that values of one frame have together at most.
    pub(super) frame: u32,
}

impl Header {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.compression as u32).to_le_bytes());
        for number in [self.entries, self.seed, self.key_bytes, self.value_bytes, self.body, self.tail] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.part_bits.to_le_bytes());
        bytes.extend_from_slice(&CHUNK_BITS.to_le_bytes());
        for number in [self.tail_sum, self.origin.len, self.origin.modified] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.dictionary.to_le_bytes());
        bytes.extend_from_slice(&self.frame.to_le_bytes());
        bytes.resize(HEADER_SUM, 0);
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    /// Reads and checks the header of a file of `len` bytes.
    pub(super) fn read(bytes: &[u8]) -> Result<Header, TableError> {
        let damaged = |what: String| Err(TableError::damaged("header", 0, what));
        // A table that was cut off within its first bytes is one all the same.
        if bytes.is_empty() || !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
            return Err(TableError::foreign(bytes));
        }
        let Some(header) = bytes.get(..HEADER) else {
            return damaged(format!("the file ends within it, after {} bytes", bytes.len()));
        };
        // Before the checksum: another version may have it elsewhere.
        let version = u32_at(header, 8);
        if version != VERSION {
            return damaged(format!("format version {version}; this larder reads version {VERSION}"));
        }
        if u64_at(header, HEADER_SUM) != xxh3_64(&header[..HEADER_SUM]) {
            return damaged("its checksum does not match".into());
        }
        let compression = match u32_at(header, 12) {
            0 => FrameCompression::None,
            1 => FrameCompression::Zstd,
            other => return damaged(format!("values in compression {other}, which this larder cannot read")),
        };
        if u32_at(header, 68) != CHUNK_BITS {
            return damaged(format!(
                "checksums over chunks of 2^{} bytes, which this larder cannot read",
                u32_at(header, 68)
            ));
        }
        let header = Header {
            entries: u64_at(header, 16),
            seed: u64_at(header, 24),
            key_bytes: u64_at(header, 32),
            value_bytes: u64_at(header, 40),
            body: u64_at(header, 48),
            tail: u64_at(header, 56),
            part_bits: u32_at(header, 64),
            tail_sum: u64_at(header, 72),
            origin: Origin { len: u64_at(header, 80), modified: u64_at(header, 88) },
            compression,
            dictionary: u32_at(header, 96),
            frame: u32_at(header, 100),
        };
        let wanted = (HEADER as u64).checked_add(header.body).and_then(|sum| sum.checked_add(header.tail));
        if wanted != Some(bytes.len() as u64) {
            let wanted = wanted.map_or("more than any file has".into(), |wanted| wanted.to_string());
            return damaged(format!(
                "the file has {} bytes, not {wanted}: it is truncated or was added to",
                bytes.len()
            ));
        }
        let (dictionary, frame) = (header.dictionary as usize, header.frame as usize);
        if dictionary > MAX_DICTIONARY || frame > MAX_FRAME {
            return damaged(format!("a dictionary of {dictionary} bytes and frames of {frame}, which are too large"));
        }
        let tail = (PART as u64) << header.part_bits.min(MAX_PART_BITS);
        let tail = tail + 8 * header.body.div_ceil(CHUNK as u64) + dictionary as u64;
        if header.part_bits > MAX_PART_BITS || header.tail != tail {
            return damaged("its numbers contradict one another".into());
        }
        Ok(header)
    }

    /// Where the tail (directory, checksums, dictionary) begins.
    pub(super) fn tail_at(&self) -> usize {
        HEADER + self.body as usize
    }
    /// Where the checksums begin.
    pub(super) fn sums_at(&self) -> usize {
        self.tail_at() + (PART << self.part_bits)
    }
    /// Where the dictionary begins.
    pub(super) fn dictionary_at(&self) -> usize {
        self.tail_at() + self.tail as usize - self.dictionary as usize
    }
}

/// One part of a table: the keys whose hashes begin with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Part {
    /// Where it begins in the file.
    pub(super) begin: u64,
    /// Its bytes.
    pub(super) len: u64,
    /// Its entries, and with that its slots in use.
    pub(super) entries: u32,
    /// Its pilots.
    pub(super) buckets: u32,
    /// Slots that pilots lead to; those from `entries` on are moved.
    pub(super) slots: u32,
    /// Of the pilots.
    pub(super) seed: u32,
}

impl Part {
    pub(super) fn write(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.begin.to_le_bytes());
        to.extend_from_slice(&self.len.to_le_bytes());
        for number in [self.entries, self.buckets, self.slots, self.seed] {
            to.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(super) fn read(bytes: &[u8]) -> Part {
        Part {
            begin: u64_at(bytes, 0),
            len: u64_at(bytes, 8),
            entries: u32_at(bytes, 16),
            buckets: u32_at(bytes, 20),
            slots: u32_at(bytes, 24),
            seed: u32_at(bytes, 28),
        }
    }

    pub(super) fn blocks(&self) -> usize {
        (self.entries as usize).div_ceil(BLOCK)
    }
    /// Where the moved slots begin in the file.
    pub(super) fn moved_at(&self) -> usize {
        self.begin as usize + self.buckets as usize
    }
    /// Where the blocks' places begin.
    pub(super) fn places_at(&self) -> usize {
        self.moved_at() + MOVED * (self.slots - self.entries) as usize
    }
    /// Where the blocks begin.
    pub(super) fn blocks_at(&self) -> usize {
        self.places_at() + PLACE * (self.blocks() + 1)
    }
    /// Where it ends.
    pub(super) fn end(&self) -> usize {
        self.begin as usize + self.len as usize
    }

    /// Does it hold together, within a body that ends at `end`?
    pub(super) fn is_sound(&self, end: usize) -> bool {
        let fits = self.begin.checked_add(self.len).is_some_and(|part_end| part_end <= end as u64);
        fits && self.begin >= HEADER as u64
            && self.slots >= self.entries
            && (self.entries == 0 || self.buckets > 0)
            && self.blocks_at() <= self.end()
    }
}

/// Bytes that each length of a block takes, so that the greatest fits.
pub(super) fn width_for(greatest: usize) -> usize {
    match greatest {
        ..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// Bytes that the length of each frame of a block takes: a frame may have more than any of its
/// values, but not 64 KiB.
pub(super) fn frame_width(width: usize) -> usize {
    width.max(2)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
/// A block's place: 40 bits.
pub(super) fn place_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight[..PLACE].copy_from_slice(&bytes[at..at + PLACE]);
    u64::from_le_bytes(eight)
}
