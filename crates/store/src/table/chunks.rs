//! A table's file as it is mapped: nothing of its body is given out before the chunk that it lies
//! in was compared with its checksum.
use super::{
    error::TableError,
    format::{CHUNK, CHUNK_BITS, HEADER, u64_at},
};
use memmap2::{Advice, Mmap};
use prefetch_index::prefetch_index;
use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use xxhash_rust::xxh3::xxh3_64;

/// Why a lookup went no further.
pub(super) enum Stop {
    /// This range of the body has not been checked.
    Unchecked(Range<usize>),
    Damaged(TableError),
}

/// The file, and which chunks of its body are as they were written.
#[derive(Debug)]
pub(super) struct Chunks {
    map: Mmap,
    path: PathBuf,
    /// Where the body ends.
    end: usize,
    /// Where the checksums of its chunks begin.
    sums_at: usize,
    /// A bit for each chunk that has been checked.
    checked: Box<[AtomicU64]>,
    /// All of them have.
    all_checked: AtomicBool,
}

impl Chunks {
    /// `sums_at` and the checksums behind it are within the map.
    pub(super) fn new(map: Mmap, path: &Path, end: usize, sums_at: usize) -> Chunks {
        let chunks = (end - HEADER).div_ceil(CHUNK);
        let checked = (0..chunks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Chunks { map, path: path.to_owned(), end, sums_at, checked, all_checked: AtomicBool::new(chunks == 0) }
    }

    /// Where it was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
    /// Bytes of the file.
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Where these bytes, if they are of this file, are in it.
    pub(super) fn range_of(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let from = (bytes.as_ptr() as usize).wrapping_sub(self.map.as_ptr() as usize);
        let range = from..from.wrapping_add(bytes.len());
        self.map.get(range.clone()).map(|_| range)
    }
    /// What [`range_of`](Self::range_of) found: it was given out, so it was checked.
    pub(super) fn given_out(&self, range: Range<usize>) -> &[u8] {
        &self.map[range]
    }

    /// Bytes of the body that have been checked.
    #[inline]
    pub(super) fn bytes(&self, range: Range<usize>) -> Result<&[u8], Stop> {
        if !self.all_checked.load(Relaxed) && !self.is_checked(&range) {
            return Err(Stop::Unchecked(range));
        }
        // Within the body, as all places are compared with their part's end, and that with the body's.
        self.map.get(range).ok_or_else(|| self.stop("body", HEADER, "a place is beyond its end"))
    }

    #[inline]
    pub(super) fn prefetch(&self, at: usize) {
        prefetch_index(&self.map, at);
    }

    /// Asks the system to have all of the file in memory.
    pub(super) fn advise_needed(&self) {
        // Only advice: without it pages come as they are touched.
        let _ = self.map.advise(Advice::WillNeed);
    }

    pub(super) fn stop(&self, section: &'static str, at: usize, what: &'static str) -> Stop {
        Stop::Damaged(TableError::damaged(section, at as u64, what).of(&self.path))
    }

    #[inline]
    fn is_checked(&self, range: &Range<usize>) -> bool {
        let chunks =
            range.start.saturating_sub(HEADER) >> CHUNK_BITS..=range.end.saturating_sub(HEADER + 1) >> CHUNK_BITS;
        chunks
            .into_iter()
            .all(|chunk| self.checked.get(chunk / 64).is_some_and(|bits| bits.load(Relaxed) >> (chunk % 64) & 1 == 1))
    }

    /// Checks the chunks of a range that have not been checked.
    pub(super) fn check(&self, range: Range<usize>) -> Result<(), TableError> {
        for chunk in (range.start - HEADER) / CHUNK..=(range.end - 1 - HEADER) / CHUNK {
            if !self.is_checked(&(HEADER + chunk * CHUNK..HEADER + chunk * CHUNK + 1)) {
                self.check_chunk(chunk)?;
            }
        }
        Ok(())
    }

    /// Checks every chunk, whatever was checked before: the file may have been damaged since.
    pub(super) fn check_all(&self) -> Result<(), TableError> {
        for begin in (HEADER..self.end).step_by(CHUNK) {
            self.check_chunk((begin - HEADER) / CHUNK)?;
        }
        self.all_checked.store(true, Relaxed);
        Ok(())
    }

    fn check_chunk(&self, chunk: usize) -> Result<(), TableError> {
        let begin = HEADER + chunk * CHUNK;
        let end = (begin + CHUNK).min(self.end);
        let damaged = |what: String| Err(TableError::damaged("body", begin as u64, what).of(&self.path));
        if begin >= end {
            return damaged("a place is beyond its end".into());
        }
        if xxh3_64(&self.map[begin..end]) != u64_at(&self.map, self.sums_at + 8 * chunk) {
            self.all_checked.store(false, Relaxed);
            self.checked[chunk / 64].fetch_and(!(1 << (chunk % 64)), Relaxed);
            return damaged(format!("bytes {begin} to {end} do not have their checksum"));
        }
        self.checked[chunk / 64].fetch_or(1 << (chunk % 64), Relaxed);
        Ok(())
    }
}

/// Maps a file.
#[expect(unsafe_code, reason = "a map is read as memory that does not change, which only the file's users can promise")]
pub(super) fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: no process changes a table's file in place: Larder writes a new one and renames it, and
    // says so to users (docs/tables.md). One who does it nevertheless gets wrong bytes, or, where
    // it was shortened, SIGBUS; no place that is read from the map is used before it has been
    // compared with the map's own length, so nothing is read outside of it.
    unsafe { Mmap::map(file) }
}
