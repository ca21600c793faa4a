//! fjall, and what the store makes of it: one keyspace of entries in [`mod@format`].
use super::{
    background::in_background,
    cached_reads::{Cached, TwinTables},
    dir::Dir,
    expiry::DropExpired,
    format, journal,
    settings::{Compression, StoreSettings},
    stats::{LEVELS, TreeStats},
};
use crate::{StoredValue, clock};
use bytes::Bytes;
use fjall::{
    AbstractTree as _, CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _,
    config::CompressionPolicy,
};
use larder_engine::Millis;
use parking_lot::{Mutex, RwLock};
use rustix::process::{Resource, getrlimit};
use std::{
    any::Any,
    collections::HashMap,
    fs::File,
    ops::{Bound, ControlFlow},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// Which keys to walk over, in which direction.
#[derive(Debug, Clone)]
pub struct Range {
    /// Where it begins, in the order of the keys' bytes.
    pub start: Bound<Bytes>,
    /// Where it ends.
    pub end: Bound<Bytes>,
    /// From its end to its begin.
    pub reverse: bool,
}

/// What a walk comes upon.
#[derive(Debug)]
pub struct TreeWalk {
    /// The key.
    pub key: Bytes,
    /// As it is stored.
    pub(super) stored: Bytes,
    /// The value; `None`: it has expired.
    pub live: Option<StoredValue>,
}

/// The entries on disk. Reading blocks: it is for the store's threads.
pub struct Tree {
    /// Replaced by [`clear`](Tree::clear); cloned for each use, which costs a count.
    entries: RwLock<Entries>,
    options: KeyspaceCreateOptions,
    /// Where fjall has its files.
    path: PathBuf,
    /// The journal that was synced last.
    journal: Mutex<Option<(PathBuf, File)>>,
    retired: Mutex<Retired>,
    twins: TwinTables,
    writes: AtomicU64,
    expired: Arc<AtomicU64>,
    db: Database,
}

/// Parts that fjall has deleted or will delete soon. The thread that drops the last handle frees half a
/// million nodes, or deletes files; fjall would do it with all readers and writers locked out.
#[derive(Default)]
struct Retired {
    /// Sealed memtables.
    memtables: Vec<Arc<dyn Send + Sync>>,
    /// Lists of tables, the last of which is in use: of which keyspace, and its number there.
    versions: Vec<((u64, u64), Garbage)>,
}
/// Something to be dropped, whose type fjall does not name.
pub(super) type Garbage = Box<dyn Send + Sync>;

/// The keyspace in use and its number: a cleared one is replaced by the next.
#[derive(Clone)]
struct Entries {
    number: u64,
    keyspace: Keyspace,
}

const NAME: &str = "entries-";

/// Open files of tables that are kept for the next read. The rest of the limit on open files belongs
/// to connections.
fn cached_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 8).map_or(MAX_CACHED_FILES, |files| files.min(MAX_CACHED_FILES))
}
/// The number of files that fjall keeps open by default.
const MAX_CACHED_FILES: usize = 900;

impl Tree {
    pub(super) fn open(dir: &Dir, settings: &StoreSettings) -> Result<Tree, String> {
        let options = options(settings);
        let expired = Arc::new(AtomicU64::new(0));
        let open = |path: &Path| -> Result<Database, String> {
            let dropped = expired.clone();
            Database::builder(path)
                .cache_size(settings.block_cache)
                .max_cached_files(Some(cached_files()))
                // One only flushes, the other compacts.
                .worker_threads(2)
                .journal_compression(CompressionType::None)
                .with_compaction_filter_factories(Arc::new(move |name| {
                    let filter = DropExpired { dropped: dropped.clone() };
                    name.starts_with(NAME).then(|| Arc::new(filter) as _)
                }))
                .open()
                .map_err(|error| unusable(path, &error))
        };
        let open = |path: &Path| survive(path, || in_background(|| open(path)));
        let path = dir.database(|new| {
            let db = open(new)?;
            db.keyspace(&format!("{NAME}0"), || options.clone()).map_err(|error| unusable(new, &error))?;
            db.persist(PersistMode::SyncAll).map_err(|error| unusable(new, &error))
        })?;
        let db = open(&path)?;
        let entries = survive(&path, || entries(&db, &options).map_err(|error| unusable(&path, &error)))?;
        let tree = Tree {
            entries: RwLock::new(entries),
            options,
            path,
            journal: Mutex::default(),
            retired: Mutex::default(),
            twins: TwinTables::new().map_err(|error| format!("disk store: {error}"))?,
            writes: AtomicU64::new(0),
            expired,
            db,
        };
        tree.survive(|| tree.lengthen_keys())?;
        Ok(tree)
    }

    /// Stores [keys of zero bytes alone](format::stored_key) under their names that a Larder stored
    /// which took no empty key. All in one batch, after which none is left.
    fn lengthen_keys(&self) -> Result<(), String> {
        let keyspace = self.keyspace();
        let mut writes: HashMap<Bytes, Option<Bytes>> = HashMap::new();
        for entry in self.db.snapshot().range::<Bytes, _>(&keyspace, ..) {
            let (key, stored) = Guard::into_inner(entry).map_err(|error| self.error(&error))?;
            let (key, stored) = (Bytes::from(key), Bytes::from(stored));
            // They are the first ones in the order of keys.
            if !format::is_lengthened(&key) || !format::fits(&key) {
                break;
            }
            if format::lacks_lengthening(&key, &stored) {
                let (longer, stored) = format::stored_write((key.clone(), Some(stored)));
                writes.entry(key).or_default();
                writes.insert(longer, stored);
            }
        }
        if writes.is_empty() { Ok(()) } else { self.commit_stored(&keyspace, writes, true) }
    }

    fn keyspace(&self) -> Keyspace {
        self.entries.read().keyspace.clone()
    }
    fn error(&self, error: &fjall::Error) -> String {
        format!("{}: {}", self.path.display(), describe(error))
    }
    /// See [`survive`].
    fn survive<T>(&self, read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        survive(&self.path, read)
    }
    fn damaged(&self, key: &[u8]) -> String {
        format!("{}: the entry of key `{}` is damaged", self.path.display(), key.escape_ascii())
    }

    /// The entry of a key at `now`.
    ///
    /// # Errors
    /// A text that names the directory: an I/O error, or damage.
    pub fn get(&self, key: &[u8], now: Millis) -> Result<Option<StoredValue>, String> {
        let stored = self.get_stored(key)?;
        self.live(key, stored, now)
    }
    /// Like `get`, if memory is enough to tell, without waiting for the disk. While a flush or
    /// compaction is under way, this may wait for its end: the caller knows that there is none.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub(super) fn get_cached(&self, key: &[u8], now: Millis) -> Result<Cached<Option<StoredValue>>, String> {
        if !format::fits(key) {
            return Ok(Cached::Known(None));
        }
        match self.survive(|| Ok(self.twins.get(&self.keyspace().tree, &format::stored_key(key))))? {
            Cached::Unknown => Ok(Cached::Unknown),
            Cached::Known(stored) => self.live(key, stored, now).map(Cached::Known),
        }
    }
    /// Are there tables that [cached reads](Tree::get_cached) do not know? Says so once.
    pub(super) fn has_new_tables(&self) -> bool {
        self.twins.are_due(&self.keyspace().tree)
    }
    /// Has [cached reads](Tree::get_cached) know of all tables. Reads some blocks of new ones.
    pub(super) fn learn_tables(&self) -> Result<(), String> {
        self.survive(|| self.twins.refresh(&self.keyspace().tree).map_err(|error| self.error(&error.into())))
    }
    /// The entries of several keys, as they are together at one moment.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub fn get_many(&self, keys: &[Bytes], now: Millis) -> Result<Vec<Option<StoredValue>>, String> {
        let (snapshot, keyspace) = (self.db.snapshot(), self.keyspace());
        let read = |key: &Bytes| {
            let stored = match format::fits(key) {
                true => snapshot.get(&keyspace, format::stored_key(key)).map_err(|error| self.error(&error))?,
                false => None,
            };
            self.live(key, stored.map(Bytes::from), now)
        };
        self.survive(|| keys.iter().map(read).collect())
    }
    /// As it is stored, expired or not.
    pub(super) fn get_stored(&self, key: &[u8]) -> Result<Option<Bytes>, String> {
        if !format::fits(key) {
            return Ok(None);
        }
        let get = || self.keyspace().get(format::stored_key(key)).map_err(|error| self.error(&error));
        Ok(self.survive(get)?.map(Bytes::from))
    }
    fn live(&self, key: &[u8], stored: Option<Bytes>, now: Millis) -> Result<Option<StoredValue>, String> {
        match stored.map(format::decode) {
            None => Ok(None),
            Some(None) => Err(self.damaged(key)),
            Some(Some(StoredValue { expiry: Some(at), .. })) if at <= now => Ok(None),
            Some(live) => Ok(live),
        }
    }
    /// Visits the entries of a range as they are at one moment, until told to stop.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub fn walk(
        &self,
        range: Range,
        now: Millis,
        mut visit: impl FnMut(TreeWalk) -> ControlFlow<()>,
    ) -> Result<(), String> {
        if is_empty(&range) {
            return Ok(());
        }
        // Of a snapshot: fjall's plain range sees what is written meanwhile.
        let (start, end) = (range.start.map(format::owned_stored_key), range.end.map(format::owned_stored_key));
        let mut found = self.survive(|| Ok(self.db.snapshot().range::<Bytes, _>(&self.keyspace(), (start, end))))?;
        let mut next = || {
            self.survive(|| {
                let next = if range.reverse { found.next_back() } else { found.next() };
                next.map(Guard::into_inner).transpose().map_err(|error| self.error(&error))
            })
        };
        while let Some((key, stored)) = next()? {
            let (key, stored) = (format::key_of(Bytes::from(key)), Bytes::from(stored));
            let live = self.live(&key, Some(stored.clone()), now)?;
            if visit(TreeWalk { key, stored, live }).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// How many entries there are; reads them all.
    ///
    /// # Errors
    /// As [`get`](Tree::get).
    pub fn count(&self) -> Result<u64, String> {
        self.count_while(|| true)
    }
    /// Like `count`, while a task waits for the result.
    pub(super) fn count_while(&self, is_wanted: impl Fn() -> bool) -> Result<u64, String> {
        const STRIDE: u64 = 1024;
        let all = Range { start: Bound::Unbounded, end: Bound::Unbounded, reverse: false };
        let (mut seen, mut live) = (0, 0);
        self.walk(all, clock::now(), |walk| {
            if seen % STRIDE == 0 && !is_wanted() {
                return ControlFlow::Break(());
            }
            seen += 1;
            live += u64::from(walk.live.is_some());
            ControlFlow::Continue(())
        })?;
        Ok(live)
    }

    /// Writes (or with `None` deletes) all or nothing; on stable storage when it returns, if
    /// `sync`.
    pub(super) fn commit(&self, writes: HashMap<Bytes, Option<Bytes>>, sync: bool) -> Result<(), String> {
        let writes = writes.into_iter().map(format::stored_write);
        self.commit_stored(&self.keyspace(), writes, sync)?;
        // After it is there, so that a sync that comes after the count has it.
        self.writes.fetch_add(1, Release);
        Ok(())
    }
    fn commit_stored(
        &self,
        keyspace: &Keyspace,
        writes: impl IntoIterator<Item = (Bytes, Option<Bytes>)>,
        sync: bool,
    ) -> Result<(), String> {
        let mut batch =
            self.db.batch().durability(Some(if sync { PersistMode::SyncData } else { PersistMode::Buffer }));
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(keyspace, key, value),
                None => batch.remove(keyspace, key),
            }
        }
        batch.commit().map_err(|error| self.error(&error))
    }
    /// Writes entries, each the value of itself, by their own names.
    #[cfg(test)]
    pub(super) fn write_as_before(&self, names: &[Bytes]) {
        let mut encoder = format::EntryEncoder::default();
        let writes =
            names.iter().map(|name| (name.clone(), Some(encoder.entry(&StoredValue::string(name.clone(), None)))));
        self.commit_stored(&self.keyspace(), writes, true).expect("the write");
    }
    /// Writes (or with `None` deletes) one entry, as [`commit`](Tree::commit) does without a sync:
    /// the same in the journal, at less than half of the time in memory.
    pub(super) fn commit_one(&self, key: Bytes, value: Option<Bytes>) -> Result<(), String> {
        // Only a writer replaces it, and the caller is the writer.
        let Entries { keyspace, .. } = &*self.entries.read();
        let (key, value) = format::stored_write((key, value));
        let written = match value {
            Some(value) => keyspace.insert(key, value),
            None => keyspace.remove(key),
        };
        written.map_err(|error| self.error(&error))?;
        self.writes.fetch_add(1, Release);
        Ok(())
    }
    /// Makes the keyspace of that number.
    pub(super) fn begin_clear(&self, number: u64) -> Result<Keyspace, String> {
        self.db.keyspace(&format!("{NAME}{number}"), || self.options.clone()).map_err(|error| self.error(&error))
    }
    /// Deletes everything, durably. The next keyspace is there before this one goes, and an
    /// interrupted clear leaves this one.
    ///
    /// Not fjall's own `clear`, which a flush or compaction under way may undo.
    pub(super) fn clear(&self) -> Result<(), String> {
        let Entries { number, keyspace } = self.entries.read().clone();
        let number = number + 1;
        let next = self.begin_clear(number)?;
        self.db.delete_keyspace(keyspace).map_err(|error| self.error(&error))?;
        *self.entries.write() = Entries { number, keyspace: next };
        Ok(())
    }

    /// Batches written since the start.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Acquire)
    }
    /// Sealed memtables, and runs in level 0.
    pub(super) fn backlog(&self) -> (usize, usize) {
        let keyspace = self.keyspace();
        (keyspace.tree.sealed_memtable_count(), keyspace.tree.l0_run_count())
    }
    /// Does a compaction run? Waits for nothing.
    pub(super) fn is_compacting(&self) -> bool {
        self.db.active_compactions() > 0
    }
    /// Is the memtable larger? Not if as many wait for their flush as are allowed for.
    pub(super) fn is_larger(&self, bytes: u64) -> bool {
        let keyspace = self.keyspace();
        keyspace.tree.active_memtable().size() > bytes && keyspace.tree.sealed_memtable_count() < 3
    }
    /// Seals the memtable.
    pub(super) fn rotate(&self) -> Result<(), String> {
        let keyspace = self.keyspace();
        let memtable = keyspace.tree.active_memtable();
        keyspace.rotate_memtable().map_err(|error| self.error(&error))?;
        self.retired.lock().memtables.push(memtable);
        Ok(())
    }
    /// The last handles: dropped where no request waits. While the background is busy, none, unless
    /// two memtables are waiting for it: who frees them and who flushes go behind together, and a core
    /// that needs what the one has locked would wait until the other has had its turn.
    pub(super) fn take_retired(&self, is_busy: bool) -> Vec<Garbage> {
        let Entries { number, keyspace } = self.entries.read().clone();
        let mut retired = self.retired.lock();
        let Retired { memtables, versions } = &mut *retired;
        let version = keyspace.tree.current_version();
        let id = (number, version.id());
        if versions.last().is_none_or(|(last, _)| *last != id) {
            versions.push((id, Box::new(version)));
        }
        // One of them is being flushed.
        if is_busy && memtables.len() <= 2 {
            return Vec::new();
        }
        let unused = if keyspace.tree.version_free_list_len() == 0 { versions.len() - 1 } else { 0 };
        let versions = versions.drain(..unused).map(|(_, version)| version);
        let memtables = memtables.extract_if(.., |memtable| Arc::strong_count(memtable) == 1);
        versions.chain(memtables.map(|memtable| Box::new(memtable) as Garbage)).collect()
    }
    /// Have fjall's own threads failed?
    pub(super) fn probe(&self) -> Result<(), String> {
        self.db.persist(PersistMode::Buffer).map_err(|error| self.error(&error))
    }
    /// Syncs what was written, and waits only for the disk: fjall's own sync would hold its
    /// journal's lock, and thereby every writer, as long as it takes. A journal is synced by
    /// fjall before the next one is begun.
    pub(super) fn sync(&self) -> Result<(), String> {
        let failed = |path: &Path, error| format!("{}: {error}", path.display());
        let mut synced = self.journal.lock();
        loop {
            let newest = newest_journal(&self.path).map_err(|error| failed(&self.path, error))?;
            let file = match synced.take() {
                Some((path, file)) if path == newest => file,
                _ => File::open(&newest).map_err(|error| failed(&newest, error))?,
            };
            file.sync_data().map_err(|error| failed(&newest, error))?;
            let done = newest_journal(&self.path).map_err(|error| failed(&self.path, error))? == newest;
            *synced = Some((newest, file));
            if done {
                return Ok(());
            }
        }
    }
    /// Everything into tables.
    pub(super) fn flush(&self) -> Result<(), String> {
        self.keyspace().rotate_memtable_and_wait().map_err(|error| self.error(&error))?;
        self.sync_all()
    }
    /// Merges everything into the last level: drops what was overwritten, deleted or has expired.
    pub(super) fn compact(&self) -> Result<(), String> {
        self.flush()?;
        self.keyspace().major_compact().map_err(|error| self.error(&error))
    }
    /// The tables' numbers and sizes.
    pub(super) fn tables(&self) -> Vec<(u64, u64)> {
        let version = self.keyspace().tree.current_version();
        version.iter_tables().map(|table| (table.id(), table.metadata.file_size)).collect()
    }
    /// About how many entries there are, overwritten and deleted ones included; reads none.
    pub fn approximate_count(&self) -> u64 {
        self.keyspace().approximate_len() as u64
    }
    /// How it stands.
    pub fn stats(&self) -> TreeStats {
        let tree = &self.keyspace().tree;
        let mut tables = [0; LEVELS];
        for (level, tables) in tables.iter_mut().enumerate() {
            *tables = tree.level_table_count(level).unwrap_or(0) as u64;
        }
        TreeStats {
            tables,
            level0_runs: tree.l0_run_count() as u64,
            sealed_memtables: tree.sealed_memtable_count() as u64,
            memtable_bytes: self.db.write_buffer_size(),
            journals: self.db.journal_count() as u64,
            disk_bytes: self.db.disk_space().unwrap_or(0),
            block_cache_bytes: self.db.cache_size(),
            compactions_running: self.db.active_compactions() as u64,
            compactions: self.db.compactions_completed() as u64,
            compacting: self.db.time_compacting(),
            expired: self.expired.load(Relaxed),
        }
    }
    pub(super) fn sync_all(&self) -> Result<(), String> {
        self.db.persist(PersistMode::SyncAll).map_err(|error| self.error(&error))
    }
}

/// The keyspace of the lowest number: a higher one is left of a clear that was interrupted.
fn entries(db: &Database, options: &KeyspaceCreateOptions) -> fjall::Result<Entries> {
    let names = db.list_keyspace_names();
    let numbers = names.iter().filter_map(|name| name.strip_prefix(NAME)?.parse::<u64>().ok());
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    let open = |number: u64| db.keyspace(&format!("{NAME}{number}"), || options.clone());
    let number = numbers.first().copied().unwrap_or(0);
    let keyspace = open(number)?;
    for left in numbers.into_iter().skip(1) {
        db.delete_keyspace(open(left)?)?;
    }
    Ok(Entries { number, keyspace })
}

fn options(settings: &StoreSettings) -> KeyspaceCreateOptions {
    let compression = match settings.compression {
        // The levels that are written most often and hold least stay as they are.
        Compression::Lz4 => {
            CompressionPolicy::new([CompressionType::None, CompressionType::None, CompressionType::Lz4])
        }
        Compression::None => CompressionPolicy::disabled(),
    };
    KeyspaceCreateOptions::default()
        .data_block_compression_policy(compression)
        // fjall keeps this for the store's life. The setting may change: `upkeep` rotates.
        .max_memtable_size(u64::MAX)
}

fn newest_journal(path: &Path) -> std::io::Result<PathBuf> {
    let newest = journal::list(path)?.pop();
    newest.map(|(_, path)| path).ok_or_else(|| std::io::Error::other("has no journal"))
}

fn is_empty(range: &Range) -> bool {
    use Bound::{Excluded, Included, Unbounded};
    match (&range.start, &range.end) {
        (Unbounded, _) | (_, Unbounded) => false,
        (Included(start), Included(end)) => start > end,
        (Included(start) | Excluded(start), Excluded(end)) | (Excluded(start), Included(end)) => start >= end,
    }
}

/// lsm-tree trusts a block whose checksum is right, and panics where the content makes no sense. The
/// error is then that of a damaged file.
fn survive<T>(path: &Path, read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        Err(format!(
            "{}: a file makes no sense ({}); `larder store verify` names it",
            path.display(),
            panic_text(&*panic)
        ))
    })
}

/// What a panic says.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason")
}

fn unusable(path: &Path, error: &fjall::Error) -> String {
    format!("disk store: {} cannot be opened: {}", path.display(), describe(error))
}

/// An error of fjall in words.
fn describe(error: &fjall::Error) -> String {
    use fjall::{Error, LsmError};
    let verify = "`larder store verify` names the file";
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => error.to_string(),
        Error::Storage(LsmError::ChecksumMismatch { .. }) => format!("a block is damaged (checksum); {verify}"),
        Error::Poisoned => "a write, flush or compaction failed (the log says which)".to_string(),
        Error::Locked => "is in use".to_string(),
        Error::InvalidVersion(version) => {
            format!("is of another version of fjall's format ({version:?}), or damaged; {verify}")
        }
        other => format!("is damaged ({other:?}); {verify}"),
    }
}
