//! An open table: its file, checked as far as opening does, and what its header says.
use super::{
    chunks::{Chunks, map},
    error::TableError,
    format::{Header, Origin, PART, Part},
    frames::{Decoder, FrameCompression, Frames},
};
use memmap2::{Mmap, MmapMut};
use parking_lot::Mutex;
use std::{fs::File, io, path::Path};
use xxhash_rust::xxh3::xxh3_64;

/// An open table. Readers of any number of threads share it.
#[derive(Debug)]
pub struct Table {
    pub(super) body: Chunks,
    pub(super) header: Header,
    pub(super) parts: Box<[Part]>,
    /// Of compressed values.
    pub(super) frames: Option<Frames>,
    /// For those who read without a decoder of their own.
    pub(super) decoders: Mutex<Vec<Decoder>>,
}

impl Table {
    /// Opens a table: checks its header, directory and the table of checksums, which takes
    /// milliseconds whatever its size.
    ///
    /// # Errors
    /// [`TableError::Io`]; [`TableError::Damaged`] names the section at fault.
    pub fn open(path: &Path) -> Result<Table, TableError> {
        let file = File::open(path).map_err(|error| TableError::io(path, error))?;
        let found = file.metadata().map_err(|error| TableError::io(path, error))?;
        if !found.is_file() {
            return Err(TableError::io(path, io::Error::other("is not a regular file")));
        }
        // Nothing can be mapped of it.
        if found.len() == 0 {
            return Err(TableError::foreign(b"").of(path));
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
            FrameCompression::None => None,
            FrameCompression::Zstd => {
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
    pub fn compression(&self) -> FrameCompression {
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
}
