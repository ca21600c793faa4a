//! Reads the blocks of a snapshot, which may be any bytes.
use super::{
    entry::{DecodeError, MAX_ENTRY, SavedEntry},
    error::SnapshotError,
    format::{
        BLOCK_HEAD, BlockHead, BlockKind, FIXED_HEADER, Footer, GroupTotals, Header, SnapshotCompression, block_sum,
        said_sum,
    },
};
use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};
use xxhash_rust::xxh3::Xxh3Default;
use zstd::bulk::Decompressor;

/// Bytes that are read at once.
const READ: usize = 256 << 10;

/// How closely a block is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scrutiny {
    /// Its checksum is compared. That is all that damage of a disk calls for.
    Checksum,
    /// It is decompressed as well, and all its entries are decoded.
    Entries,
}

/// Reads a snapshot from anything that gives bytes.
pub struct SnapshotReader<R: Read> {
    input: R,
    header: Header,
    seed: u64,
    sums: Xxh3Default,
    /// Where the next block begins.
    at: u64,
    number: u32,
    stored: Vec<u8>,
    raw: Vec<u8>,
    /// The start of an entry that goes on in the next block.
    piece: Vec<u8>,
    zstd: Option<Decompressor<'static>>,
    totals: Vec<GroupTotals>,
    is_over: bool,
}

/// A block whose checksum is right.
#[derive(Debug)]
pub struct Block<'r> {
    /// Its group, by its place in the header.
    pub group: usize,
    /// Entries that end in it.
    pub entries: u32,
    bytes: &'r [u8],
}

impl<'r> Block<'r> {
    /// The entries, if the block was read with [`Scrutiny::Entries`].
    pub fn entries(&self) -> impl Iterator<Item = SavedEntry<'r>> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (entry, used) = SavedEntry::decode(rest).ok()?;
            rest = &rest[used..];
            Some(entry)
        })
    }
}

impl SnapshotReader<BufReader<File>> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or is not a snapshot.
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        let file = File::open(path).map_err(|error| SnapshotError::io(path, error))?;
        SnapshotReader::of(file).map_err(|error| error.of_file(path))
    }

    /// Reads the header of a file that is open.
    ///
    /// # Errors
    /// The file cannot be read, or is not a snapshot.
    pub fn of(file: File) -> Result<Self, SnapshotError> {
        SnapshotReader::new(BufReader::with_capacity(READ, file))
    }
}

impl<R: Read> SnapshotReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The bytes cannot be read, or are not those of a snapshot.
    pub fn new(mut input: R) -> Result<SnapshotReader<R>, SnapshotError> {
        let mut fixed = [0; FIXED_HEADER];
        let read = read_up_to(&mut input, &mut fixed)?;
        if read < FIXED_HEADER {
            return Err(SnapshotError::foreign("is not a snapshot: it is too short"));
        }
        let rest = Header::rest_len(&fixed)?;
        let mut bytes = fixed.to_vec();
        bytes.resize(FIXED_HEADER + rest, 0);
        let read = read_up_to(&mut input, &mut bytes[FIXED_HEADER..])?;
        bytes.truncate(FIXED_HEADER + read);
        let (header, seed) = Header::decode(&bytes)?;
        let mut sums = Xxh3Default::new();
        sums.update(&seed.to_le_bytes());
        Ok(SnapshotReader {
            input,
            totals: vec![GroupTotals::default(); header.groups.len()],
            header,
            seed,
            sums,
            at: bytes.len() as u64,
            number: 0,
            stored: Vec::new(),
            raw: Vec::new(),
            piece: Vec::new(),
            zstd: None,
            is_over: false,
        })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What was read so far, by groups; bytes only with [`Scrutiny::Entries`].
    pub fn totals(&self) -> &[GroupTotals] {
        &self.totals
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Blocks read so far.
    pub fn blocks(&self) -> u32 {
        self.number
    }

    /// The next block with entries; `None` after the footer, if that is right and the last of the
    /// file. Ask no more after an error.
    ///
    /// # Errors
    /// The input cannot be read, or the block is damaged. Nothing of it is given.
    pub fn next_block(&mut self, scrutiny: Scrutiny) -> Result<Option<Block<'_>>, SnapshotError> {
        loop {
            if self.is_over {
                return Ok(None);
            }
            let head = self.read_block()?;
            match head.kind {
                BlockKind::Footer => return self.end().map(|()| None),
                BlockKind::Piece | BlockKind::Entries if scrutiny == Scrutiny::Checksum => {
                    self.advance(&head);
                    self.totals[head.group as usize].entries += u64::from(head.entries);
                    return Ok(Some(Block { group: head.group as usize, entries: head.entries, bytes: &[] }));
                }
                BlockKind::Piece => {
                    self.decompress(&head)?;
                    if self.piece.len() + self.raw.len() > MAX_ENTRY {
                        return Err(self.damaged("an entry is longer than any can be"));
                    }
                    self.piece.extend_from_slice(&self.raw);
                    if let Err(DecodeError::Invalid(what)) = SavedEntry::decode(&self.piece) {
                        return Err(self.damaged(what));
                    }
                    self.advance(&head);
                }
                BlockKind::Entries => {
                    self.decompress(&head)?;
                    if !self.piece.is_empty() {
                        self.piece.extend_from_slice(&self.raw);
                        std::mem::swap(&mut self.piece, &mut self.raw);
                        self.piece = Vec::new();
                    }
                    self.check_entries(&head)?;
                    self.advance(&head);
                    let totals = &mut self.totals[head.group as usize];
                    totals.entries += u64::from(head.entries);
                    totals.bytes += self.raw.len() as u64;
                    return Ok(Some(Block { group: head.group as usize, entries: head.entries, bytes: &self.raw }));
                }
            }
        }
    }

    /// Reads to the end.
    ///
    /// # Errors
    /// As [`next_block`](SnapshotReader::next_block).
    pub fn check(&mut self, scrutiny: Scrutiny) -> Result<(), SnapshotError> {
        while self.next_block(scrutiny)?.is_some() {}
        Ok(())
    }

    fn damaged(&self, what: impl Into<String>) -> SnapshotError {
        SnapshotError::damaged(format!("block {}", self.number), self.at, what)
    }

    /// Reads the next block to `stored` and compares it with its checksum.
    fn read_block(&mut self) -> Result<BlockHead, SnapshotError> {
        let mut bytes = [0; BLOCK_HEAD];
        match read_up_to(&mut self.input, &mut bytes)? {
            BLOCK_HEAD => {}
            0 => return Err(self.damaged("the file ends without its footer")),
            _ => return Err(self.damaged("the file ends within it")),
        }
        let head = BlockHead::decode(&bytes, self.number, self.header.groups.len());
        let head = head.map_err(|what| self.damaged(what))?;
        self.stored.resize(head.stored as usize, 0);
        if read_up_to(&mut self.input, &mut self.stored)? < self.stored.len() {
            return Err(self.damaged("the file ends within it"));
        }
        if block_sum(&bytes, &self.stored, self.seed) != said_sum(&bytes) {
            return Err(self.damaged("its checksum is another"));
        }
        if head.kind != BlockKind::Footer {
            self.sums.update(&said_sum(&bytes).to_le_bytes());
        }
        Ok(head)
    }

    fn advance(&mut self, head: &BlockHead) {
        self.at += BLOCK_HEAD as u64 + u64::from(head.stored);
        self.number += 1;
    }

    /// From `stored` to `raw`.
    fn decompress(&mut self, head: &BlockHead) -> Result<(), SnapshotError> {
        let len = head.raw as usize;
        self.raw.clear();
        let got = match head.compression {
            SnapshotCompression::None => {
                self.raw.extend_from_slice(&self.stored);
                Some(len)
            }
            SnapshotCompression::Lz4 => {
                self.raw.resize(len, 0);
                lz4_flex::block::decompress_into(&self.stored, &mut self.raw).ok()
            }
            SnapshotCompression::Zstd => {
                self.raw.resize(len, 0);
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    none => none.insert(Decompressor::new().map_err(read_failed)?),
                };
                zstd.decompress_to_buffer(&self.stored, &mut self.raw[..]).ok()
            }
        };
        if got == Some(len) { Ok(()) } else { Err(self.damaged("it cannot be decompressed")) }
    }

    /// Whether `raw` is as many entries as the head says, and nothing else.
    fn check_entries(&self, head: &BlockHead) -> Result<(), SnapshotError> {
        let (mut rest, mut entries) = (&self.raw[..], 0);
        while !rest.is_empty() {
            let (_, used) = SavedEntry::decode(rest).map_err(|error| self.damaged(error.to_string()))?;
            rest = &rest[used..];
            entries += 1;
        }
        if entries == head.entries { Ok(()) } else { Err(self.damaged("its entries are not as many as it says")) }
    }

    /// What was read is compared with the footer, which is in `stored`.
    fn end(&mut self) -> Result<(), SnapshotError> {
        let damaged = |at: u64, what: &str| SnapshotError::damaged("footer", at, what);
        let footer = Footer::decode(&self.stored, self.header.groups.len());
        let footer = footer.ok_or_else(|| damaged(self.at, "it has another length"))?;
        let entries = |totals: &[GroupTotals]| totals.iter().map(|group| group.entries).collect::<Vec<_>>();
        if footer.blocks != u64::from(self.number)
            || footer.sums != self.sums.digest()
            || entries(&footer.groups) != entries(&self.totals)
            || !self.piece.is_empty()
        {
            return Err(damaged(self.at, "the blocks before it are not those that were written"));
        }
        self.at += (BLOCK_HEAD + self.stored.len()) as u64;
        if read_up_to(&mut self.input, &mut [0])? != 0 {
            return Err(damaged(self.at, "bytes follow it"));
        }
        self.totals = footer.groups;
        self.is_over = true;
        Ok(())
    }
}

/// Fills the buffer, unless the input ends before; gives the bytes read.
fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, SnapshotError> {
    let mut read = 0;
    while read < buffer.len() {
        match input.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_failed(error)),
        }
    }
    Ok(read)
}

fn read_failed(error: io::Error) -> SnapshotError {
    SnapshotError::io(Path::new(""), error)
}
