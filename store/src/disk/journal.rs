//! fjall's journals, read without fjall, which ends quietly at the first batch that it cannot read:
//! a damaged byte would take every later write with it. Here the end of a journal is told from
//! damage in its middle.
//!
//! ```text
//!  batch:  1, items (4), sequence number (8)   item …   3, xxh3 of the items (8), "FJL" 3
//!  item:   2, type (1), compression (1), keyspace (8), key length (2), value length (4), length on disk (4), key, value
//!     or:  4, keyspace (8)
//! ```
//! Numbers are little-endian. A journal is preallocated with zeros, and cut where it ends when it
//! is opened again.
use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::Xxh3Default;

const END: [u8; 4] = *b"FJL\x03";
/// What one missing page of a file that was not synced looks like.
const PAGE: u64 = 4096;

/// What there is in a journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Journal {
    /// Where its last complete batch ends.
    pub(super) end: u64,
    /// How many bytes follow, up to the last that is not zero: a write that was interrupted.
    pub(super) torn: u64,
}

/// The journals with their numbers, in order.
pub(super) fn list(db: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for file in fs::read_dir(db)? {
        let path = file?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        found.extend(number.map(|number| (number, path)));
    }
    found.sort();
    Ok(found)
}

/// Reads a journal to its end. The inner error: where and how it is damaged.
pub(super) fn read(path: &Path) -> io::Result<Result<Journal, String>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut reader = Reader { at: 0, length, file: BufReader::with_capacity(1 << 16, file) };
    let mut end = 0;
    while reader.batch()? {
        end = reader.at;
    }
    let rest = reader.rest(end)?;
    Ok(match rest {
        Rest { last: None, .. } => Ok(Journal { end, torn: 0 }),
        Rest { later: Some(later), page_lost: false, .. } => {
            Err(format!("the batch at byte {end} is damaged; later ones, from byte {later} on, are whole"))
        }
        // A write begins with a 1. A page that was not synced may be missing after a power cut, with what follows still
        // there.
        Rest { first, page_lost: false, .. } if first != 1 => {
            Err(format!("byte {end} is {first}, where a batch begins with 1 or there is nothing"))
        }
        Rest { last: Some(last), .. } => Ok(Journal { end, torn: last + 1 - end }),
    })
}

struct Reader {
    file: BufReader<File>,
    at: u64,
    length: u64,
}
/// What follows the last complete batch.
struct Rest {
    first: u8,
    /// The last byte that is not zero.
    last: Option<u64>,
    /// A later batch that is complete.
    later: Option<u64>,
    /// A page of zeros lies between.
    page_lost: bool,
}

impl Reader {
    /// False: there is no such bytes, or not all.
    fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        if self.length - self.at < N as u64 {
            return Ok(None);
        }
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(Some(bytes))
    }
    /// Reads a batch; false: here is none that is complete and right.
    fn batch(&mut self) -> io::Result<bool> {
        let Some([1, count @ ..]) = self.take::<13>()? else {
            return Ok(false);
        };
        let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]);
        let mut hash = Xxh3Default::new();
        for _ in 0..count {
            if !self.item(&mut hash)? {
                return Ok(false);
            }
        }
        let Some([3, end @ ..]) = self.take::<13>()? else {
            return Ok(false);
        };
        let (digest, magic) = end.split_at(8);
        Ok(digest == hash.digest().to_le_bytes() && magic == END)
    }
    fn item(&mut self, hash: &mut Xxh3Default) -> io::Result<bool> {
        let Some([tag]) = self.take()? else {
            return Ok(false);
        };
        hash.update(&[tag]);
        match tag {
            4 => match self.take::<8>()? {
                Some(keyspace) => hash.update(&keyspace),
                None => return Ok(false),
            },
            2 => {
                let Some(head) = self.take::<20>()? else {
                    return Ok(false);
                };
                hash.update(&head);
                let key = u16::from_le_bytes([head[10], head[11]]);
                let value = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
                let mut left = u64::from(key) + u64::from(value);
                if self.length - self.at < left {
                    return Ok(false);
                }
                let mut part = [0; 4096];
                while left > 0 {
                    let part = &mut part[..left.min(4096) as usize];
                    self.file.read_exact(part)?;
                    hash.update(part);
                    self.at += part.len() as u64;
                    left -= part.len() as u64;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
    fn seek(&mut self, to: u64) -> io::Result<()> {
        self.at = to;
        self.file.seek(SeekFrom::Start(to)).map(drop)
    }
    fn rest(&mut self, from: u64) -> io::Result<Rest> {
        self.seek(from)?;
        let mut rest = Rest { first: 0, last: None, later: None, page_lost: false };
        let mut zeros_from = from;
        let mut candidates = Vec::new();
        let mut at = from;
        let mut part = vec![0; 1 << 16];
        loop {
            let n = self.file.read(&mut part)?;
            if n == 0 {
                break;
            }
            for (offset, byte) in part[..n].iter().enumerate() {
                let here = at + offset as u64;
                if *byte == 0 {
                    continue;
                }
                if here == from {
                    rest.first = *byte;
                }
                // A whole page of zeros before this.
                rest.page_lost |= here / PAGE > zeros_from.div_ceil(PAGE);
                zeros_from = here + 1;
                rest.last = Some(here);
                if *byte == 1 && here > from {
                    candidates.push(here);
                }
            }
            at += n as u64;
        }
        for candidate in candidates {
            self.seek(candidate)?;
            if self.batch()? {
                rest.later = Some(candidate);
                break;
            }
        }
        Ok(rest)
    }
}
