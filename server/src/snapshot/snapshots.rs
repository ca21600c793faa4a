//! Begins saves and the load, each on a thread of its own, and says how far they are.
use super::saved_state::{LastSave, LoadStatus, SaveRefused, SnapshotStatus};
use crate::{
    config::{Settings, SnapshotSettings},
    lifecycle::RunError,
};
use larder_engine::{Cache, Millis};
use larder_store::{
    clock,
    snapshot::{self, Load, Loaded, SaveProgress, Scrutiny, SnapshotReader},
};
use parking_lot::Mutex;
use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// A save in the background rests after it has worked for this long, for four times as long as it has worked: where requests have one core with it, they
/// keep four fifths of it. Its priority is the usual one: a thread of a low one that other programs preempt while it holds a shard's lock would hold up all
/// requests until it runs again.
const WORK: Duration = Duration::from_micros(100);
/// What it rests at most, where it was preempted meanwhile.
const LONGEST_REST: Duration = Duration::from_millis(1);

/// The snapshots of this process.
pub struct Snapshots {
    settings: SnapshotSettings,
    /// The groups that are in snapshots.
    groups: Vec<(String, Arc<Cache>)>,
    state: Mutex<State>,
    /// Ends the save under way.
    cancel: AtomicBool,
    /// Saves that have ended.
    ended: watch::Sender<u64>,
    /// The load is under way: what readiness looks at.
    is_loading: AtomicBool,
}

struct State {
    saving: Option<Saving>,
    last: Option<LastSave>,
    last_success: Millis,
    saves: u64,
    load: LoadStatus,
    /// When the last save began, for the interval.
    begun: Instant,
}

struct Saving {
    since: Instant,
    progress: SaveProgress,
    /// Entries of the tiers when it began.
    entries: u64,
}

impl Snapshots {
    /// Nothing is read or written yet. `caches` are those of the settings' groups.
    pub fn new(settings: &Settings, caches: &[Arc<Cache>]) -> Arc<Snapshots> {
        let groups = settings.groups.iter().zip(caches).filter(|(group, _)| group.outside_snapshots().is_none());
        Arc::new(Snapshots {
            settings: settings.snapshot.clone(),
            groups: groups.map(|(group, cache)| (group.name.clone(), cache.clone())).collect(),
            state: Mutex::new(State {
                saving: None,
                last: None,
                last_success: clock::now(),
                saves: 0,
                load: LoadStatus::None,
                begun: Instant::now(),
            }),
            cancel: AtomicBool::new(false),
            ended: watch::Sender::new(0),
            is_loading: AtomicBool::new(false),
        })
    }

    /// Everything that is known.
    pub fn status(&self) -> SnapshotStatus {
        let state = self.state.lock();
        SnapshotStatus {
            file: self.settings.file.as_ref().map(|file| file.display().to_string()),
            saving: state.saving.as_ref().map(|saving| (saving.progress, saving.since.elapsed(), saving.entries)),
            last: state.last.clone(),
            last_success: state.last_success,
            saves: state.saves,
            load: state.load.clone(),
        }
    }

    /// Whether the load is under way.
    pub fn is_loading(&self) -> bool {
        self.is_loading.load(Relaxed)
    }

    /// Begins a save in the background.
    ///
    /// # Errors
    /// See [`SaveRefused`].
    pub fn begin_save(self: &Arc<Self>) -> Result<(), SaveRefused> {
        self.begin(true).map(drop)
    }

    /// Gives what tells of the end of this save.
    fn begin(self: &Arc<Self>, in_background: bool) -> Result<watch::Receiver<u64>, SaveRefused> {
        let file = self.settings.file.clone().ok_or(SaveRefused::Off)?;
        let mut state = self.state.lock();
        if state.saving.is_some() {
            return Err(SaveRefused::InProgress);
        }
        if self.is_loading() {
            return Err(SaveRefused::Loading);
        }
        let entries = self.groups.iter().map(|(_, cache)| cache.stats().entries).sum();
        self.cancel.store(false, Relaxed);
        let this = self.clone();
        let work = move || this.save(&file, in_background);
        thread::Builder::new().name("snapshot".into()).spawn(work).map_err(|_| SaveRefused::NoThread)?;
        let since = Instant::now();
        (state.saving, state.begun) = (Some(Saving { since, progress: SaveProgress::default(), entries }), since);
        // Ends are told under the lock: this one is still to come, and all before it have come.
        Ok(self.ended.subscribe())
    }

    /// The whole save, on its thread.
    fn save(&self, file: &Path, in_background: bool) {
        let begun = Instant::now();
        let mut rested = begun;
        let groups: Vec<_> = self.groups.iter().map(|(name, cache)| (name.as_str(), &**cache)).collect();
        let mut step = |progress| {
            if self.cancel.load(Relaxed) {
                return Err(io::Error::other("called off: the server shuts down"));
            }
            if let Some(saving) = &mut self.state.lock().saving {
                saving.progress = progress;
            }
            let worked = rested.elapsed();
            if in_background && worked >= WORK {
                thread::sleep((worked * 4).min(LONGEST_REST));
                rested = Instant::now();
            }
            Ok(())
        };
        let saved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            snapshot::save(file, &groups, self.settings.compression, &mut step)
        }));
        let took = begun.elapsed();
        let result = match saved {
            Ok(Ok(saved)) => Ok(SaveProgress { entries: saved.entries(), bytes: saved.bytes }),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the save panicked".to_owned()),
        };
        match &result {
            Ok(SaveProgress { entries, bytes }) => {
                tracing::info!(file = %file.display(), entries, bytes, ms = took.as_millis() as u64, "snapshot written");
            }
            Err(error) => tracing::error!("no snapshot was written, the last one is as it was: {error}"),
        }
        let mut state = self.state.lock();
        let now = clock::now();
        if result.is_ok() {
            state.last_success = now;
            state.saves += 1;
        }
        state.last = Some(LastSave { at: now, took, result });
        state.saving = None;
        self.ended.send_modify(|ended| *ended += 1);
    }

    /// Begins a save and waits for its end.
    ///
    /// # Errors
    /// Why none was begun, or why it failed.
    pub async fn save_and_wait(self: &Arc<Self>) -> Result<SaveProgress, String> {
        let mut ended = self.begin(true).map_err(|refused| refused.to_string())?;
        self.next_end(&mut ended).await
    }

    /// The sender lives in `self`, so waiting cannot fail.
    async fn next_end(&self, ended: &mut watch::Receiver<u64>) -> Result<SaveProgress, String> {
        let _ = ended.changed().await;
        self.state.lock().last.clone().map_or_else(|| Err("it was not begun".to_owned()), |last| last.result)
    }

    /// The last save of the process: one that is under way is called off, as it lacks what was written since. Nothing without a file, or while the load is
    /// under way.
    pub async fn save_at_end(self: &Arc<Self>) {
        if self.settings.file.is_none() {
            return;
        }
        let mut others = self.ended.subscribe();
        loop {
            match self.begin(false) {
                Ok(mut ended) => {
                    // The log says what came of it.
                    let _ = self.next_end(&mut ended).await;
                    return;
                }
                Err(SaveRefused::InProgress) => {
                    self.cancel.store(true, Relaxed);
                    let _ = self.next_end(&mut others).await;
                }
                Err(refused) => {
                    tracing::warn!("no snapshot is written at the end: {refused}");
                    return;
                }
            }
        }
    }

    /// The process ends now: a save that is under way leaves nothing behind.
    pub async fn call_off(&self) {
        self.cancel.store(true, Relaxed);
        let mut ended = self.ended.subscribe();
        if self.state.lock().saving.is_some() {
            let _ = ended.changed().await;
        }
    }

    /// Begins a save if the interval is over. To be called now and then.
    pub fn tick(self: &Arc<Self>) {
        let Some(interval) = self.settings.interval else { return };
        if self.state.lock().begun.elapsed() < interval {
            return;
        }
        match self.begin_save() {
            // The next tick is soon enough.
            Ok(()) | Err(SaveRefused::InProgress | SaveRefused::Loading) => {}
            Err(refused) => {
                tracing::error!("no snapshot was written: {refused}");
                self.state.lock().begun = Instant::now();
            }
        }
    }

    /// Cleans up after processes that were killed, and begins the load if one is wanted. Before anybody is served: from then on changes are noted.
    ///
    /// # Errors
    /// The file is damaged, or no snapshot of this format.
    pub fn start(self: &Arc<Self>) -> Result<(), RunError> {
        let Some(file) = &self.settings.file else { return Ok(()) };
        if let Err(error) = snapshot::remove_leftovers(file) {
            tracing::warn!(file = %file.display(), "cannot look for what earlier snapshots have left: {error}");
        }
        if !self.settings.restore {
            return Ok(());
        }
        let total = match self.check(file)? {
            Some(total) => total,
            None => return Ok(()),
        };
        let load = Load::new(self.groups.iter().map(|(name, cache)| (name.as_str(), cache)));
        let since = clock::now();
        self.state.lock().load = LoadStatus::Loading { loaded: Loaded::default(), bytes: 0, total, since };
        self.is_loading.store(true, Relaxed);
        let (this, file) = (self.clone(), file.clone());
        thread::Builder::new().name("restore".into()).spawn(move || this.load(&file, &load, total, since))?;
        Ok(())
    }

    /// Whether there is a file that can be loaded, and its bytes.
    fn check(&self, file: &Path) -> Result<Option<u64>, RunError> {
        let checked = SnapshotReader::open(file).and_then(|mut reader| {
            let known = |name: &&String| !self.groups.iter().any(|(group, _)| group == *name);
            for name in reader.header().groups.iter().filter(known) {
                tracing::warn!("group `{name}` of the snapshot is not loaded: there is no such group, or its entries are not restored");
            }
            reader.check(Scrutiny::Checksum)
        });
        match checked {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {
                tracing::info!("there is no snapshot yet to restore: {error}");
                return Ok(None);
            }
            Err(error) if error.is_damage() && self.settings.salvage => {
                tracing::warn!("what is before the damage is loaded: {}", error.of_file(file));
            }
            Err(error) => {
                let is_damage = error.is_damage();
                return Err(RunError::Snapshot { reason: error.of_file(file).to_string(), is_damage });
            }
        }
        Ok(Some(fs::metadata(file)?.len()))
    }

    /// The whole load, on its thread.
    fn load(&self, file: &Path, load: &Load, total: u64, since: Millis) {
        let begun = Instant::now();
        let mut latest = Loaded::default();
        let mut step = |loaded: &Loaded, bytes| {
            latest = loaded.clone();
            self.state.lock().load = LoadStatus::Loading { loaded: loaded.clone(), bytes, total, since };
            Ok(())
        };
        let loaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| load.run(file, &mut step)));
        let (loaded, damage) = match loaded {
            Ok(Ok(loaded)) => (loaded, None),
            Ok(Err(error)) => (latest, Some(error.to_string())),
            Err(_) => (latest, Some("the load panicked".to_owned())),
        };
        let Loaded { restored, expired, overtaken, too_large, skipped } = loaded;
        let ms = begun.elapsed().as_millis() as u64;
        match &damage {
            None => {
                tracing::info!(restored, expired, overtaken, too_large, skipped, ms, "snapshot loaded");
            }
            Some(damage) => tracing::warn!(restored, ms, "the snapshot was loaded up to a fault: {damage}"),
        }
        self.state.lock().load = LoadStatus::Done(loaded, damage);
        self.is_loading.store(false, Relaxed);
    }

    /// How much of the load is done, per cent.
    pub fn loaded_per_cent(&self) -> u64 {
        match &self.state.lock().load {
            LoadStatus::Loading { bytes, total, .. } => (bytes * 100).checked_div(*total).unwrap_or(0),
            LoadStatus::None | LoadStatus::Done(..) => 100,
        }
    }
}
