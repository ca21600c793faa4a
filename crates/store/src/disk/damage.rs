//! Finds damaged files, by name, without opening the store.
//!
//! Every byte that counts is under a checksum: `current` holds that of its version file `vN`, which
//! holds that of each table file; journals have one per batch. What is written at a clean end of
//! the process (`closed`) says where the journal ends, so that its last batch cannot be damaged
//! unseen either.
use super::{
    dir::{Dir, database},
    format,
    journal::{self, Journal},
    tree::panic_text,
};
use crate::atomic_files;
use lsm_tree::{Cache, Checksum, Metrics, SeqNo, Table, table::filter::standard_bloom};
use std::{
    cmp::Reverse,
    collections::HashSet,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};
use xxhash_rust::xxh3::Xxh3Default;

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// What is read at every opening anyway: all but the tables.
    Opening,
    /// Everything.
    All,
}

/// What a check has seen.
#[derive(Debug, Default)]
pub struct Report {
    /// Damaged files, each with what is wrong.
    pub problems: Vec<String>,
    /// What is no damage but worth knowing.
    pub notes: Vec<String>,
    /// Files read.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The last journal and where it ends, if an interrupted write follows there.
    pub(super) interrupted: Option<(PathBuf, u64)>,
}

/// Reads every file of the store in `dir`, which must not be open. `progress` is told how many bytes
/// of how many have been read.
///
/// # Errors
/// A text: the directory is in use, no store, or of another version.
pub fn verify(dir: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Report, String> {
    if !dir.is_dir() {
        let what = if dir.exists() { "is not a directory" } else { "there is no such directory" };
        return Err(format!("{}: {what}", dir.display()));
    }
    let dir = Dir::lock(dir)?;
    let total = bytes_below(dir.path());
    Ok(check(dir.path(), Depth::All, &mut |read| progress(read.min(total), total)))
}

/// Bytes of all files below a folder, as far as it can be read.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_below(&entry.path()),
        about => about.map_or(0, |about| about.len()),
    });
    bytes.sum()
}

/// `progress` is told how many bytes have been read.
pub(super) fn check(dir: &Path, depth: Depth, progress: &mut dyn FnMut(u64)) -> Report {
    let mut report = Report::default();
    if let Err((path, error)) = report.check(dir, depth, progress) {
        report.problem(&path, &error.to_string());
    }
    report
}

const NO_SENSE: &str = "makes no sense, though its checksums may be right";

type Failed = (PathBuf, io::Error);
fn at(path: &Path) -> impl FnOnce(io::Error) -> Failed + '_ {
    |error| (path.to_path_buf(), error)
}

impl Report {
    fn problem(&mut self, path: &Path, what: &str) {
        self.problems.push(format!("{}: {what}", path.display()));
    }

    fn check(&mut self, dir: &Path, depth: Depth, progress: &mut dyn FnMut(u64)) -> Result<(), Failed> {
        let db = database(dir);
        if !db.exists() {
            // To an opening that is nothing new, unless it was begun.
            if depth == Depth::Opening && !dir.join("db.new").exists() {
                return Ok(());
            }
            self.notes.push(format!(
                "{}: was interrupted when it was made; it is created again when it is opened",
                dir.display()
            ));
            return Ok(());
        }
        let version = db.join("version");
        if self.read(&version)? != b"FJL\x03" {
            self.problem(&version, "is not that of fjall 3");
        }
        self.journals(dir, &db)?;
        let keyspaces = db.join("keyspaces");
        let (whole, lacking): (Vec<_>, Vec<_>) =
            sorted(&keyspaces)?.into_iter().partition(|keyspace| keyspace.join("current").exists());
        for keyspace in &whole {
            self.keyspace(keyspace, depth, progress)?;
        }
        // fjall deletes what lacks it, as begun and not finished. Its own, 0, never is, nor are all others:
        // a clear makes the new one before it takes the old one away.
        let own = keyspaces.join("0");
        if !whole.contains(&own) {
            self.problem(&own.join("current"), "is missing");
        }
        let mut lacking = lacking.into_iter().filter(|keyspace| *keyspace != own);
        if whole.iter().all(|keyspace| *keyspace == own) {
            self.problem(&lacking.next().unwrap_or(keyspaces).join("current"), "is missing");
        }
        for keyspace in lacking {
            self.notes.push(format!("{}: was begun or deleted; it holds nothing", keyspace.display()));
        }
        Ok(())
    }

    fn read(&mut self, path: &Path) -> Result<Vec<u8>, Failed> {
        let bytes = fs::read(path).map_err(at(path))?;
        self.files += 1;
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }

    fn journals(&mut self, dir: &Path, db: &Path) -> Result<(), Failed> {
        let journals = journal::list(db).map_err(at(db))?;
        let closed = closed(dir).map_err(at(&dir.join(CLOSED)))?;
        for (position, (number, path)) in journals.iter().enumerate() {
            let is_last = position + 1 == journals.len();
            self.files += 1;
            self.bytes += fs::metadata(path).map_err(at(path))?.len();
            let Journal { end, torn } = match journal::read(path).map_err(at(path))? {
                Ok(journal) => journal,
                Err(damage) => {
                    self.problem(path, &damage);
                    continue;
                }
            };
            match closed {
                Some((closed, whole)) if closed == *number && whole != end => {
                    self.problem(
                        path,
                        &format!("is damaged at byte {end}: it was whole to byte {whole} when the store was closed"),
                    );
                }
                None if torn > 0 && is_last => {
                    let what = "bytes of a write that was interrupted, which are passed over";
                    self.notes.push(format!("{}: ends with {torn} {what}", path.display()));
                    self.interrupted = Some((path.clone(), end));
                }
                // It was synced before the next one was begun, or at the close.
                _ if torn > 0 => self.problem(path, &format!("byte {end} is damaged")),
                _ => {}
            }
        }
        // fjall removes a journal when its content is in tables, but never the last.
        if let (Some((closed, _)), last) = (closed, journals.last().map(|(number, _)| *number))
            && last.is_none_or(|last| last < closed)
        {
            self.problem(&db.join(format!("{closed}.jnl")), "is missing");
        }
        Ok(())
    }

    fn keyspace(&mut self, keyspace: &Path, depth: Depth, progress: &mut dyn FnMut(u64)) -> Result<(), Failed> {
        let current = keyspace.join("current");
        let text = self.read(&current)?;
        let (Some(version), Some(&hash), [_, _, ..]) =
            (text.first_chunk(), text.get(8..24).and_then(<[u8]>::first_chunk), &text[..])
        else {
            self.problem(&current, "is too short");
            return Ok(());
        };
        let path = keyspace.join(format!("v{}", u64::from_le_bytes(*version)));
        if text.get(24..) != Some(&[0]) || !path.exists() {
            self.problem(&current, "is damaged");
            return Ok(());
        }
        let content = self.read(&path)?;
        let mut used: HashSet<PathBuf> = [current.clone(), path.clone(), keyspace.join("tables")].into();
        if xxhash_rust::xxh3::xxh3_128(&content) != u128::from_le_bytes(hash) {
            self.problem(&path, &format!("is damaged, or {} is (checksum)", current.display()));
            return Ok(());
        }
        if let Err(what) = check_archive(&mut io::Cursor::new(&content)).map_err(at(&path))? {
            self.problem(&path, what);
            return Ok(());
        }
        let named = catch_unwind(|| tables(&path, &content))
            .unwrap_or_else(|panic| Err(io::Error::other(format!("cannot be read: {}", panic_text(&*panic)))));
        for (number, hash) in named.map_err(at(&path))? {
            let table = keyspace.join("tables").join(number.to_string());
            used.insert(table.clone());
            let archive = File::open(&table).and_then(|mut file| check_archive(&mut file));
            match archive.and_then(|archive| Ok((archive, fs::metadata(&table)?))) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.problem(&table, "is missing"),
                Err(error) => return Err((table, error)),
                Ok((Err(what), _)) => self.problem(&table, what),
                // fjall opens it next, and a panic in there ends the process: its destructors panic again.
                Ok(_) if depth == Depth::Opening => {
                    if let Err(what) = caught(|| open_table(&table, hash).map(drop)) {
                        self.problem(&table, &format!("{NO_SENSE}: {what}"));
                    }
                }
                Ok((Ok(()), meta)) => {
                    self.files += 1;
                    let before = self.bytes;
                    self.bytes += meta.len();
                    if hash_of(&table, &mut |read| progress(before + read)).map_err(at(&table))? != hash {
                        self.problem(&table, "is damaged (checksum)");
                    } else if let Err(what) = read_table(&table, hash, !is_own(keyspace)) {
                        self.problem(&table, &format!("{NO_SENSE}: {what}"));
                    }
                }
            }
        }
        for path in sorted(keyspace)?.into_iter().chain(sorted(&keyspace.join("tables"))?) {
            if depth == Depth::All && !used.contains(&path) {
                self.notes.push(format!("{}: is not in use any more", path.display()));
            }
        }
        Ok(())
    }
}

/// Whether the table of contents of a file of fjall (`sfa`) is in the file. `sfa` allocates as many
/// sections as it says, 200 GB at most, before it looks at their checksum; that ends the process.
///
/// ```text
///  contents: magic (4), sections (4), section: place (8), length (8), length of the name (2), name …
///  end:      magic (4), version (1), kind (1), checksum (16), place of the contents (8), length (8)
/// ```
fn check_archive(file: &mut (impl Read + Seek)) -> io::Result<Result<(), &'static str>> {
    const END: u64 = 38;
    const SECTION: u64 = 18;
    let length = file.seek(SeekFrom::End(0))?;
    let Some(end) = length.checked_sub(END) else { return Ok(Err("is too short")) };
    file.seek(SeekFrom::Start(end + 22))?;
    let place = u64::from_le_bytes(take(file)?);
    if place > end.saturating_sub(8) {
        return Ok(Err("is damaged: its table of contents is outside of it"));
    }
    file.seek(SeekFrom::Start(place + 4))?;
    let sections = u64::from(u32::from_le_bytes(take(file)?));
    Ok(match sections * SECTION <= end - place - 8 {
        true => Ok(()),
        false => Err("is damaged: its table of contents is longer than the file"),
    })
}

/// The tables that a version file names, with their checksums. The file itself is known to be
/// whole.
fn tables(path: &Path, content: &[u8]) -> io::Result<Vec<(u64, u128)>> {
    let bad = |what: &str| io::Error::other(format!("cannot be read: {what}"));
    let archive =
        sfa::Reader::from_reader(&mut io::Cursor::new(content)).map_err(|error| bad(&format!("{error:?}")))?;
    let section = archive.toc().section(b"tables").ok_or_else(|| bad("it names no tables"))?;
    let mut reader = section.buf_reader(path)?;
    let mut found = Vec::new();
    let [levels] = take(&mut reader)?;
    for _ in 0..levels {
        let [runs] = take(&mut reader)?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(take(&mut reader)?) {
                let number = u64::from_le_bytes(take(&mut reader)?);
                let [_kind] = take(&mut reader)?;
                let hash = u128::from_le_bytes(take(&mut reader)?);
                let _sequence = take::<8>(&mut reader)?;
                found.push((number, hash));
            }
        }
    }
    Ok(found)
}
fn take<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Whether this is the keyspace in which fjall keeps its own things.
fn is_own(keyspace: &Path) -> bool {
    keyspace.ends_with("0")
}

/// Reads all entries of a table, whose checksums are right: an attacker who writes another content
/// writes them too. Those of [`mod@format`] are ours.
fn read_table(path: &Path, hash: u128, are_ours: bool) -> Result<(), String> {
    caught(|| {
        let table = open_table(path, hash)?;
        let (mut entries, mut last) = (0, None);
        for entry in table.iter() {
            let entry = entry.map_err(|error| format!("{error:?}"))?;
            let place = (entry.key.user_key.clone(), Reverse(entry.key.seqno));
            if last.as_ref().is_some_and(|last| *last > place) {
                return Err("its keys are not in order".to_owned());
            }
            if !table.metadata.key_range.contains_key(&place.0) {
                return Err("a key is outside of its range".to_owned());
            }
            if are_ours && !entry.is_tombstone() && format::expiry(&entry.value).is_none() {
                return Err(format!("the entry of key `{}` is damaged", place.0.escape_ascii()));
            }
            let is_newest = last.as_ref().is_none_or(|(key, _)| *key != place.0);
            if is_newest {
                let found = table.get(&place.0, SeqNo::MAX, standard_bloom::Builder::get_hash(&place.0));
                if found.map_err(|error| format!("{error:?}"))?.is_none_or(|found| found.key.seqno != place.1.0) {
                    return Err(format!("its index or filter does not find key `{}`", place.0.escape_ascii()));
                }
            }
            last = Some(place);
            entries += 1;
        }
        match entries == table.metadata.item_count {
            true => Ok(()),
            false => Err(format!("it has {entries} entries instead of {}", table.metadata.item_count)),
        }
    })
}

/// Blocks that are kept while a table is read: each key is looked up after it was read.
const CACHE: u64 = 8 << 20;

/// A table by itself, with the numbers about it.
fn open_table(path: &Path, hash: u128) -> Result<Table, String> {
    let (cache, metrics) = (Arc::new(Cache::with_capacity_bytes(CACHE)), Arc::new(Metrics::default()));
    let table = Table::recover(path.to_path_buf(), Checksum::from_raw(hash), 0, 0, cache, None, false, false, metrics);
    table.map_err(|error| format!("{error:?}"))
}

/// A panic of lsm-tree as an error.
fn caught<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| Err(panic_text(&*panic).to_owned()))
}

fn hash_of(path: &Path, progress: &mut dyn FnMut(u64)) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let (mut hash, mut part, mut read) = (Xxh3Default::new(), vec![0; 1 << 18], 0);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hash.digest128()),
            n => {
                hash.update(&part[..n]);
                read += n as u64;
                progress(read);
            }
        }
    }
}

fn sorted(dir: &Path) -> Result<Vec<PathBuf>, Failed> {
    let entries = fs::read_dir(dir).map_err(at(dir))?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>().map_err(at(dir))?;
    paths.sort();
    Ok(paths)
}

/// The file that is there while the store is closed: where its last journal ends.
const CLOSED: &str = "closed";

/// Notes where the last journal ends. Everything is synced, and no thread writes.
pub(super) fn note_closed(dir: &Path) -> io::Result<()> {
    if let Some((number, path)) = journal::list(&database(dir))?.pop()
        && let Ok(Journal { end, .. }) = journal::read(&path)?
    {
        atomic_files::write(&dir.join(CLOSED), format!("{number} {end}\n").as_bytes())?;
    }
    Ok(())
}
/// The store is open: what the note says holds no more.
pub(super) fn note_opened(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(CLOSED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.and_then(|()| File::open(dir)?.sync_all()),
    }
}
/// The number of the last journal and where it ends, if the store was closed.
fn closed(dir: &Path) -> io::Result<Option<(u64, u64)>> {
    let text = match fs::read_to_string(dir.join(CLOSED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let (number, end) = text.trim_end().split_once(' ').unwrap_or_default();
    let numbers = number.parse().ok().zip(end.parse().ok());
    numbers.map(Some).ok_or_else(|| io::Error::other("is damaged"))
}
