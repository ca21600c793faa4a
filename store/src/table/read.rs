//! Opening a table and looking keys up in it.
use super::{
    TableError,
    chunks::{Chunks, Stop, map},
    format::{BLOCK, HEADER, Header, MOVED, Origin, PART, Part, u32_at},
    frames::{Compression, Decoder, Frames, Stored},
    index::Hash,
};
use bytes::Bytes;
use memmap2::{Mmap, MmapMut};
use parking_lot::Mutex;
use std::{borrow::Cow, fs::File, io, ops::Range, path::Path, sync::Arc};
use xxhash_rust::xxh3::xxh3_64;

/// A frame that has more is not decompressed where nothing may take long.
const AT_ONCE: usize = 64 << 10;

/// An open table. Readers of any number of threads share it.
#[derive(Debug)]
pub struct Table {
    pub(super) body: Chunks,
    pub(super) header: Header,
    pub(super) parts: Box<[Part]>,
    /// Of compressed values.
    pub(super) frames: Option<Frames>,
    /// For those who read without a decoder of their own.
    decoders: Mutex<Vec<Decoder>>,
}

/// What can be said of a key without reading the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now<'t> {
    /// It has this value.
    Found(&'t [u8]),
    /// There is no such key.
    Absent,
    /// Nothing: chunks are needed that nobody has checked yet, or much is to be decompressed. Ask [`Table::get`], on a thread that may wait.
    Unknown,
}

impl Table {
    /// Opens a table: checks its header, directory and the table of checksums, which takes milliseconds whatever its size.
    ///
    /// # Errors
    /// [`TableError::Io`]; [`TableError::Damaged`] names the section at fault.
    pub fn open(path: &Path) -> Result<Table, TableError> {
        let file = File::open(path).map_err(|error| TableError::io(path, error))?;
        let found = file.metadata().map_err(|error| TableError::io(path, error))?;
        if !found.is_file() {
            return Err(TableError::io(path, io::Error::other("is no regular file")));
        }
        let len = found.len();
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
            return Err(damaged("tail", tail_at, "its checksum does not match".into()));
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
        let frames = match header.compression {
            Compression::None => None,
            Compression::Zstd => {
                let at = header.dictionary_at();
                let frames = Frames::new(&map[at..], header.frame as usize);
                Some(frames.ok_or_else(|| damaged("dictionary", at, "it is none of zstd".into()))?)
            }
        };
        let body = Chunks::new(map, path, tail_at, header.sums_at());
        Ok(Table { body, header, parts, frames, decoders: Mutex::default() })
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        self.body.path()
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
        self.body.len() as u64
    }
    /// How it keeps its values.
    pub fn compression(&self) -> Compression {
        self.header.compression
    }
    /// Bytes of the dictionary of compressed values.
    pub fn dictionary_bytes(&self) -> u64 {
        self.header.dictionary.into()
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
    pub fn get(&self, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>, TableError> {
        let Some(stored) = self.checking(|table| table.find(key))? else { return Ok(None) };
        if let Some(value) = stored.plain() {
            return Ok(Some(Cow::Borrowed(value)));
        }
        let mut decoder = self.decoders.lock().pop().unwrap_or_default();
        let value = self.value(&stored, &mut decoder);
        self.decoders.lock().push(decoder);
        value.map(Some)
    }

    /// The same as far as it is known without reading the file or decompressing much. Pages that the system took back since are an exception.
    #[inline]
    pub fn get_now<'t>(&'t self, key: &[u8], decoder: &'t mut Decoder) -> Now<'t> {
        match self.find(key) {
            Ok(Some(stored)) => match (stored.plain(), &self.frames) {
                (Some(value), _) => Now::Found(value),
                (None, Some(frames)) if stored.raw <= AT_ONCE => {
                    decoder.decode(frames, &stored).map_or(Now::Unknown, Now::Found)
                }
                _ => Now::Unknown,
            },
            Ok(None) => Now::Absent,
            Err(_) => Now::Unknown,
        }
    }

    /// A value of this table, or any part of it, by reference; copied if it was decompressed.
    pub fn share(self: &Arc<Self>, value: &[u8]) -> Bytes {
        match self.body.range_of(value) {
            Some(range) => Bytes::from_owner(Shared { table: self.clone(), range }),
            None => Bytes::copy_from_slice(value),
        }
    }

    /// Checks every chunk: all that was written is as it was written.
    ///
    /// # Errors
    /// [`TableError::Damaged`] names the first that is not.
    pub fn check_all(&self) -> Result<(), TableError> {
        self.body.check_all()
    }

    /// Asks the system to have all of the file in memory.
    pub fn advise_needed(&self) {
        self.body.advise_needed();
    }

    /// Has the processor fetch what a lookup of the key will look at, so that several wait for memory together and not one after the other.
    pub fn prefetch(&self, key: &[u8]) {
        let Ok(Some((number, entry))) = self.slot(key) else { return };
        let part = &self.parts[number];
        if let Ok((begin, end)) = self.block(part, entry / BLOCK) {
            self.body.prefetch(begin);
            self.prefetch_entry(part, entry, begin, end);
        }
    }

    /// Looks, and checks what turns out not to have been checked, until there is an answer.
    pub(super) fn checking<'t, T>(&'t self, look: impl Fn(&'t Table) -> Result<T, Stop>) -> Result<T, TableError> {
        loop {
            match look(self) {
                Ok(found) => return Ok(found),
                Err(Stop::Unchecked(range)) => self.body.check(range)?,
                Err(Stop::Damaged(error)) => return Err(error),
            }
        }
    }

    /// A value that was found, with a decoder that reads from no other table.
    pub(super) fn value<'t>(&self, stored: &Stored<'t>, decoder: &mut Decoder) -> Result<Cow<'t, [u8]>, TableError> {
        match (stored.plain(), &self.frames) {
            (Some(value), _) => Ok(Cow::Borrowed(value)),
            (None, Some(frames)) => decoder.owned(frames, stored),
            (None, None) => Err("a value is beyond its place"),
        }
        .map_err(|what| TableError::damaged("frame", stored.at as u64, what).of(self.path()))
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Result<Option<Stored<'_>>, Stop> {
        let (number, entry) = match self.slot(key)? {
            Some(found) => found,
            None => return Ok(None),
        };
        let (found, stored) = self.entry(&self.parts[number], entry)?;
        Ok((found == key).then_some(stored))
    }

    /// The part and entry that have the key if the table has it.
    #[inline]
    pub(super) fn slot(&self, key: &[u8]) -> Result<Option<(usize, usize)>, Stop> {
        let hash = Hash::of(key, self.header.seed);
        let number = hash.part(self.header.part_bits);
        let part = &self.parts[number];
        if part.entries == 0 {
            return Ok(None);
        }
        let pilot_at = part.begin as usize + hash.bucket(self.header.part_bits, part.buckets);
        let pilot = self.body.bytes(pilot_at..pilot_at + 1)?[0];
        let slot = hash.slot(pilot.into(), part.seed, part.slots);
        let entries = part.entries as usize;
        if slot < entries {
            return Ok(Some((number, slot)));
        }
        let moved_at = part.moved_at() + MOVED * (slot - entries);
        let moved = u32_at(self.body.bytes(moved_at..moved_at + MOVED)?, 0) as usize;
        match moved < entries {
            true => Ok(Some((number, moved))),
            false => Err(self.body.stop("moved slots", moved_at, "a slot is beyond the entries")),
        }
    }
}

/// A part of a table's map, which it keeps open.
struct Shared {
    table: Arc<Table>,
    range: Range<usize>,
}
impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.table.body.given_out(self.range.clone())
    }
}
