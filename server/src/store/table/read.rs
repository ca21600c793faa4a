//! Opening a table and looking keys up in it.
use super::{
    TableError,
    format::{BLOCK, CHUNK, CHUNK_BITS, HEADER, Header, MOVED, Origin, PART, PLACE, Part, place_at, u32_at, u64_at},
    index::Hash,
};
use bytes::Bytes;
use memmap2::{Advice, Mmap, MmapMut};
use prefetch_index::prefetch_index;
use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};
use xxhash_rust::xxh3::xxh3_64;

/// An open table. Readers of any number of threads share it.
#[derive(Debug)]
pub struct Table {
    map: Mmap,
    path: PathBuf,
    pub(super) header: Header,
    pub(super) parts: Box<[Part]>,
    /// A bit for each chunk that has been checked.
    checked: Box<[AtomicU64]>,
    /// All of them have.
    all_checked: AtomicBool,
}

/// What can be said of a key without reading the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now<'t> {
    /// It has this value.
    Found(&'t [u8]),
    /// There is no such key.
    Absent,
    /// Nothing, as chunks are needed that nobody has checked yet: ask [`Table::get`], on a thread that may wait.
    Unknown,
}

/// Why a lookup went no further.
enum Stop {
    /// This part of the body has not been checked.
    Unchecked(Range<usize>),
    Damaged(TableError),
}

impl Table {
    /// Opens a table: checks its header, directory and the table of checksums, which takes milliseconds whatever its size.
    ///
    /// # Errors
    /// [`TableError::Io`]; [`TableError::Damaged`] names the section at fault.
    pub fn open(path: &Path) -> Result<Table, TableError> {
        let file = File::open(path).map_err(|error| TableError::io(path, error))?;
        let len = file.metadata().map_err(|error| TableError::io(path, error))?.len();
        if len < HEADER as u64 {
            return Err(
                TableError::damaged("header", 0, format!("the file has {len} bytes, less than a header")).of(path)
            );
        }
        let map = map(&file).map_err(|error| TableError::io(path, error))?;
        Table::new(map, path)
    }

    /// A table of bytes that are copied; for tests.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Table, TableError> {
        let path = Path::new("(memory)");
        let map = MmapMut::map_anon(bytes.len().max(1)).and_then(|mut map| {
            map[..bytes.len()].copy_from_slice(bytes);
            map.make_read_only()
        });
        Table::new(map.map_err(|error| TableError::io(path, error))?, path)
    }

    fn new(map: Mmap, path: &Path) -> Result<Table, TableError> {
        let header = Header::read(&map).map_err(|error| error.of(path))?;
        let tail_at = header.tail_at();
        let tail = &map[tail_at..];
        let damaged = |section, at: usize, what: String| TableError::damaged(section, at as u64, what).of(path);
        if xxh3_64(tail) != header.tail_sum {
            return Err(damaged("directory and checksums", tail_at, "their checksum does not match".into()));
        }
        let parts: Box<[Part]> =
            (0..1 << header.part_bits).map(|part: usize| Part::read(&tail[part * PART..])).collect();
        let mut entries = 0;
        for (number, part) in parts.iter().enumerate() {
            if !part.is_sound(tail_at) {
                return Err(damaged(
                    "directory",
                    tail_at + number * PART,
                    format!("part {number} does not hold together"),
                ));
            }
            entries += u64::from(part.entries);
        }
        if entries != header.entries {
            return Err(damaged(
                "directory",
                tail_at,
                format!("the parts have {entries} entries, not {}", header.entries),
            ));
        }
        let chunks = (header.body as usize).div_ceil(CHUNK);
        let checked = (0..chunks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Table { map, path: path.to_owned(), header, parts, checked, all_checked: AtomicBool::new(chunks == 0) })
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// How many entries it has.
    pub fn len(&self) -> u64 {
        self.header.entries
    }
    /// Has it none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes of all keys and of all values.
    pub fn raw_bytes(&self) -> (u64, u64) {
        (self.header.key_bytes, self.header.value_bytes)
    }
    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.map.len() as u64
    }
    /// Bytes of the index: pilots, moved slots, the blocks' places.
    pub fn index_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.blocks_at() as u64 - part.begin).sum()
    }
    /// What it was made of, if that was a file.
    pub fn origin(&self) -> Option<Origin> {
        Some(self.header.origin).filter(|origin| *origin != Origin::default())
    }

    /// The value of a key. Checks what has not been checked before, which may read the file.
    ///
    /// # Errors
    /// [`TableError::Damaged`]: what is needed for an answer is.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, TableError> {
        loop {
            match self.find(key) {
                Ok(found) => return Ok(found),
                Err(Stop::Unchecked(range)) => self.check(range)?,
                Err(Stop::Damaged(error)) => return Err(error),
            }
        }
    }

    /// The same as far as it is known without reading the file. Pages that the system took back since are an exception.
    #[inline]
    pub fn get_now(&self, key: &[u8]) -> Now<'_> {
        match self.find(key) {
            Ok(Some(value)) => Now::Found(value),
            Ok(None) => Now::Absent,
            Err(_) => Now::Unknown,
        }
    }

    /// A value of this table, or any part of it, by reference.
    pub fn share(self: &Arc<Self>, value: &[u8]) -> Bytes {
        let from = (value.as_ptr() as usize).wrapping_sub(self.map.as_ptr() as usize);
        match self.map.get(from..from.wrapping_add(value.len())) {
            Some(_) => Bytes::from_owner(Shared { table: self.clone(), range: from..from + value.len() }),
            // Not ours.
            None => Bytes::copy_from_slice(value),
        }
    }

    /// Checks every chunk: all that was written is as it was written.
    ///
    /// # Errors
    /// [`TableError::Damaged`] names the first that is not.
    pub fn check_all(&self) -> Result<(), TableError> {
        let end = self.header.tail_at();
        // Whatever was checked before: the file may have been damaged since.
        for begin in (HEADER..end).step_by(CHUNK) {
            self.check_chunk((begin - HEADER) / CHUNK)?;
        }
        self.all_checked.store(true, Relaxed);
        Ok(())
    }

    /// Asks the system to have all of the file in memory.
    pub fn advise_needed(&self) {
        // Only advice: without it pages come as they are touched.
        let _ = self.map.advise(Advice::WillNeed);
    }

    /// Has the processor fetch what a lookup of the key will look at, so that several wait for memory together and not one after the other.
    pub fn prefetch(&self, key: &[u8]) {
        let Ok(Some((number, entry))) = self.slot(key) else { return };
        let part = &self.parts[number];
        if let Ok((begin, end)) = self.block(part, entry / BLOCK) {
            prefetch_index(&self.map, begin);
            self.prefetch_entry(part, entry, begin, end);
        }
    }

    /// Fetches about what an entry of a block from `begin` to `end` has: exactly where it lies is read from the block.
    #[inline]
    fn prefetch_entry(&self, part: &Part, entry: usize, begin: usize, end: usize) {
        let nth = entry % BLOCK;
        let count = BLOCK.min(part.entries as usize - (entry - nth));
        let about = begin + (end - begin) * nth / count;
        // It seldom lies in one cache line.
        prefetch_index(&self.map, about);
        prefetch_index(&self.map, about + 64);
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Result<Option<&[u8]>, Stop> {
        let (number, entry) = match self.slot(key)? {
            Some(found) => found,
            None => return Ok(None),
        };
        let (found, value) = self.entry(&self.parts[number], entry)?;
        Ok((found == key).then_some(value))
    }

    /// The part and entry that have the key if the table has it.
    #[inline]
    pub(super) fn slot_of(&self, key: &[u8]) -> Result<Option<(usize, usize)>, TableError> {
        loop {
            match self.slot(key) {
                Ok(found) => return Ok(found),
                Err(Stop::Unchecked(range)) => self.check(range)?,
                Err(Stop::Damaged(error)) => return Err(error),
            }
        }
    }

    #[inline]
    fn slot(&self, key: &[u8]) -> Result<Option<(usize, usize)>, Stop> {
        let hash = Hash::of(key, self.header.seed);
        let number = hash.part(self.header.part_bits);
        let part = &self.parts[number];
        if part.entries == 0 {
            return Ok(None);
        }
        let pilot_at = part.begin as usize + hash.bucket(self.header.part_bits, part.buckets);
        let pilot = self.bytes(pilot_at..pilot_at + 1)?[0];
        let slot = hash.slot(pilot.into(), part.seed, part.slots);
        let entries = part.entries as usize;
        if slot < entries {
            return Ok(Some((number, slot)));
        }
        let moved_at = part.moved_at() + MOVED * (slot - entries);
        let moved = u32_at(self.bytes(moved_at..moved_at + MOVED)?, 0) as usize;
        match moved < entries {
            true => Ok(Some((number, moved))),
            false => Err(self.stop("moved slots", moved_at, "a slot is beyond the entries")),
        }
    }

    /// Key and value of an entry of a part, checking what has not been checked.
    pub(super) fn entry_at(&self, part: &Part, entry: usize) -> Result<(&[u8], &[u8]), TableError> {
        loop {
            match self.entry(part, entry) {
                Ok(found) => return Ok(found),
                Err(Stop::Unchecked(range)) => self.check(range)?,
                Err(Stop::Damaged(error)) => return Err(error),
            }
        }
    }

    /// Key and value of an entry of a part.
    #[inline]
    fn entry(&self, part: &Part, entry: usize) -> Result<(&[u8], &[u8]), Stop> {
        let (block, nth) = (entry / BLOCK, entry % BLOCK);
        let count = BLOCK.min(part.entries as usize - block * BLOCK);
        let (begin, end) = self.block(part, block)?;
        // It comes from memory together with the lengths.
        self.prefetch_entry(part, entry, begin, end);
        let outside = || self.stop("block", begin, "its lengths exceed it");
        let width = usize::from(self.bytes(begin..begin + 1)?[0]);
        let data = begin + 1 + 2 * width * count;
        if !matches!(width, 1 | 2 | 4) || data > end {
            return Err(outside());
        }
        let lengths = self.bytes(begin + 1..data)?;
        let before = &lengths[..2 * width * nth];
        let (skip, key, value) = match width {
            1 => {
                let skip = match lengths.first_chunk() {
                    Some(all) if count == BLOCK => sum_of_first(all, 2 * nth),
                    _ => before.iter().map(|&len| u64::from(len)).sum(),
                };
                (skip, lengths[2 * nth].into(), lengths[2 * nth + 1].into())
            }
            2 => {
                let at = |at: usize| u64::from(u16::from_le_bytes([lengths[at], lengths[at + 1]]));
                ((0..2 * nth).map(|len| at(2 * len)).sum(), at(4 * nth) as usize, at(4 * nth + 2) as usize)
            }
            _ => {
                let at = |at: usize| u64::from(u32_at(lengths, at));
                ((0..2 * nth).map(|len| at(4 * len)).sum(), at(8 * nth) as usize, at(8 * nth + 4) as usize)
            }
        };
        // At most 32 numbers of 32 bits: no overflow.
        let key_at = data + skip as usize;
        if key_at + key + value > end {
            return Err(outside());
        }
        let (key, value) = self.bytes(key_at..key_at + key + value)?.split_at(key);
        Ok((key, value))
    }

    /// Where a block begins and ends in the file.
    #[inline]
    fn block(&self, part: &Part, block: usize) -> Result<(usize, usize), Stop> {
        let place = part.places_at() + PLACE * block;
        let places = self.bytes(place..place + 2 * PLACE)?;
        let (begin, end) = (place_at(places, 0), place_at(places, PLACE));
        let blocks = part.blocks_at() as u64;
        let room = part.end() as u64 - blocks;
        if begin >= end || end > room {
            return Err(self.stop("places of blocks", place, "a block is not within its part"));
        }
        Ok(((blocks + begin) as usize, (blocks + end) as usize))
    }

    /// The length of a block as its places have it and as its lengths have it.
    pub(super) fn block_lens(&self, part: &Part, block: usize) -> Result<(u64, u64), TableError> {
        let last = (block * BLOCK + BLOCK).min(part.entries as usize) - 1;
        let (key, value) = self.entry_at(part, last)?;
        let place = part.places_at() + PLACE * block;
        let (begin, end) = (place_at(&self.map, place), place_at(&self.map, place + PLACE));
        let data = (key.as_ptr() as usize - self.map.as_ptr() as usize) + key.len() + value.len();
        Ok((end - begin, data as u64 - part.blocks_at() as u64 - begin))
    }

    fn stop(&self, section: &'static str, at: usize, what: &'static str) -> Stop {
        Stop::Damaged(TableError::damaged(section, at as u64, what).of(&self.path))
    }

    /// Bytes of the body that have been checked.
    #[inline]
    fn bytes(&self, range: Range<usize>) -> Result<&[u8], Stop> {
        if !self.all_checked.load(Relaxed) && !self.is_checked(&range) {
            return Err(Stop::Unchecked(range));
        }
        // Within the body, as all places are compared with their part's end, and that with the body's.
        self.map.get(range).ok_or_else(|| self.stop("body", HEADER, "a place is beyond its end"))
    }

    #[inline]
    fn is_checked(&self, range: &Range<usize>) -> bool {
        let chunks =
            range.start.saturating_sub(HEADER) >> CHUNK_BITS..=range.end.saturating_sub(HEADER + 1) >> CHUNK_BITS;
        chunks
            .into_iter()
            .all(|chunk| self.checked.get(chunk / 64).is_some_and(|bits| bits.load(Relaxed) >> (chunk % 64) & 1 == 1))
    }

    fn check(&self, range: Range<usize>) -> Result<(), TableError> {
        for chunk in (range.start - HEADER) / CHUNK..=(range.end - 1 - HEADER) / CHUNK {
            if !self.is_checked(&(HEADER + chunk * CHUNK..HEADER + chunk * CHUNK + 1)) {
                self.check_chunk(chunk)?;
            }
        }
        Ok(())
    }

    fn check_chunk(&self, chunk: usize) -> Result<(), TableError> {
        let begin = HEADER + chunk * CHUNK;
        let tail_at = self.header.tail_at();
        let end = (begin + CHUNK).min(tail_at);
        let sum_at = tail_at + self.parts.len() * PART + 8 * chunk;
        let damaged = |what: String| Err(TableError::damaged("body", begin as u64, what).of(&self.path));
        if begin >= end || sum_at + 8 > self.map.len() {
            return damaged("a place is beyond its end".into());
        }
        if xxh3_64(&self.map[begin..end]) != u64_at(&self.map, sum_at) {
            self.all_checked.store(false, Relaxed);
            self.checked[chunk / 64].fetch_and(!(1 << (chunk % 64)), Relaxed);
            return damaged(format!("bytes {begin} to {end} do not have their checksum"));
        }
        self.checked[chunk / 64].fetch_or(1 << (chunk % 64), Relaxed);
        Ok(())
    }
}

/// The sum of the first `count` numbers, in a time that does not depend on how many they are: a loop would be guessed wrongly by the processor.
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

/// A part of a table's map, which it keeps open.
struct Shared {
    table: Arc<Table>,
    range: Range<usize>,
}
impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.table.map[self.range.clone()]
    }
}

/// Maps a file.
#[expect(unsafe_code, reason = "a map is read as memory that does not change, which only the file's users can promise")]
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: nobody changes a table's file in place: Larder writes a new one and renames it, and says so to users (docs/tables.md). One who
    // does it nevertheless gets wrong bytes, or, where it was shortened, SIGBUS; no place that is read from the map is
    // used before it has been compared with the map's own length, so nothing is read outside of it.
    unsafe { Mmap::map(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
