//! Writing a table's file: parts one after the other, then directory, checksums and, last of all,
//! the header.
use super::{
    error::TableError,
    format::{BLOCK, CHUNK, HEADER, Header, Origin, PLACE, Part, frame_width, width_for},
    frames::{FRAME, FrameCompression, FrameEncoder},
    index::{self, Hash},
};
use crate::atomic_files::{self, Temporary};
use std::{
    fs::File,
    io::{self, Seek as _, SeekFrom, Write},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// One entry to write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) hash: Hash,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

/// A table that is being written, under another name until it is whole. Dropped before, it leaves
/// nothing behind.
pub(super) struct Writer {
    body: Body,
    path: PathBuf,
    directory: Vec<Part>,
    header: Header,
    /// Where values are compressed.
    encoder: Option<FrameEncoder>,
    /// The blocks of a part.
    blocks: Vec<u8>,
}

impl Writer {
    /// Begins a table at `path`, with 2 to `part_bits` parts.
    pub(super) fn create(
        path: &Path,
        part_bits: u32,
        seed: u64,
        origin: Origin,
        encoder: Option<FrameEncoder>,
    ) -> Result<Writer, TableError> {
        let temporary = Temporary::beside(path).map_err(|error| TableError::io(path, error))?;
        let mut body = Body {
            file: File::create(&temporary.0).map_err(|error| TableError::io(&temporary.0, error))?,
            temporary,
            pending: Vec::new(),
            sums: Vec::new(),
            len: 0,
        };
        body.file.write_all(&[0; HEADER]).map_err(|error| body.failed(error))?;
        let (compression, dictionary, frame) = match &encoder {
            None => (FrameCompression::None, 0, 0),
            Some(encoder) => (FrameCompression::Zstd, encoder.dictionary.len() as u32, FRAME as u32),
        };
        let header = Header {
            entries: 0,
            seed,
            key_bytes: 0,
            value_bytes: 0,
            body: 0,
            tail: 0,
            part_bits,
            tail_sum: 0,
            origin,
            compression,
            dictionary,
            frame,
        };
        Ok(Writer { body, path: path.to_owned(), directory: Vec::new(), header, encoder, blocks: Vec::new() })
    }

    /// Adds the next part: its entries, of distinct keys, in ascending order of their hashes.
    pub(super) fn part(&mut self, items: &[Item<'_>]) -> Result<(), TableError> {
        let hashes: Vec<Hash> = items.iter().map(|item| item.hash).collect();
        let index = index::build(&hashes, self.header.part_bits)
            .ok_or_else(|| TableError::Input("no perfect hash could be found for these keys".into()))?;
        let mut order = vec![0u32; items.len()];
        for (item, &entry) in index.entry_of.iter().enumerate() {
            order[entry as usize] = item as u32;
        }
        let begin = HEADER as u64 + self.body.len;
        self.body.put(&index.pilots)?;
        for moved in &index.moved {
            self.body.put(&moved.to_le_bytes())?;
        }
        // The places of the blocks come before them.
        self.blocks.clear();
        self.body.put(&[0; PLACE])?;
        for block in order.chunks(BLOCK) {
            let block: Vec<_> = block.iter().map(|&item| &items[item as usize]).collect();
            put_block(&block, &mut self.blocks, self.encoder.as_mut())?;
            let place = self.blocks.len() as u64;
            if place >> (8 * PLACE) != 0 {
                return Err(TableError::Input("the entries of a part have more than 1 TiB".into()));
            }
            self.body.put(&place.to_le_bytes()[..PLACE])?;
        }
        self.body.put(&self.blocks)?;
        for item in items {
            self.header.key_bytes += item.key.len() as u64;
            self.header.value_bytes += item.value.len() as u64;
        }
        self.header.entries += items.len() as u64;
        self.directory.push(Part {
            begin,
            len: HEADER as u64 + self.body.len - begin,
            entries: items.len() as u32,
            buckets: index.pilots.len() as u32,
            slots: index.slots,
            seed: index.seed,
        });
        Ok(())
    }

    /// Ends the table and moves it into place: from then on, and not before, it is there, whatever
    /// happens to the machine.
    pub(super) fn finish(mut self) -> Result<(), TableError> {
        debug_assert_eq!(self.directory.len(), 1 << self.header.part_bits, "every part is there");
        self.body.flush_all()?;
        let mut tail = Vec::new();
        self.directory.iter().for_each(|part| part.write(&mut tail));
        self.body.sums.iter().for_each(|sum| tail.extend_from_slice(&sum.to_le_bytes()));
        tail.extend(self.encoder.iter().flat_map(|encoder| &encoder.dictionary));
        self.header.body = self.body.len;
        self.header.tail = tail.len() as u64;
        self.header.tail_sum = xxh3_64(&tail);
        let Body { file, temporary, .. } = &mut self.body;
        let mut end = || {
            file.write_all(&tail)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&self.header.to_bytes())?;
            file.sync_all()?;
            atomic_files::rename(&temporary.0, &self.path)
        };
        end().map_err(|error: io::Error| TableError::io(&self.path, error))?;
        Ok(())
    }
}

/// Appends a block of these entries.
fn put_block(block: &[&Item<'_>], out: &mut Vec<u8>, encoder: Option<&mut FrameEncoder>) -> Result<(), TableError> {
    let width = block.iter().map(|item| width_for(item.key.len().max(item.value.len()))).max().unwrap_or(1);
    let put_len = |len: usize, width: usize, out: &mut Vec<u8>| out.extend_from_slice(&len.to_le_bytes()[..width]);
    out.push(width as u8);
    for item in block {
        put_len(item.key.len(), width, out);
        put_len(item.value.len(), width, out);
    }
    let Some(encoder) = encoder else {
        for item in block {
            out.extend_from_slice(item.key);
            out.extend_from_slice(item.value);
        }
        return Ok(());
    };
    block.iter().for_each(|item| out.extend_from_slice(item.key));
    let values: Vec<_> = block.iter().map(|item| item.value).collect();
    let (mut frames, mut lens) = (Vec::new(), Vec::new());
    encoder.put(&values, &mut frames, &mut lens)?;
    lens.into_iter().for_each(|len| put_len(len, frame_width(width), out));
    out.append(&mut frames);
    Ok(())
}

/// The body as it grows, and the checksums of its chunks.
struct Body {
    file: File,
    temporary: Temporary,
    /// Not written yet; begins with a chunk.
    pending: Vec<u8>,
    sums: Vec<u64>,
    len: u64,
}

/// Chunks that are written together.
const TOGETHER: usize = 16;

impl Body {
    fn failed(&self, error: io::Error) -> TableError {
        TableError::io(&self.temporary.0, error)
    }
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), TableError> {
        self.pending.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        if self.pending.len() >= TOGETHER * CHUNK { self.flush(self.pending.len() / CHUNK * CHUNK) } else { Ok(()) }
    }
    fn flush_all(&mut self) -> Result<(), TableError> {
        self.flush(self.pending.len())
    }
    fn flush(&mut self, len: usize) -> Result<(), TableError> {
        self.sums.extend(self.pending[..len].chunks(CHUNK).map(xxh3_64));
        self.file.write_all(&self.pending[..len]).map_err(|error| self.failed(error))?;
        self.pending.drain(..len);
        Ok(())
    }
}
