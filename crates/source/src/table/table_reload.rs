//! Reload: one thread watches the table's file, and replaces the served table when a new file is in
//! place.
use super::followed_data::{FileStamp, FollowedData};
use crate::{invalidation::Invalidations, source_health::SourceHealth, source_limits::SourceLimits};
use bytes::Bytes;
use larder_base::telemetry::TableSnapshot;
use larder_config::{DataFile, Machine};
use larder_engine::Outside;
use larder_store::{
    clock,
    table::{Position, Table, TableError},
};
use parking_lot::Mutex;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc as std_mpsc,
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot, watch};

/// How often the thread checks the file.
const LOOK: Duration = Duration::from_secs(1);
/// Changed keys per message to the core.
const BATCH: usize = 256;

/// The table that is served, with its generation.
#[derive(Debug)]
pub(super) struct ServedTable {
    pub(super) generation: u64,
    pub(super) table: Arc<Table>,
    pub(super) about: Outside,
}

/// What all cores share.
pub struct TableSetup {
    pub(super) shared: Arc<SharedTable>,
    pub(super) limits: SourceLimits,
    requests: std_mpsc::Sender<ReloadRequest>,
}

pub(super) struct SharedTable {
    path: PathBuf,
    pub(super) health: Arc<SourceHealth>,
    /// The generation of the served table: a core sees with one read whether it has the latest.
    pub(super) generation: AtomicU64,
    pub(super) served: watch::Sender<Arc<ServedTable>>,
    /// The core that announces changes, once there is one.
    pub(super) announcer: Mutex<Option<mpsc::Sender<Swap>>>,
    refused: AtomicU64,
}

enum ReloadRequest {
    /// Reload the file now, after another build if its data file has changed.
    Reload(oneshot::Sender<Result<Reloaded, Arc<str>>>),
    /// The table is built from this data file.
    Follow(DataFile),
    /// Reload the file if its data file has changed.
    LookAtData,
}

/// One table has replaced another.
pub(super) struct Swap {
    old: Arc<Table>,
    new: Arc<Table>,
    /// Receives the number of changed keys once all are announced; `None`: no core can have copies.
    done: oneshot::Sender<Option<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reloaded {
    /// Entries of the table.
    pub entries: u64,
    /// Keys that changed; `None`: no core can have copies, so they were not counted.
    pub changed: Option<u64>,
}

impl TableSetup {
    pub(super) fn open(path: &Path, limits: SourceLimits, health: SourceHealth) -> Result<TableSetup, String> {
        let seen = FileStamp::of(path);
        let table = Arc::new(Table::open(path).map_err(|error| error.to_string())?);
        let served = ServedTable { generation: 1, table, about: Outside::new(1, clock::now()) };
        let shared = Arc::new(SharedTable {
            path: path.to_owned(),
            health: Arc::new(health),
            generation: AtomicU64::new(1),
            served: watch::Sender::new(Arc::new(served)),
            announcer: Mutex::default(),
            refused: AtomicU64::new(0),
        });
        let (requests, asked) = std_mpsc::channel();
        let watcher = FileWatcher { shared: Arc::downgrade(&shared), seen, data: None };
        let thread = std::thread::Builder::new().name("larder-table".into());
        thread.spawn(move || watcher.run(&asked)).map_err(|error| error.to_string())?;
        Ok(TableSetup { shared, limits, requests })
    }

    /// Reloads the file.
    ///
    /// # Errors
    /// Why the file is refused. The table then stays as it is.
    pub async fn reload(&self) -> Result<Reloaded, Arc<str>> {
        let (reply, answer) = oneshot::channel();
        let asked = self.requests.send(ReloadRequest::Reload(reply));
        match answer.await {
            Ok(answer) if asked.is_ok() => answer,
            _ => Err("the table's thread has ended".into()),
        }
    }

    /// Builds the table again from this file at a reload, if the file has changed.
    pub fn follow_data(&self, data: DataFile) {
        // After the end of the thread there is nothing to reload.
        let _ = self.requests.send(ReloadRequest::Follow(data));
    }
    /// Begins to [reload](TableSetup::reload) a table that follows a data file, if the file has
    /// changed. Does not wait for the end.
    pub fn look_at_data(&self) {
        let _ = self.requests.send(ReloadRequest::LookAtData);
    }

    pub fn counts(&self) -> TableSnapshot {
        let ServedTable { table, generation, .. } = &**self.shared.served.borrow();
        TableSnapshot {
            entries: table.len(),
            bytes: table.file_bytes(),
            swaps: generation - 1,
            refused: self.shared.refused.load(Ordering::Relaxed),
        }
    }
}

/// The state of the reload thread.
struct FileWatcher {
    shared: Weak<SharedTable>,
    /// The file at the last check.
    seen: Option<FileStamp>,
    /// What the table is built from.
    data: Option<FollowedData>,
}

impl FileWatcher {
    fn run(mut self, asked: &std_mpsc::Receiver<ReloadRequest>) {
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
            let (is_requested, reply) = match request {
                Some(ReloadRequest::Follow(data)) => {
                    self.data = Some(FollowedData::of(data, &shared.served.borrow().table));
                    continue;
                }
                Some(ReloadRequest::Reload(reply)) => (true, Some(reply)),
                Some(ReloadRequest::LookAtData) => (true, None),
                None => (false, None),
            };
            let data = self.data.as_mut();
            let built = data.and_then(|data| data.is_due(is_requested).then(|| data.build(&shared.path)));
            let now = FileStamp::of(&shared.path);
            // A missing file may be about to be replaced.
            if built.is_none() && reply.is_none() && (now.is_none() || now == self.seen) {
                continue;
            }
            let reloaded = match built {
                Some(Err(why)) => Err(shared.refuse(&why)),
                _ => {
                    self.seen = now;
                    shared.reload()
                }
            };
            if let Some(reply) = reply {
                // The requester may be gone.
                let _ = reply.send(reloaded);
            }
        }
    }
}

impl SharedTable {
    /// Checks the first table in the background and loads it into memory if it fits.
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

    pub(super) fn note(&self, error: &TableError) {
        tracing::error!("{error}");
        self.health.note_error(&error.to_string().into());
    }

    fn refuse(&self, why: &str) -> Arc<str> {
        self.refused.fetch_add(1, Ordering::Relaxed);
        tracing::error!("the table stays as it is: {why}");
        why.into()
    }

    fn reload(&self) -> Result<Reloaded, Arc<str>> {
        let opened = Table::open(&self.path).and_then(|table| {
            table.advise_needed();
            table.check_all()?;
            Ok(Arc::new(table))
        });
        let new = match opened {
            Ok(new) => new,
            Err(error) => return Err(self.refuse(&error.to_string())),
        };
        // Only this thread replaces it.
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        let next = ServedTable { generation, table: new.clone(), about: Outside::new(generation, clock::now()) };
        let old = self.served.send_replace(Arc::new(next)).table.clone();
        self.generation.store(generation, Ordering::Release);
        let (done, changed) = oneshot::channel();
        let announcer = self.announcer.lock().clone();
        let entries = new.len();
        // No core announces, or the server shuts down: no core has copies, either.
        let told = announcer.is_some_and(|announcer| announcer.blocking_send(Swap { old, new, done }).is_ok());
        let changed = if told { changed.blocking_recv().ok().flatten() } else { None };
        tracing::info!(table = %self.path.display(), entries, changed, "a new table is served");
        Ok(Reloaded { entries, changed })
    }
}

/// Announces the changed keys of each new table.
pub(super) async fn announce(mut swaps: mpsc::Receiver<Swap>, to: Arc<dyn Invalidations>) {
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
            // The old table can no longer be read: any key may have changed.
            to.all();
        }
        let _ = done.send(Some(count));
    }
}

/// Sends every key that was changed, removed or added.
fn find_changes(old: &Arc<Table>, new: &Arc<Table>, to: &mpsc::Sender<Vec<Bytes>>) -> Result<(), TableError> {
    let mut batch = Vec::new();
    let mut found = |table: &Arc<Table>, key: &[u8]| {
        batch.push(table.share(key));
        // The receiver is gone: the server shuts down.
        if batch.len() == BATCH { to.blocking_send(std::mem::take(&mut batch)).is_ok() } else { true }
    };
    for entry in old.entries(Position::default()) {
        let (key, value) = entry?;
        if new.get(key)?.as_deref() != Some(&*value) && !found(old, key) {
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
