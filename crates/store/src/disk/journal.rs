//! fjall's journals, read without fjall, which ends quietly at the first batch that it cannot read:
//! a damaged byte would take every later write with it. Here the end of a journal is told from
//! damage in its middle.
//!
//! ```text
//!  batch:  1, items (4), sequence number (8)   item …   3, xxh3 of the items (8), "FJL" 3
//!  item:   2, type (1), compression (1), keyspace (8), key length (2), value length (4), length on disk (4), key, value
//!     or:  4, keyspace (8)
//! ```
//! Numbers are little-endian. A type is 0 or 1 (deleted), a compression 0: Larder writes no others. A
//! journal is preallocated with zeros, and cut where it ends when it is opened again.
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
    let mut reader = Reader::new(file, length, 1 << 16);
    let mut end = 0;
    while reader.batch()? {
        end = reader.at;
    }
    let rest = reader.rest(end, Reader::new(File::open(path)?, length, 1 << 12))?;
    Ok(match rest {
        Rest { last: None, .. } => Ok(Journal { end, torn: 0 }),
        Rest { later: Some(later), page_lost: false, .. } => {
            Err(format!("the batch at byte {end} is damaged; later ones, from byte {later} on, are whole"))
        }
        Rest { is_undecided: true, page_lost: false, .. } => Err(format!(
            "the bytes from {end} on look like batches, but none of the first is whole: a write that was interrupted \
             cannot be told from damage; to open the store without them, cut the file there: \
             truncate --size={end} {}",
            path.display()
        )),
        // A write begins with a 1. A page that was not synced may be missing after a power cut, with what follows still
        // there.
        Rest { first, page_lost: false, .. } if first != 1 => {
            Err(format!("byte {end} is {first}, where a batch begins with 1 or there is nothing"))
        }
        Rest { last: Some(last), .. } => Ok(Journal { end, torn: last + 1 - end }),
    })
}

/// Cuts what an interrupted write has left behind the last batch. fjall would do that too, but
/// allocates the lengths that it finds there, 4 GiB for a value, before it reads.
pub(super) fn cut(path: &Path, end: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.set_len(end)?;
    file.sync_all()
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
    /// There may be later batches: so much looks like one that not all of it was read.
    is_undecided: bool,
    /// A page of zeros lies between.
    page_lost: bool,
}

/// The bytes before a key: those of a batch's begin and of its first item.
const HEAD: usize = 13 + 21;
/// A key in an interrupted write can look like batches that reach to its end: reading each of them
/// would take the square of its length. So no more than this is read to find a later batch, and
/// this many times the rest.
const TRIES: u64 = 16 << 20;
const TIMES: u64 = 4;

/// Whether these bytes can be the start of a batch, of which there are `left` with what follows.
fn may_begin_a_batch(head: &[u8], left: u64) -> bool {
    match head.split_first_chunk::<13>() {
        Some(([1, ..], [2, item @ ..])) => item.first_chunk::<20>().is_some_and(|item| {
            let value = u32::from_le_bytes([item[16], item[17], item[18], item[19]]);
            is_item(item) && HEAD as u64 + u64::from(value) < left
        }),
        Some(([1, ..], [4, ..])) => true,
        _ => false,
    }
}
/// Whether an item that Larder wrote begins like this.
fn is_item(head: &[u8; 20]) -> bool {
    head[0] <= 1 && head[1] == 0 && head[12..16] == head[16..20]
}

impl Reader {
    fn new(file: File, length: u64, buffer: usize) -> Reader {
        Reader { at: 0, length, file: BufReader::with_capacity(buffer, file) }
    }
    /// `None`: fewer bytes are left.
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
                if !is_item(&head) {
                    return Ok(false);
                }
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
    /// What follows the last complete batch; `other` reads the same file.
    fn rest(&mut self, from: u64, mut other: Reader) -> io::Result<Rest> {
        self.seek(from)?;
        let mut rest = Rest { first: 0, last: None, later: None, is_undecided: false, page_lost: false };
        let mut zeros_from = from;
        let mut left = TRIES + TIMES * (self.length - from);
        let mut at = from;
        // The last bytes of a part are looked at again with those that follow them.
        let mut part = vec![0; HEAD + (1 << 16)];
        let mut kept = 0;
        loop {
            let n = self.file.read(&mut part[kept..])?;
            let (known, seen) = (kept + n, if n == 0 { kept } else { (kept + n).saturating_sub(HEAD) });
            for offset in 0..seen {
                let here = at + offset as u64;
                if part[offset] == 0 {
                    continue;
                }
                if here == from {
                    rest.first = part[offset];
                }
                // A whole page of zeros before this.
                rest.page_lost |= here / PAGE > zeros_from.div_ceil(PAGE);
                zeros_from = here + 1;
                rest.last = Some(here);
                let is_open = rest.later.is_none() && !rest.is_undecided && here > from;
                if is_open && may_begin_a_batch(&part[offset..known], self.length - here) {
                    other.seek(here)?;
                    if other.batch()? {
                        rest.later = Some(here);
                    }
                    left = left.saturating_sub((other.at - here).max(1 << 12));
                    rest.is_undecided = left == 0;
                }
            }
            if n == 0 {
                return Ok(rest);
            }
            part.copy_within(seen..known, 0);
            (at, kept) = (at + seen as u64, known - seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(value: &[u8], length: u32) -> Vec<u8> {
        let length = length.to_le_bytes();
        [&[2, 0, 0][..], &7u64.to_le_bytes(), &1u16.to_le_bytes(), &length, &length, b"k", value].concat()
    }
    fn batch(items: &[Vec<u8>]) -> Vec<u8> {
        let content = items.concat();
        let begin = [&[1][..], &(items.len() as u32).to_le_bytes(), &9u64.to_le_bytes()].concat();
        let digest = xxhash_rust::xxh3::xxh3_64(&content).to_le_bytes();
        [&begin[..], &content, &[3], &digest, &END].concat()
    }
    fn read_bytes(bytes: &[u8]) -> Result<Journal, String> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("0.jnl");
        fs::write(&path, bytes).expect("written");
        read(&path).expect("read")
    }

    #[test]
    fn an_interrupted_write_that_looks_like_batches_is_read_in_bounded_steps() {
        let whole = batch(&[item(b"v", 1)]);
        let end = whole.len() as u64;
        // Each begins a batch whose value reaches to the end of the file, or beyond it.
        let begins = |size: usize, length: u32| {
            let begin = [&[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &item(b"", length)].concat();
            begin.repeat(size / begin.len())
        };
        let huge = [&whole[..], &begins(1 << 20, u32::MAX)].concat();
        let cut = |torn| Ok(Journal { end, torn });
        assert_eq!(read_bytes(&huge), cut(huge.len() as u64 - end), "too long for the file: told by its head");
        let undecided = [&whole[..], &begins(1 << 20, 900_000), &[9; 900_000]].concat();
        let error = read_bytes(&undecided).expect_err("refused");
        assert!(error.contains("look like batches") && error.contains(&format!("--size={end}")), "{error}");
        // A few of them are read.
        let few = [&whole[..], &begins(700, 900_000), &[9; 900_000]].concat();
        assert_eq!(read_bytes(&few), cut(few.len() as u64 - end));
    }

    #[test]
    fn a_later_batch_is_found_wherever_it_lies() {
        let (whole, later) = (batch(&[item(b"v", 1)]), batch(&[item(b"w", 1), [&[4][..], &[1; 8]].concat()]));
        for noise in [1, 33, 34, 35, 65_500, 65_536, 65_570, 200_000] {
            let mut bytes = [&whole[..], &[1], &vec![9; noise], &later].concat();
            let at = whole.len() + 1 + noise;
            let error = read_bytes(&bytes).expect_err("damage");
            assert!(error.contains(&format!("from byte {at} on")), "{error}");
            // Not whole: an interrupted write.
            bytes.pop();
            assert_eq!(read_bytes(&bytes).expect("cut").torn, (bytes.len() - whole.len()) as u64);
        }
    }

    #[test]
    fn batches_that_larder_does_not_write_are_none() {
        let whole = batch(&[item(b"v", 1)]);
        // Types, compression, and a length that differs from the one on disk.
        for (at, to) in [(1, 2), (1, 4), (1, 255), (2, 1), (2, 9), (13, 9)] {
            let mut strange = item(b"v", 1);
            strange[at] = to;
            let bytes = [&whole[..], &batch(&[strange])].concat();
            let torn = (bytes.len() - whole.len()) as u64;
            assert_eq!(read_bytes(&bytes), Ok(Journal { end: whole.len() as u64, torn }), "{at} {to}");
        }
    }
}
