//! `table:FILE`: an immutable table ([`store::table`](crate::store::table)), answered from its memory map.
//!
//! ```text
//! read ─► look: in the map, on the core ─┬─ there, or not ─► answered, nothing passes through the memory tier
//!                                        └─ chunks that nobody has checked ─► fetch: a thread that may wait for the disk ─► flight
//!
//! file moved into place, or reload ─► keeper's thread: open, check all of it ─► next ─► the cores take it at their next read
//!                                                                           └─► keys that changed ─► Invalidations, on one core
//! ```
//!
//! Invariants:
//! - A core waits for no disk: it answers from chunks that were read and checked before, and hands over what needs others.
//! - A file is served only after all of it was checked, but for the first, which is checked in the background while chunks that are needed are checked as they are.
//! - A client that was told that a key changed reads the new table: it is in place before anything is announced.
use super::{
    Found, Invalidations, Limits, Local, LocalStore, Page, Reads, Scan, Source, SourceError, SourceHealth, Watch,
};
use crate::{
    clock,
    config::Machine,
    read::Fetch,
    store::table::{Now, Position, Table, TableError},
    telemetry::TableSnapshot,
};
use bytes::Bytes;
use larder_engine::{Entry, Millis, Outside};
use parking_lot::Mutex;
use std::{
    cell::RefCell,
    ops::Bound,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc as std_mpsc,
    },
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Values from here on leave by reference: copying one takes longer than counting it.
const LARGE: usize = 16 << 10;
/// Changed keys that go to the core at once.
const BATCH: usize = 256;
/// Entries that one page of a scan looks at.
const PAGE: usize = 10_000;
/// Threads of one core that may wait for the disk at a time.
const WAITING: usize = 8;

/// A table that is served: the how manyth, since when.
#[derive(Debug)]
struct Served {
    generation: u64,
    table: Arc<Table>,
    about: Outside,
}

/// What all cores share.
pub(super) struct TableSetup {
    shared: Arc<Shared>,
    limits: Limits,
    requests: std_mpsc::Sender<Request>,
}

struct Shared {
    path: PathBuf,
    health: Arc<SourceHealth>,
    /// The generation of what is served, so that a core sees in one read that it has the latest.
    generation: AtomicU64,
    served: watch::Sender<Arc<Served>>,
    /// The core that announces changes, once there is one.
    announcer: Mutex<Option<mpsc::Sender<Swap>>>,
    refused: AtomicU64,
}

/// Somebody wants the file looked at.
type Request = oneshot::Sender<Result<Reloaded, Arc<str>>>;

/// A table has taken the place of another.
struct Swap {
    old: Arc<Table>,
    new: Arc<Table>,
    /// Told how many keys changed, when all of them are announced; `None`: nobody could have copies.
    done: oneshot::Sender<Option<u64>>,
}

/// What a reload came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reloaded {
    /// Entries of the table.
    pub entries: u64,
    /// Keys whose value is another than before; `None`: nobody could have copies, so they were not counted.
    pub changed: Option<u64>,
}

/// A file, as far as one can see without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, u64, u64, i64, i64);
impl Stamp {
    fn of(path: &Path) -> Option<Stamp> {
        let file = std::fs::metadata(path).ok()?;
        Some(Stamp(file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
    }
}

impl TableSetup {
    /// Opens the table and begins to keep it: its thread ends with the setup.
    pub(super) fn open(path: &Path, limits: Limits, health: Arc<SourceHealth>) -> Result<TableSetup, String> {
        let seen = Stamp::of(path);
        let table = Arc::new(Table::open(path).map_err(|error| error.to_string())?);
        let served = Served { generation: 1, table, about: Outside::new(1, clock::now()) };
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            health,
            generation: AtomicU64::new(1),
            served: watch::Sender::new(Arc::new(served)),
            announcer: Mutex::default(),
            refused: AtomicU64::new(0),
        });
        let (requests, asked) = std_mpsc::channel();
        let keeper = Keeper { shared: Arc::downgrade(&shared), seen };
        let thread = std::thread::Builder::new().name("larder-table".into());
        thread.spawn(move || keeper.run(&asked)).map_err(|error| error.to_string())?;
        Ok(TableSetup { shared, limits, requests })
    }

    pub(super) async fn reload(&self) -> Result<Reloaded, Arc<str>> {
        let (reply, answer) = oneshot::channel();
        let asked = self.requests.send(reply);
        match answer.await {
            Ok(answer) if asked.is_ok() => answer,
            _ => Err("the table's thread has ended".into()),
        }
    }

    pub(super) fn counts(&self) -> TableSnapshot {
        let Served { table, generation, .. } = &**self.shared.served.borrow();
        TableSnapshot {
            entries: table.len(),
            bytes: table.file_bytes(),
            swaps: generation - 1,
            refused: self.shared.refused.load(Ordering::Relaxed),
        }
    }
}

/// Who looks after the file.
struct Keeper {
    shared: Weak<Shared>,
    /// The file that was looked at last.
    seen: Option<Stamp>,
}

impl Keeper {
    fn run(mut self, asked: &std_mpsc::Receiver<Request>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.check_first();
        }
        loop {
            let request = match asked.recv_timeout(LOOK) {
                Ok(request) => Some(request),
                Err(std_mpsc::RecvTimeoutError::Timeout) => None,
                Err(std_mpsc::RecvTimeoutError::Disconnected) => return,
            };
            let Some(shared) = self.shared.upgrade() else { return };
            let now = Stamp::of(&shared.path);
            // A file that was taken away may be about to be replaced.
            if request.is_none() && (now.is_none() || now == self.seen) {
                continue;
            }
            self.seen = now;
            let reloaded = shared.reload();
            if let Some(request) = request {
                // Who asked may have gone.
                let _ = request.send(reloaded);
            }
        }
    }
}

impl Shared {
    /// Checks the table that was there at the start, and has it in memory if it fits.
    fn check_first(&self) {
        let table = self.served.borrow().table.clone();
        if table.file_bytes() > Machine::detect().memory / 2 {
            tracing::info!(table = %self.path.display(), "the table is larger than half of the memory: it is checked as it is read");
            return;
        }
        table.advise_needed();
        if let Err(error) = table.check_all() {
            self.note(&error);
        }
    }

    fn note(&self, error: &TableError) {
        tracing::error!("{error}");
        self.health.note_error(&error.to_string().into());
    }

    fn reload(&self) -> Result<Reloaded, Arc<str>> {
        let opened = Table::open(&self.path).and_then(|table| {
            table.advise_needed();
            table.check_all()?;
            Ok(Arc::new(table))
        });
        let new = match opened {
            Ok(new) => new,
            Err(error) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                tracing::error!("the table stays as it is: {error}");
                return Err(error.to_string().into());
            }
        };
        // Nobody but this thread replaces it.
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        let next = Served { generation, table: new.clone(), about: Outside::new(generation, clock::now()) };
        let old = self.served.send_replace(Arc::new(next)).table.clone();
        self.generation.store(generation, Ordering::Release);
        let (done, changed) = oneshot::channel();
        let announcer = self.announcer.lock().clone();
        let entries = new.len();
        // Nobody to tell, or a server on its way out: nobody has copies, either.
        let told = announcer.is_some_and(|announcer| announcer.blocking_send(Swap { old, new, done }).is_ok());
        let changed = if told { changed.blocking_recv().ok().flatten() } else { None };
        tracing::info!(table = %self.path.display(), entries, changed, "a new table is served");
        Ok(Reloaded { entries, changed })
    }
}

/// Announces what changed, table after table.
async fn announce(mut swaps: mpsc::Receiver<Swap>, to: Rc<dyn Invalidations>) {
    while let Some(Swap { old, new, done }) = swaps.recv().await {
        if !to.are_wanted() {
            let _ = done.send(None);
            continue;
        }
        let (batches, mut changed) = mpsc::channel::<Vec<Bytes>>(4);
        let finding = tokio::task::spawn_blocking(move || find_changes(&old, &new, &batches));
        let mut count = 0;
        while let Some(batch) = changed.recv().await {
            count += batch.len() as u64;
            batch.iter().for_each(|key| to.key(key));
        }
        if !matches!(finding.await, Ok(Ok(()))) {
            // The old one cannot be read any more: then any key may have changed.
            to.all();
        }
        let _ = done.send(Some(count));
    }
}

/// Every key that has another value in `new`, is not there any more or has come.
fn find_changes(old: &Arc<Table>, new: &Arc<Table>, to: &mpsc::Sender<Vec<Bytes>>) -> Result<(), TableError> {
    let mut batch = Vec::new();
    let mut found = |table: &Arc<Table>, key: &[u8]| {
        batch.push(table.share(key));
        // Nobody takes them any more: the server ends.
        if batch.len() == BATCH { to.blocking_send(std::mem::take(&mut batch)).is_ok() } else { true }
    };
    for entry in old.entries(Position::default()) {
        let (key, value) = entry?;
        if new.get(key)? != Some(value) && !found(old, key) {
            return Ok(());
        }
    }
    for entry in new.entries(Position::default()) {
        let (key, _) = entry?;
        if old.get(key)?.is_none() && !found(new, key) {
            return Ok(());
        }
    }
    let _ = to.blocking_send(batch);
    Ok(())
}

/// What a look into the map came to.
pub enum Looked<R, F> {
    /// The key is there.
    Found(R),
    /// It is not.
    Absent,
    /// It cannot be said without waiting for the disk.
    Unknown(F),
}

/// One core's handle on the table.
pub struct TableSource {
    shared: Arc<Shared>,
    limits: Limits,
    /// The latest, as far as this core has seen.
    served: Rc<RefCell<Arc<Served>>>,
    /// Threads that may wait for the disk on behalf of this core.
    waiting: Arc<Semaphore>,
}

impl TableSource {
    pub(super) fn new(setup: &TableSetup, watch: Option<Watch>) -> TableSource {
        let shared = setup.shared.clone();
        if let Some(watch) = watch {
            let mut announcer = shared.announcer.lock();
            if announcer.is_none() {
                let (swaps, swapped) = mpsc::channel(1);
                *announcer = Some(swaps);
                tokio::task::spawn_local(announce(swapped, watch.to));
            }
        }
        let mut changes = shared.served.subscribe();
        let served = Rc::new(RefCell::new(changes.borrow_and_update().clone()));
        let followed = Rc::downgrade(&served);
        // A core that is not read from must not keep an old file open.
        tokio::task::spawn_local(async move {
            while changes.changed().await.is_ok() {
                let Some(served) = followed.upgrade() else { return };
                let next = changes.borrow_and_update().clone();
                served.replace(next);
            }
        });
        TableSource { limits: setup.limits, shared, served, waiting: Arc::new(Semaphore::new(WAITING)) }
    }

    /// Reads a key in the map, or gives `read` back if that cannot be done without waiting.
    #[inline]
    pub(crate) fn look<R, F: FnOnce(Entry<'_>) -> R>(&self, key: &[u8], read: F) -> Looked<R, F> {
        let mut served = self.served.borrow();
        if served.generation != self.shared.generation.load(Ordering::Acquire) {
            drop(served);
            self.served.replace(self.shared.served.borrow().clone());
            served = self.served.borrow();
        }
        match served.table.get_now(key) {
            Now::Found(value) if value.len() < LARGE => Looked::Found(served.about.inline(key, value, read)),
            Now::Found(value) => Looked::Found(served.about.large(key, served.table.share(value), read)),
            Now::Absent => Looked::Absent,
            Now::Unknown => Looked::Unknown(read),
        }
    }

    /// Runs this on a thread that may wait for the disk, with the latest table.
    async fn wait_for<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce(&Served) -> Result<T, TableError> + Send + 'static,
    ) -> Result<T, SourceError> {
        wait_for(self.shared.clone(), self.waiting.clone(), within, work).await
    }
}

async fn wait_for<T: Send + 'static>(
    shared: Arc<Shared>,
    waiting: Arc<Semaphore>,
    within: Duration,
    work: impl FnOnce(&Served) -> Result<T, TableError> + Send + 'static,
) -> Result<T, SourceError> {
    let served = shared.served.borrow().clone();
    let done = tokio::time::timeout(within, async {
        let permit = waiting.acquire_owned().await;
        tokio::task::spawn_blocking(move || {
            let done = work(&served);
            drop(permit);
            done
        })
        .await
    });
    match done.await {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(error))) => {
            shared.note(&error);
            Err(SourceError::Unavailable(error.to_string().into()))
        }
        Ok(Err(_)) => Err(SourceError::Unavailable("the read was abandoned".into())),
        Err(_) => Err(SourceError::Unavailable("the disk did not answer within source-timeout".into())),
    }
}

/// A value as the rest of the server takes it.
fn found(table: &Arc<Table>, value: &[u8]) -> Found {
    let value = if value.len() < LARGE { Bytes::copy_from_slice(value) } else { table.share(value) };
    Found { value, expiry: None }
}

impl Source for TableSource {
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        let mut fetches = std::mem::take(batch);
        let (now, max) = (clock::now(), self.limits.max_in_flight);
        let admitted = self.shared.health.admit(fetches.len(), max);
        for fetch in fetches.drain(admitted..) {
            let why = format!("{max} fetches are in flight (setting source-max-in-flight)");
            fetch.finish(Err(SourceError::Unavailable(why.into())), now);
        }
        // One by one, so that a damaged chunk fails only those that need it.
        for fetch in fetches {
            let (shared, waiting, within) = (self.shared.clone(), self.waiting.clone(), self.limits.timeout);
            tokio::task::spawn_local(async move {
                let begun = Instant::now();
                let key = Bytes::copy_from_slice(fetch.key());
                let answer = wait_for(shared.clone(), waiting, within, move |served| {
                    Ok(served.table.get(&key)?.map(|value| found(&served.table, value)))
                });
                let answer = answer.await;
                shared.health.finished(answer.is_err(), begun.elapsed());
                fetch.finish(answer, clock::now());
            });
        }
    }
    fn put<'a>(&'a self, _: &'a [u8], _: &'a [u8], _: Option<Millis>) -> Local<'a, Result<bool, SourceError>> {
        Box::pin(std::future::ready(Err(SourceError::ReadOnly)))
    }
    fn delete<'a>(&'a self, _: &'a [u8]) -> Local<'a, Result<bool, SourceError>> {
        Box::pin(std::future::ready(Err(SourceError::ReadOnly)))
    }
    fn expire<'a>(&'a self, _: &'a [u8], _: Option<Millis>) -> Local<'a, Result<bool, SourceError>> {
        Box::pin(std::future::ready(Err(SourceError::ReadOnly)))
    }
    fn ping(&self) -> Local<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn reads(&self) -> Reads<'_> {
        Reads::Table(self)
    }
    fn as_local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }
}

impl LocalStore for TableSource {
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> Local<'a, Result<Vec<Option<Found>>, SourceError>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(keys.len());
            for &key in keys {
                answers.push(match self.look(key, |entry| Found { value: entry.value.to_bytes(), expiry: None }) {
                    Looked::Found(found) => Some(found),
                    Looked::Absent => None,
                    Looked::Unknown(_) => {
                        let key = Bytes::copy_from_slice(key);
                        let answer = self.wait_for(self.limits.timeout, move |served| {
                            Ok(served.table.get(&key)?.map(|value| found(&served.table, value)))
                        });
                        answer.await?
                    }
                });
            }
            Ok(answers)
        })
    }
    fn apply(&self, _: Vec<(Bytes, Option<Found>)>) -> Local<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Err(SourceError::ReadOnly)))
    }
    fn scan(&self, scan: Scan) -> Local<'_, Result<Page, SourceError>> {
        Box::pin(self.wait_for(self.limits.slow_timeout, move |served| page(served, &scan)))
    }
    fn count(&self) -> Local<'_, Result<u64, SourceError>> {
        Box::pin(std::future::ready(Ok(self.shared.served.borrow().table.len())))
    }
    fn is_ordered(&self) -> bool {
        false
    }
    fn pick(&self, seed: u64) -> Option<Local<'_, Result<Option<Bytes>, SourceError>>> {
        Some(Box::pin(self.wait_for(self.limits.timeout, move |served| {
            let Some(number) = seed.checked_rem(served.table.len()) else { return Ok(None) };
            let entry = served.table.entries(served.table.position(number)).next().transpose()?;
            Ok(entry.map(|(key, _)| Bytes::copy_from_slice(key)))
        })))
    }
    fn clear(&self) -> Local<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Err(SourceError::ReadOnly)))
    }
}

/// A page of the entries in the order of the file. What it ends with says how far it came in which table; in another table the walk goes on with the
/// part of it that has the same hashes, from its begin: nothing is passed over, some keys may come twice.
fn page(served: &Served, scan: &Scan) -> Result<Page, TableError> {
    let Served { table, generation, .. } = served;
    let end = if scan.reverse { &scan.start } else { &scan.end };
    let begin = if scan.reverse { &scan.end } else { &scan.start };
    let cursor = match begin {
        Bound::Excluded(cursor) => Cursor::read(cursor),
        _ => None,
    };
    let mut entries = table.entries(cursor.map_or(Position::default(), |cursor| cursor.position(table, *generation)));
    // A cursor is no key: then the other bound alone says which keys are wanted.
    let begin = if cursor.is_some() { &Bound::Unbounded } else { begin };
    let (low, high) = if scan.reverse { (end, begin) } else { (begin, end) };
    let within = |key: &[u8]| {
        (match low {
            Bound::Included(low) => key >= &low[..],
            Bound::Excluded(low) => key > &low[..],
            Bound::Unbounded => true,
        }) && match high {
            Bound::Included(high) => key <= &high[..],
            Bound::Excluded(high) => key < &high[..],
            Bound::Unbounded => true,
        }
    };
    let mut page = Page::default();
    let mut bytes = 0;
    for _ in 0..PAGE {
        if page.entries.len() >= scan.limit || bytes >= scan.max_bytes {
            break;
        }
        let Some(entry) = entries.next() else { return Ok(page) };
        let (key, value) = entry?;
        if within(key) {
            let value = if scan.keys_only { &[] } else { value };
            bytes += key.len() + value.len();
            page.entries.push((Bytes::copy_from_slice(key), found(table, value)));
        }
    }
    page.next = Some(Cursor::of(table, *generation, entries.position()).write());
    Ok(page)
}

/// How far a walk has come, in the place of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    generation: u64,
    seed: u64,
    /// The hash with which its part begins.
    hash: u64,
    entry: u64,
}
impl Cursor {
    /// Not how keys begin that people make up.
    const MARK: &'static [u8] = b"\0ltab\xff";

    fn of(table: &Table, generation: u64, at: Position) -> Cursor {
        Cursor { generation, seed: table.seed(), hash: table.first_hash(at.part), entry: at.entry as u64 }
    }
    fn write(self) -> Bytes {
        let mut bytes = Cursor::MARK.to_vec();
        for number in [self.generation, self.seed, self.hash, self.entry] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.into()
    }
    fn read(bytes: &[u8]) -> Option<Cursor> {
        let (numbers, []) = bytes.strip_prefix(Cursor::MARK)?.as_chunks::<8>() else { return None };
        let &[generation, seed, hash, entry] = numbers else { return None };
        let [generation, seed, hash, entry] = [generation, seed, hash, entry].map(u64::from_le_bytes);
        Some(Cursor { generation, seed, hash, entry })
    }
    fn position(self, table: &Table, generation: u64) -> Position {
        match (self.generation == generation, self.seed == table.seed()) {
            (true, _) => Position { part: table.part_of(self.hash), entry: self.entry as usize },
            (false, true) => Position { part: table.part_of(self.hash), entry: 0 },
            // Its hashes are in no order that this one knows.
            (false, false) => Position::default(),
        }
    }
}
