//! An open store: its threads, and what is asked of them.
use super::{
    backup,
    backup_jobs::{BackupJobs, BackupStatus},
    batch_writer::BatchWriter,
    cached_reads::Cached,
    change::{StoreChange, WriteError},
    commit_replies::CommitReplies,
    committer,
    counting::Waiting,
    in_place, maintenance, opening,
    read_queue::{ReadQueue, Work},
    readers,
    settings::StoreSettings,
    shared::Shared,
    stats::{Counts, StoreStats},
    stop_signal::StopSignal,
    write_gate::Gate,
    write_queue::{WriteQueue, Written},
    write_stop_reason::{OnPoison, Poison},
};
use crate::StoredValue;
use larder_engine::Millis;
use parking_lot::Mutex;
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
};
use tokio::sync::oneshot;

/// An open store. The last clone's drop ends its threads, syncs and unlocks the directory.
#[derive(Clone)]
pub struct Store(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    backups: BackupJobs,
}

impl Store {
    /// Opens the store in `dir`, or makes one where there is nothing.
    ///
    /// # Errors
    /// A text that names the directory or file: it is in use, not a store, of another version,
    /// damaged, or the system refuses.
    pub fn open(dir: &Path, settings: StoreSettings, told: OnPoison) -> Result<Store, String> {
        let (dir, tree) = opening::open(dir, &settings)?;
        let shared = Arc::new(Shared {
            settings,
            reads: ReadQueue::default(),
            scans: ReadQueue::default(),
            counting: Waiting::default(),
            writes: WriteQueue::default(),
            writer: Mutex::new(BatchWriter::default()),
            gate: Gate::default(),
            upkeep: StopSignal::default(),
            counts: Counts::default(),
            poison: Poison::new(told),
            closing: AtomicBool::new(false),
            tree,
            dir,
        });
        let mut owner = Owner { shared, threads: Vec::new(), backups: BackupJobs::default() };
        for at in 0..settings.threads {
            owner.start(&format!("store-read-{at}"), readers::run)?;
        }
        owner.start("store-scan", readers::run_scans)?;
        owner.start("store-write", committer::run)?;
        owner.start("store-upkeep", maintenance::run)?;
        Ok(Store(Arc::new(owner)))
    }
    /// What its threads share.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }
    /// Where it is.
    pub fn dir(&self) -> &Path {
        self.shared().dir.path()
    }
    /// Why it takes no more writes, if so.
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.shared().poison.reason()
    }
    /// How it stands.
    pub fn stats(&self) -> StoreStats {
        self.shared().stats()
    }
    /// Writes all entries as they are now into a new file of `dir`, which is made if its parent is
    /// there, on a thread of its own. If the store is closed meanwhile it ends without one.
    ///
    /// # Errors
    /// The system has no thread, or the file is being written
    /// ([`AlreadyExists`](io::ErrorKind::AlreadyExists)); then those of
    /// [`Tree::backup`](super::Tree::backup).
    pub fn backup(&self, dir: PathBuf, name: &str) -> io::Result<oneshot::Receiver<io::Result<backup::Copied>>> {
        self.0.backups.begin(self.shared(), dir, name)
    }
    /// The running backups and the latest that have ended, the newest first.
    pub fn backups(&self) -> Vec<BackupStatus> {
        self.0.backups.list()
    }
    /// Has readers' threads run these.
    pub fn read(&self, work: impl IntoIterator<Item = Work>) {
        self.shared().reads.push(work);
    }
    /// The entry of a key at `now`, if memory is enough to tell: for a core, as it waits for nothing.
    ///
    /// # Errors
    /// As [`Tree::get`](super::Tree::get).
    pub fn get_cached(&self, key: &[u8], now: Millis) -> Result<Cached<Option<StoredValue>>, String> {
        let shared = self.shared();
        // Both hold a lock that each read needs, while they sync.
        if !shared.gate.is_calm() || shared.tree.is_compacting() {
            return Ok(Cached::Unknown);
        }
        let found = shared.tree.get_cached(key, now)?;
        Counts::add(&shared.counts.cached_reads, u64::from(found != Cached::Unknown));
        Ok(found)
    }
    /// Counts the entries, however many ask at once; no reads wait for it. The answer of a thread
    /// that died is none.
    pub fn count(&self) -> oneshot::Receiver<Result<u64, String>> {
        let (answer, waiting) = (self.shared().counting.join(), self.shared().counting.clone());
        let work: Work = Box::new(move |tree| waiting.count(tree));
        self.shared().scans.push([work]);
        answer
    }
    /// Writes a change, if this thread can without waiting for the disk ([`in_place`]). The answer is as
    /// that of [`write`](Store::write). `None`: nothing is written, and this is for `write`.
    pub fn write_now(&self, change: &StoreChange) -> Option<Result<(), WriteError>> {
        in_place::write(self.shared(), change)
    }
    /// Like `write_now`, for one entry, which is stored, or with `None` deleted.
    pub fn write_entry_now(&self, key: &[u8], to: Option<&StoredValue>) -> Option<Result<(), WriteError>> {
        in_place::write_entry(self.shared(), key, to)
    }
    /// Hands over changes, which are written in their order and after those of earlier calls. They are
    /// answered by way of `to` when they are as durable as promised. Changes that the store does not
    /// take are refused at once ([`WriteError::Refused`]: poisoned, or too much waits already). The
    /// answer of a thread that died is none.
    pub fn write(&self, changes: Vec<Written>, to: &Arc<CommitReplies>) {
        let shared = self.shared();
        match shared.poison.reason() {
            None => shared.writes.push(changes, to, shared.settings.max_waiting),
            // The receiver may be gone.
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
        // The committer first: what it has taken is synced by the upkeep's last round, so that one is
        // stopped after it.
        let upkeep = self.threads.pop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.backups.join();
        self.shared.upkeep.stop();
        if let Some(upkeep) = upkeep {
            let _ = upkeep.join();
        }
    }
}
