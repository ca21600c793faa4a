//! The durable store (`disk:DIR`): an LSM tree (fjall) behind threads of its own, shared by all cores.
//!
//! ```text
//!  cores ── Work ───────► read queue ──► readers (store-threads) ──► each answers by itself
//!    ├───── who counts ► scan queue ──► one thread: a count for all who wait (counting.rs)
//!    └─ Change + reply ─► write queue ─► committer: takes all that waits, one batch, one sync ──► replies: a wake-up for each core
//!                                          │ slowed by pressure.rs when flushes or compactions fall behind
//!                           upkeep: syncs (interval), rotates the memtable, looks whether fjall gave up
//!  DIR/larder-store   what this directory is, and in which version     (dir.rs)
//!  DIR/lock           held while the store is open, with our pid
//!  DIR/db/            fjall: N.jnl journals, keyspaces/M/tables/…
//! ```
//!
//! Invariants:
//! - Only the committer writes entries, and it reads none. What was read for a write is still so when it is written because the caller
//!   holds the key's lock from that read until the write is done.
//! - A write that failed in the middle poisons the store: it takes no more writes until it is opened again, for what reached the
//!   disk is not known any more. Reads go on.
//! - An entry that has expired is absent at once; compaction drops it ([`format`](mod@format)).
//! - Nothing here blocks a core: queues are locked for a push, and what waits is a thread of the store.
//!
//! Lock order: a queue's lock is never held while fjall is called.
pub mod backup;
mod committer;
mod counting;
pub mod damage;
mod dir;
mod expiry;
mod format;
mod journal;
mod pressure;
mod readers;
mod replies;
mod settings;
mod stats;
#[cfg(test)]
mod tests;
mod tree;
mod upkeep;

pub use committer::{Change, Entry, WriteError, Written};
pub use readers::Work;
pub use replies::{Replies, Sender};
pub use settings::{Compression, Durability, StoreSettings};
pub use stats::{LEVELS, StoreStats, TreeStats};
pub use tree::{Range, Tree, Walk};

use damage::{Depth, Report};
use dir::Dir;
use parking_lot::Mutex;
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
};
use tokio::sync::oneshot;

/// Longest key that the store takes, bytes: fjall keeps a key's length in 16 bits.
pub const MAX_KEY: usize = u16::MAX as usize;

/// An open store. The last clone's drop ends its threads, syncs and unlocks the directory.
#[derive(Clone)]
pub struct Store(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Which file they write.
    backups: Mutex<Vec<(PathBuf, JoinHandle<()>)>>,
}

/// A store opened for the command line: without threads, and nobody writes.
pub struct Offline {
    tree: Tree,
    dir: Dir,
}
impl Offline {
    /// Opens a store that is there.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(dir: &Path, settings: StoreSettings) -> Result<Offline, String> {
        if !database(dir).is_dir() {
            return Err(format!("{}: holds no store", dir.display()));
        }
        let (dir, tree) = unlock(dir, &settings)?;
        Ok(Offline { tree, dir })
    }
    /// Its entries.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
    /// Drops what was overwritten, deleted or has expired.
    ///
    /// # Errors
    /// A text that names the store.
    pub fn compact(&self) -> Result<(), String> {
        self.tree.compact()
    }
}
impl Drop for Offline {
    fn drop(&mut self) {
        close(&self.tree, &self.dir);
    }
}

/// Locks and checks the directory, and opens what is in it.
fn unlock(dir: &Path, settings: &StoreSettings) -> Result<(Dir, Tree), String> {
    let dir = Dir::lock(dir)?;
    // fjall would pass over some damage in silence, and does not name the file where it sees it.
    refuse(damage::check(dir.path(), Depth::Opening))?;
    damage::note_opened(dir.path()).map_err(|error| format!("disk store {}: {error}", dir.path().display()))?;
    let tree = Tree::open(&dir, settings)
        .map_err(|error| refuse(damage::check(dir.path(), Depth::All)).err().unwrap_or(error))?;
    Ok((dir, tree))
}
/// Syncs, and notes that all that was written is there. The error is why it takes no more writes.
fn close(tree: &Tree, dir: &Dir) -> Option<String> {
    match tree.sync_all().map(|()| damage::note_closed(dir.path())) {
        Err(error) => return Some(error),
        Ok(Err(error)) => tracing::warn!("disk store {}: {error}", dir.path().display()),
        Ok(Ok(())) => {}
    }
    None
}

/// What the store's threads share.
struct Shared {
    settings: StoreSettings,
    reads: readers::Queue,
    scans: readers::Queue,
    counting: counting::Waiting,
    writes: committer::Queue,
    upkeep: upkeep::Signal,
    counts: stats::Counts,
    poison: Poison,
    /// Backups end.
    closing: AtomicBool,
    tree: Tree,
    // Last: the directory is unlocked when nothing uses it any more.
    dir: Dir,
}

/// Who is told, once, that the store takes no more writes.
pub type OnPoison = Box<dyn Fn(&Arc<str>) + Send + Sync>;

/// Why the store takes no more writes.
struct Poison {
    reason: OnceLock<Arc<str>>,
    told: OnPoison,
}
impl Poison {
    fn set(&self, dir: &Path, error: &str) -> Arc<str> {
        let reason = self.reason.get_or_init(|| {
            let reason: Arc<str> =
                format!("disk store {} takes no writes until it is restarted, since: {error}", dir.display()).into();
            tracing::error!("{reason}");
            (self.told)(&reason);
            reason
        });
        reason.clone()
    }
    fn reason(&self) -> Option<Arc<str>> {
        self.reason.get().cloned()
    }
}

impl Store {
    /// Opens the store in `dir`, or makes one where there is nothing.
    ///
    /// # Errors
    /// A text that names the directory or file: it is in use, not a store, of another version, damaged, or the system refuses.
    pub fn open(dir: &Path, settings: StoreSettings, told: OnPoison) -> Result<Store, String> {
        let (dir, tree) = unlock(dir, &settings)?;
        let shared = Arc::new(Shared {
            settings,
            reads: readers::Queue::default(),
            scans: readers::Queue::default(),
            counting: counting::Waiting::default(),
            writes: committer::Queue::default(),
            upkeep: upkeep::Signal::default(),
            counts: stats::Counts::default(),
            poison: Poison { reason: OnceLock::new(), told },
            closing: AtomicBool::new(false),
            tree,
            dir,
        });
        let mut owner = Owner { shared, threads: Vec::new(), backups: Mutex::default() };
        for at in 0..settings.threads {
            owner.start(&format!("store-read-{at}"), readers::run)?;
        }
        owner.start("store-scan", readers::run_scans)?;
        owner.start("store-write", committer::run)?;
        owner.start("store-upkeep", upkeep::run)?;
        Ok(Store(Arc::new(owner)))
    }
    /// Where it is.
    pub fn dir(&self) -> &Path {
        self.0.shared.dir.path()
    }
    /// Why it takes no more writes, if so.
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.0.shared.poison.reason()
    }
    /// How it stands.
    pub fn stats(&self) -> StoreStats {
        self.0.shared.stats()
    }
    /// Writes all entries as they are now into a new file of `dir`, which is made if its parent is there, on a thread of its own.
    /// If the store is closed meanwhile it ends without one.
    ///
    /// # Errors
    /// The system has no thread, or the file is being written ([`AlreadyExists`](io::ErrorKind::AlreadyExists)); then those of [`Tree::backup`].
    pub fn backup(&self, dir: PathBuf, name: &str) -> io::Result<oneshot::Receiver<io::Result<backup::Copied>>> {
        let (reply, answer) = oneshot::channel();
        let (shared, to) = (self.0.shared.clone(), dir.join(name));
        let mut backups = self.0.backups.lock();
        backups.retain(|(_, backup)| !backup.is_finished());
        if backups.iter().any(|(other, _)| *other == to) {
            let text = format!("{}: is being written", to.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let thread = std::thread::Builder::new().name("store-backup".to_string());
        let file = to.clone();
        let started = thread.spawn(move || {
            let made = match std::fs::create_dir(&dir) {
                Err(error) if !dir.is_dir() => {
                    Err(io::Error::other(format!("{}: cannot be made: {error}", dir.display())))
                }
                _ => Ok(()),
            };
            // Nobody may be waiting any more; the file is there all the same.
            let _ = reply.send(made.and_then(|()| shared.tree.backup(&to, &shared.closing)));
        });
        backups.push((file, started?));
        Ok(answer)
    }
    /// Has readers' threads run these.
    pub fn read(&self, work: impl IntoIterator<Item = Work>) {
        self.0.shared.reads.push(work);
    }
    /// Counts the entries, however many ask at once; nobody's reads wait for it. The answer of a thread that died is none.
    pub fn count(&self) -> oneshot::Receiver<Result<u64, String>> {
        let (answer, waiting) = (self.0.shared.counting.join(), self.0.shared.counting.clone());
        let work: Work = Box::new(move |tree| waiting.count(tree));
        self.0.shared.scans.push([work]);
        answer
    }
    /// Hands changes to the committer, in their order. The answers come by way of `to` when they are as durable as promised; at once, if it does not take
    /// a change ([`WriteError::Refused`]: poisoned, or too much waits already). The answer of a thread that died is none.
    pub fn write(&self, changes: impl IntoIterator<Item = Written>, to: &Arc<Replies>) {
        let shared = &self.0.shared;
        match shared.poison.reason() {
            None => shared.writes.push(changes, to, shared.settings.max_waiting),
            // Nobody may be waiting any more.
            Some(reason) => changes.into_iter().for_each(|(_, sender)| {
                let _ = sender.send(Err(WriteError::Refused(reason.clone())));
            }),
        }
    }
}

impl Owner {
    fn start(&mut self, name: &str, run: fn(&Shared)) -> Result<(), String> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name(name.to_string()).spawn(move || run(&shared));
        self.threads.push(thread.map_err(|error| format!("cannot start a thread: {error}"))?);
        Ok(())
    }
}
impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.closing.store(true, Relaxed);
        self.shared.reads.stop();
        self.shared.scans.stop();
        self.shared.writes.stop();
        // The committer first: what it has taken is synced by the upkeep's last round, so that one is stopped after it.
        let upkeep = self.threads.pop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        for (_, backup) in self.backups.get_mut().drain(..) {
            let _ = backup.join();
        }
        self.shared.upkeep.stop();
        if let Some(upkeep) = upkeep {
            let _ = upkeep.join();
        }
    }
}

fn refuse(Report { problems, notes, .. }: Report) -> Result<(), String> {
    notes.iter().for_each(|note| tracing::warn!("disk store: {note}"));
    match problems.is_empty() {
        true => Ok(()),
        false => Err(format!("disk store: damaged: {}", problems.join("; "))),
    }
}

/// The path of fjall's own directory.
fn database(dir: &Path) -> PathBuf {
    dir.join("db")
}
