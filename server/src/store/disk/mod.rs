//! The durable store (`disk:DIR`): an LSM tree (fjall) behind threads of its own, shared by all cores.
//!
//! ```text
//!  cores ── Work ───────► read queue ──► readers (store-threads) ──► answers on the reader's thread
//!    └───── Op + reply ─► write queue ─► committer: takes all that waits, one batch, one sync ──► replies
//!                                          │ slowed by pressure.rs when flushes or compactions fall behind
//!                           upkeep: syncs (interval), rotates the memtable, looks whether fjall gave up
//!  DIR/larder-store   what this directory is, and in which version     (dir.rs)
//!  DIR/lock           held while the store is open, with our pid
//!  DIR/db/            fjall: N.jnl journals, keyspaces/M/tables/…
//! ```
//!
//! Invariants:
//! - Only the committer writes entries, so what it reads before a write is still so when it writes.
//! - A write that failed in the middle poisons the store: it takes no more writes until it is opened again, for what reached the
//!   disk is not known any more. Reads go on.
//! - An entry that has expired is absent at once; compaction drops it ([`format`](mod@format)).
//! - Nothing here blocks a core: queues are locked for a push, and what waits is a thread of the store.
//!
//! Lock order: a queue's lock is never held while fjall is called.
mod committer;
mod dir;
mod expiry;
mod format;
mod pressure;
mod readers;
#[cfg(test)]
mod tests;
mod tree;
mod upkeep;

pub use committer::{Change, Entry, WriteError};
pub use tree::{Range, Tree, Walk};

use crate::config::StoreSettings;
use dir::Dir;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
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
}

/// What the store's threads share.
struct Shared {
    settings: StoreSettings,
    reads: readers::Queue,
    writes: committer::Queue,
    upkeep: upkeep::Signal,
    poison: Poison,
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
        let dir = Dir::lock(dir)?;
        let tree = Tree::open(&dir, &settings)?;
        let shared = Arc::new(Shared {
            settings,
            reads: readers::Queue::default(),
            writes: committer::Queue::default(),
            upkeep: upkeep::Signal::default(),
            poison: Poison { reason: OnceLock::new(), told },
            tree,
            dir,
        });
        let mut owner = Owner { shared, threads: Vec::new() };
        for at in 0..settings.threads {
            owner.start(&format!("store-read-{at}"), readers::run)?;
        }
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
    /// Has a reader's thread run this.
    pub fn read(&self, work: impl FnOnce(&Tree) + Send + 'static) {
        self.0.shared.reads.push(Box::new(work));
    }
    /// Hands a change to the committer, whose answer comes when it is as durable as promised: whether there was an entry. The answer
    /// of a thread that died is none.
    ///
    /// # Errors
    /// [`WriteError::Refused`]: poisoned, or too much waits already.
    pub fn write(&self, change: Change) -> Result<oneshot::Receiver<Result<bool, WriteError>>, WriteError> {
        let shared = &self.0.shared;
        if let Some(reason) = shared.poison.reason() {
            return Err(WriteError::Refused(reason));
        }
        shared.writes.push(change, shared.settings.max_waiting)
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
        self.shared.reads.stop();
        self.shared.writes.stop();
        // The committer first: what it has taken is synced by the upkeep's last round, so that one is stopped after it.
        let upkeep = self.threads.pop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.shared.upkeep.stop();
        if let Some(upkeep) = upkeep {
            let _ = upkeep.join();
        }
    }
}

/// The path of fjall's own directory.
fn database(dir: &Path) -> PathBuf {
    dir.join("db")
}
