//! Writes the blocks of a snapshot. One block is held at a time, however large an entry is.
use super::{
    entry::SavedEntry,
    format::{
        BLOCK, BLOCK_HEAD, BlockHead, BlockKind, Footer, GroupTotals, Header, MAX_BLOCK, SnapshotCompression, block_sum,
    },
};
use std::io::{self, Write};
use xxhash_rust::xxh3::Xxh3Default;
use zstd::bulk::Compressor;

/// Of zstd: the fastest of its usual ones. A snapshot is written often and read seldom.
const LEVEL: i32 = 1;

/// Writes a snapshot to anything that takes bytes.
pub struct SnapshotWriter<W: Write> {
    out: W,
    compression: SnapshotCompression,
    zstd: Option<Compressor<'static>>,
    seed: u64,
    sums: Xxh3Default,
    group: u32,
    /// The block that is being filled.
    raw: Vec<u8>,
    /// Entries that end in it.
    entries: u32,
    /// A head and a payload, to be written together.
    frame: Vec<u8>,
    footer: Footer,
    written: u64,
}

impl<W: Write> SnapshotWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(mut out: W, header: &Header) -> io::Result<SnapshotWriter<W>> {
        let (bytes, seed) = header.encode();
        out.write_all(&bytes)?;
        let zstd = (header.compression == SnapshotCompression::Zstd).then(|| Compressor::new(LEVEL)).transpose()?;
        let mut sums = Xxh3Default::new();
        sums.update(&seed.to_le_bytes());
        Ok(SnapshotWriter {
            out,
            compression: header.compression,
            zstd,
            seed,
            sums,
            group: 0,
            raw: Vec::with_capacity(BLOCK),
            entries: 0,
            frame: Vec::new(),
            footer: Footer { groups: vec![GroupTotals::default(); header.groups.len()], ..Footer::default() },
            written: bytes.len() as u64,
        })
    }

    /// The next entries are of this group, by its place in the header.
    ///
    /// # Errors
    /// What the output says.
    pub fn begin_group(&mut self, group: usize) -> io::Result<()> {
        self.end_block(BlockKind::Entries)?;
        self.group = group as u32;
        Ok(())
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// What the output says.
    pub fn push(&mut self, entry: &SavedEntry<'_>) -> io::Result<()> {
        let mut head = Vec::new();
        entry.encode_head(&mut head);
        self.push_encoded(&head, entry.value, 1)
    }

    /// Adds entries that are encoded one after the other; `last`: bytes that the last one goes on
    /// with.
    ///
    /// # Errors
    /// What the output says.
    pub fn push_encoded(&mut self, bytes: &[u8], last: &[u8], entries: u32) -> io::Result<()> {
        let len = bytes.len() + last.len();
        let totals = &mut self.footer.groups[self.group as usize];
        totals.entries += u64::from(entries);
        totals.bytes += len as u64;
        if len <= MAX_BLOCK - BLOCK {
            self.raw.extend_from_slice(bytes);
            self.raw.extend_from_slice(last);
            self.entries += entries;
            return if self.raw.len() >= BLOCK { self.end_block(BlockKind::Entries) } else { Ok(()) };
        }
        // One entry, in pieces.
        debug_assert_eq!(entries, 1);
        self.end_block(BlockKind::Entries)?;
        for mut part in [bytes, last] {
            while !part.is_empty() {
                if self.raw.len() == BLOCK {
                    self.end_block(BlockKind::Piece)?;
                }
                let (now, later) = part.split_at(part.len().min(BLOCK - self.raw.len()));
                self.raw.extend_from_slice(now);
                part = later;
            }
        }
        self.entries = entries;
        self.end_block(BlockKind::Entries)
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What was written so far, by groups.
    pub fn totals(&self) -> &[GroupTotals] {
        &self.footer.groups
    }

    /// Writes what is left and the footer. Gives the output, what was written by groups, and the
    /// bytes of the whole.
    ///
    /// # Errors
    /// What the output says.
    pub fn finish(mut self) -> io::Result<(W, Vec<GroupTotals>, u64)> {
        self.end_block(BlockKind::Entries)?;
        self.footer.sums = self.sums.digest();
        self.raw = self.footer.encode();
        self.compression = SnapshotCompression::None;
        self.group = 0;
        self.write_block(BlockKind::Footer)?;
        self.out.flush()?;
        Ok((self.out, self.footer.groups, self.written))
    }

    fn end_block(&mut self, kind: BlockKind) -> io::Result<()> {
        if self.raw.is_empty() { Ok(()) } else { self.write_block(kind) }
    }

    fn write_block(&mut self, kind: BlockKind) -> io::Result<()> {
        self.frame.clear();
        self.frame.resize(BLOCK_HEAD, 0);
        let compression = self.compress()?;
        let mut head = BlockHead {
            kind,
            compression,
            group: self.group,
            entries: self.entries,
            raw: self.raw.len() as u32,
            stored: (self.frame.len() - BLOCK_HEAD) as u32,
            number: self.footer.blocks as u32,
        };
        if head.stored >= head.raw || compression == SnapshotCompression::None {
            // What would not get shorter stays as it is.
            self.frame.truncate(BLOCK_HEAD);
            self.frame.extend_from_slice(&self.raw);
            (head.compression, head.stored) = (SnapshotCompression::None, head.raw);
        }
        let (bytes, sum) = head.encode(&self.frame[BLOCK_HEAD..], self.seed);
        debug_assert_eq!(sum, block_sum(&bytes, &self.frame[BLOCK_HEAD..], self.seed));
        self.frame[..BLOCK_HEAD].copy_from_slice(&bytes);
        self.out.write_all(&self.frame)?;
        self.written += self.frame.len() as u64;
        self.sums.update(&sum.to_le_bytes());
        self.footer.blocks += u64::from(kind != BlockKind::Footer);
        self.raw.clear();
        self.entries = 0;
        Ok(())
    }

    /// Appends the compressed block to the frame.
    fn compress(&mut self) -> io::Result<SnapshotCompression> {
        match (self.compression, &mut self.zstd) {
            (SnapshotCompression::Lz4, _) => {
                let most = lz4_flex::block::get_maximum_output_size(self.raw.len());
                self.frame.resize(BLOCK_HEAD + most, 0);
                let len = lz4_flex::block::compress_into(&self.raw, &mut self.frame[BLOCK_HEAD..])
                    .map_err(io::Error::other)?;
                self.frame.truncate(BLOCK_HEAD + len);
                Ok(SnapshotCompression::Lz4)
            }
            (SnapshotCompression::Zstd, Some(zstd)) => {
                let most = zstd::zstd_safe::compress_bound(self.raw.len());
                self.frame.resize(BLOCK_HEAD + most, 0);
                let len = zstd.compress_to_buffer(&self.raw, &mut self.frame[BLOCK_HEAD..])?;
                self.frame.truncate(BLOCK_HEAD + len);
                Ok(SnapshotCompression::Zstd)
            }
            _ => Ok(SnapshotCompression::None),
        }
    }
}
