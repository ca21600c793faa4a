//! The backups of an open store, each on a thread of its own, and how far they are.
use super::{backup::Copied, shared::Shared};
use parking_lot::Mutex;
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Backups that have ended and are still told of.
const ENDED: usize = 8;

/// How far a backup is.
#[derive(Debug, Clone)]
pub struct BackupStatus {
    /// The file that it writes.
    pub file: PathBuf,
    /// Entries in the file so far.
    pub entries: u64,
    /// Entries of the store when it began: an estimate, because overwritten and expired ones may
    /// count.
    pub of_entries: u64,
    /// How long it has taken.
    pub took: Duration,
    /// Its outcome; `None` while it runs.
    pub outcome: Option<Result<Copied, String>>,
}

/// All backups of a store.
#[derive(Default)]
pub(super) struct BackupJobs(Mutex<Vec<Job>>);

struct Job {
    file: PathBuf,
    of_entries: u64,
    begun: Instant,
    progress: Arc<Progress>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Progress {
    entries: AtomicU64,
    outcome: OnceLock<(Duration, Result<Copied, String>)>,
}

impl Job {
    fn runs(&self) -> bool {
        self.progress.outcome.get().is_none() && !self.thread.is_finished()
    }

    fn status(&self) -> BackupStatus {
        let (took, outcome) = match self.progress.outcome.get() {
            Some((took, outcome)) => (*took, Some(outcome.clone())),
            None => (self.begun.elapsed(), None),
        };
        let entries = match &outcome {
            Some(Ok(copied)) => copied.entries,
            _ => self.progress.entries.load(Relaxed),
        };
        BackupStatus { file: self.file.clone(), entries, of_entries: self.of_entries, took, outcome }
    }
}

impl BackupJobs {
    /// Begins a backup into a new file of `dir`, which is made if its parent is there.
    ///
    /// # Errors
    /// The system has no thread, or the file is being written
    /// ([`AlreadyExists`](io::ErrorKind::AlreadyExists)).
    pub(super) fn begin(
        &self,
        shared: &Arc<Shared>,
        dir: PathBuf,
        name: &str,
    ) -> io::Result<oneshot::Receiver<io::Result<Copied>>> {
        let (reply, answer) = oneshot::channel();
        let to = dir.join(name);
        let mut jobs = self.0.lock();
        if jobs.iter().any(|job| job.file == to && job.runs()) {
            let text = format!("{}: is being written", to.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let progress = Arc::new(Progress::default());
        let (of_entries, begun) = (shared.tree.approximate_count(), Instant::now());
        let (file, told, shared) = (to.clone(), progress.clone(), shared.clone());
        let write = move || {
            let done = make(&dir).and_then(|()| {
                shared.tree.backup(&to, &shared.closing, &mut |entries| told.entries.store(entries, Relaxed))
            });
            let outcome = done.as_ref().map(|copied| *copied).map_err(io::Error::to_string);
            // It is set once.
            let _ = told.outcome.set((begun.elapsed(), outcome));
            // The receiver may be gone; the file is there nevertheless.
            let _ = reply.send(done);
        };
        let thread = std::thread::Builder::new().name("store-backup".to_string()).spawn(write)?;
        jobs.push(Job { file, of_entries, begun, progress, thread });
        let mut ended = jobs.iter().filter(|job| !job.runs()).count();
        jobs.retain(|job| {
            let goes = ended > ENDED && !job.runs();
            ended -= usize::from(goes);
            !goes
        });
        Ok(answer)
    }

    /// The running backups and the latest that have ended, the newest first.
    pub(super) fn list(&self) -> Vec<BackupStatus> {
        self.0.lock().iter().rev().map(Job::status).collect()
    }

    /// Waits until none runs.
    pub(super) fn join(&mut self) {
        for job in self.0.get_mut().drain(..) {
            let _ = job.thread.join();
        }
    }
}

fn make(dir: &Path) -> io::Result<()> {
    match std::fs::create_dir(dir) {
        Err(error) if !dir.is_dir() => Err(io::Error::other(format!("{}: cannot be made: {error}", dir.display()))),
        _ => Ok(()),
    }
}
