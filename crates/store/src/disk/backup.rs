//! A store in one file: all live entries as they were at one moment, in key order, under checksums.
//!
//! ```text
//!  file:   "larder backup\n", version (4), chunk …, end
//!  chunk:  length (4, not 0), xxh3 of the content (8), content: entry …
//!  entry:  key length (2), value length (4), key, value as in format.rs (with its expiry)
//!  end:    0 (4), number of entries (8), xxh3 of all that (8)
//! ```
//! Numbers are little-endian. A file without its end was interrupted; it is written under another
//! name until it is whole.
use super::{
    dir::{Dir, database},
    format,
    settings::StoreSettings,
    tree::{Range, Tree, TreeWalk},
};
use crate::{atomic_files, clock, magic::BACKUP};
use bytes::Bytes;
use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    ops::{Bound, ControlFlow},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};
use xxhash_rust::xxh3::xxh3_64;

const VERSION: u32 = 1;
/// A chunk ends with the entry that brings it to this size.
const CHUNK: usize = 1 << 20;
/// No chunk is larger: one value, its key, and what came before it.
const MOST: usize = (512 << 20) + (64 << 10) + CHUNK + 64;

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Entries.
    pub entries: u64,
    /// Bytes of the backup.
    pub bytes: u64,
}

impl Tree {
    /// Writes the entries as they are now into a file, which must not exist. There is none if it is
    /// told to `stop` meanwhile. `progress` is told how many entries it has.
    ///
    /// # Errors
    /// They name the file or the store. [`AlreadyExists`](io::ErrorKind::AlreadyExists): the file
    /// does, or another was made meanwhile.
    pub fn backup(&self, to: &Path, stop: &AtomicBool, progress: &mut dyn FnMut(u64)) -> io::Result<Copied> {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", to.display()));
        if to.exists() {
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, "is there already")));
        }
        let mut copied = Copied::default();
        let mut unreadable = Ok(());
        let written = atomic_files::write_new_with(to, |file| {
            let mut out = BufWriter::new(file);
            out.write_all(BACKUP)?;
            out.write_all(&VERSION.to_le_bytes())?;
            let (mut chunk, mut failed) = (Vec::new(), Ok(()));
            let all = Range { start: Bound::Unbounded, end: Bound::Unbounded, reverse: false };
            unreadable = self.walk(all, clock::now(), |TreeWalk { key, stored, live }| {
                if stop.load(Relaxed) {
                    failed = Err(io::Error::other("the store is closed"));
                    return ControlFlow::Break(());
                }
                if live.is_none() {
                    return ControlFlow::Continue(());
                }
                chunk.extend_from_slice(&(key.len() as u16).to_le_bytes());
                chunk.extend_from_slice(&(stored.len() as u32).to_le_bytes());
                chunk.extend_from_slice(&key);
                chunk.extend_from_slice(&stored);
                copied.entries += 1;
                if chunk.len() >= CHUNK {
                    failed = write_chunk(&mut out, &mut chunk);
                    progress(copied.entries);
                }
                if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            failed?;
            if let Err(text) = &unreadable {
                return Err(io::Error::other(text.clone()));
            }
            if !chunk.is_empty() {
                write_chunk(&mut out, &mut chunk)?;
            }
            let end = end(copied.entries);
            out.write_all(&end)?;
            out.write_all(&xxh3_64(&end).to_le_bytes())?;
            out.flush()
        });
        unreadable.map_err(io::Error::other)?;
        written.map_err(failed)?;
        copied.bytes = std::fs::metadata(to).map_err(failed)?.len();
        Ok(copied)
    }
}

fn write_chunk(out: &mut impl Write, chunk: &mut Vec<u8>) -> io::Result<()> {
    out.write_all(&(chunk.len() as u32).to_le_bytes())?;
    out.write_all(&xxh3_64(chunk).to_le_bytes())?;
    out.write_all(chunk)?;
    chunk.clear();
    Ok(())
}
fn end(entries: u64) -> [u8; 12] {
    let mut end = [0; 12];
    end[4..].copy_from_slice(&entries.to_le_bytes());
    end
}

/// Makes a store in `dir`, which must be empty or not there, of a backup. There is a whole store or
/// none, whatever happens. `progress` is told how many bytes of the backup of how many are loaded.
///
/// # Errors
/// A text that names the file and the byte at which it is damaged, or the directory.
pub fn restore(
    from: &Path,
    dir: &Path,
    settings: &StoreSettings,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Copied, String> {
    let failed = |error: io::Error| format!("{}: {error}", from.display());
    let file = File::open(from).map_err(failed)?;
    let total = file.metadata().map_err(failed)?.len();
    let mut file = BufReader::new(file);
    // Beside it, also if it is written with a slash at its end.
    let mut new = dir.components().as_path().as_os_str().to_os_string();
    new.push(".restoring");
    let new = PathBuf::from(new);
    let in_new = |error: io::Error| format!("{}: {error}", new.display());
    if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!("{}: is not empty", dir.display()));
    }
    // Another restore may write it.
    let store = Dir::lock(&new)?;
    let half = Half(&new);
    let left_over = database(&new);
    if left_over.exists() {
        std::fs::remove_dir_all(left_over).map_err(in_new)?;
    }
    let tree = Tree::open(&store, settings)?;
    let copied = load(&mut file, &tree, &mut |loaded| progress(loaded, total))
        .map_err(|(at, what)| format!("{}: byte {at}: {what}", from.display()))?;
    tree.flush()?;
    drop(tree);
    let _ = std::fs::remove_dir(dir);
    atomic_files::rename(&new, dir).map_err(in_new)?;
    std::mem::forget(half);
    Ok(copied)
}

/// A store that is removed unless it was renamed. Its lock is held for longer.
struct Half<'a>(&'a Path);
impl Drop for Half<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

type Damage = (u64, String);

fn load(file: &mut impl Read, tree: &Tree, progress: &mut dyn FnMut(u64)) -> Result<Copied, Damage> {
    let mut at = 0;
    if take(file, &mut at, BACKUP.len())? != BACKUP {
        return Err((0, "is not a Larder backup".to_string()));
    }
    let version = number(&take(file, &mut at, 4)?);
    if version != u64::from(VERSION) {
        return Err((BACKUP.len() as u64, format!("is of version {version}; this Larder reads version {VERSION}")));
    }
    let mut entries = 0;
    loop {
        let begin = at;
        let length = number(&take(file, &mut at, 4)?) as usize;
        if length > MOST {
            return Err((begin, format!("a chunk of {length} bytes is damaged")));
        }
        let hash = take(file, &mut at, 8)?;
        if length == 0 {
            let sealed = take(file, &mut at, 8)?;
            let whole = end(number(&hash));
            if xxh3_64(&whole).to_le_bytes() != sealed[..] || number(&hash) != entries {
                return Err((begin, "the end is damaged".to_string()));
            }
            if take(file, &mut at, 1).is_ok() {
                return Err((at - 1, "there is more behind the end".to_string()));
            }
            return Ok(Copied { entries, bytes: at });
        }
        let chunk = take(file, &mut at, length)?;
        if xxh3_64(&chunk).to_le_bytes() != hash[..] {
            return Err((begin, "a chunk is damaged (checksum)".to_string()));
        }
        let writes = parse(Bytes::from(chunk)).ok_or_else(|| (begin, "a chunk cannot be read".to_string()))?;
        entries += writes.len() as u64;
        tree.commit(writes, false).map_err(|error| (begin, error))?;
        progress(at);
    }
}

/// The entries of a chunk; `None`: it is not made of entries.
fn parse(mut chunk: Bytes) -> Option<HashMap<Bytes, Option<Bytes>>> {
    let mut writes = HashMap::new();
    while !chunk.is_empty() {
        let mut part = |length: usize| (chunk.len() >= length).then(|| chunk.split_to(length));
        let (key, value) = (number(&part(2)?) as usize, number(&part(4)?) as usize);
        let (key, value) = (part(key)?, part(value)?);
        format::expiry(&value)?;
        format::fits(&key).then_some(())?;
        writes.insert(key, Some(value));
    }
    Some(writes)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
fn take(file: &mut impl Read, at: &mut u64, length: usize) -> Result<Vec<u8>, Damage> {
    let mut bytes = Vec::new();
    let read = file.take(length as u64).read_to_end(&mut bytes);
    match read {
        Ok(n) if n == length => {
            *at += length as u64;
            Ok(bytes)
        }
        Ok(n) => Err((*at + n as u64, "the file ends here: it is not whole".to_string())),
        Err(error) => Err((*at, error.to_string())),
    }
}
