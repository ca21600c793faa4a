//! Begins saves and the load, each on a thread of its own, and says how far they are.
use super::{
    place::{self, SaveOrder, old_name},
    saved_state::{LastSave, LoadStatus, SaveRefused, SnapshotStatus, Success},
    verification_state::Verification,
};
use crate::read::{Groups, ProcessGroup};
use larder_config::{SavePoint, Settings, SnapshotPlace, SnapshotSettings};
use larder_engine::{Cache, Millis};
use larder_store::{
    clock,
    snapshot::{SaveProgress, SavedGroup},
};
use parking_lot::Mutex;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// A save beside requests rests each time it has worked for this long. Its priority is the usual
/// one: a thread of a low one that other programs preempt while it holds a shard's lock would hold
/// up all requests until it runs again.
const WORK: Duration = Duration::from_micros(50);
/// What it rests at most, where it was preempted meanwhile.
const LONGEST_REST: Duration = Duration::from_millis(1);

/// How a save shares its core with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SavePace {
    /// Rests for four times as long as it has worked: requests on its core keep four fifths of it.
    Background,
    /// Rests for as long as it has worked, because a client waits for its end: clients give a command
    /// a few seconds.
    Awaited,
    /// Never rests: the process ends.
    Last,
}

impl SavePace {
    /// The rest after this much work.
    fn rest(self, worked: Duration) -> Duration {
        let times = match self {
            SavePace::Background => 4,
            SavePace::Awaited => 1,
            SavePace::Last => 0,
        };
        (worked * times).min(LONGEST_REST)
    }
}

pub struct Snapshots {
    pub(super) settings: SnapshotSettings,
    pub(super) groups: Vec<GroupInSnapshots>,
    pub(super) state: Mutex<State>,
    /// Ends the save under way.
    cancel: AtomicBool,
    /// Saves that have ended.
    ended: watch::Sender<u64>,
    /// The load is under way: what readiness looks at.
    pub(super) is_loading: AtomicBool,
    /// The file has what this process has not loaded, so the next save keeps it under another name
    /// if it has entries.
    pub(super) keeps_old: AtomicBool,
    pub(super) verification: Verification,
}

pub(super) struct GroupInSnapshots {
    pub(super) name: String,
    pub(super) cache: Arc<Cache>,
    /// Its place among all groups.
    pub(super) number: usize,
    /// What is restored of it is read from its source before it is served.
    pub(super) is_verified: bool,
}

impl GroupInSnapshots {
    fn to_save(&self) -> SavedGroup<'_> {
        SavedGroup { name: &self.name, cache: &self.cache, with_stale: self.is_verified }
    }
}

pub(super) struct State {
    saving: Option<Saving>,
    last: Option<LastSave>,
    success: Option<Success>,
    /// When the process started.
    started: Millis,
    saves: u64,
    failures: u64,
    pub(super) load: LoadStatus,
    /// What the tiers had counted as changes when the last save that succeeded began, or in the
    /// load.
    pub(super) unchanged: u64,
    /// When the last save began, for the points.
    begun: Instant,
    /// When a save is due. CONFIG SET changes them.
    points: Vec<SavePoint>,
}

struct Saving {
    since: Instant,
    progress: SaveProgress,
    /// Entries of the tiers when it began.
    entries: u64,
    /// What they had counted as changes.
    changes: u64,
}

impl Snapshots {
    /// Nothing is read or written yet.
    pub fn new(settings: &Settings, groups: &Groups<ProcessGroup>) -> Arc<Snapshots> {
        let saved = groups.iter().filter(|group| group.settings.outside_snapshots().is_none());
        let groups = saved.map(|group| GroupInSnapshots {
            name: group.settings.name.clone(),
            cache: group.cache.clone(),
            number: group.number,
            is_verified: group.settings.is_verified(),
        });
        Arc::new(Snapshots {
            settings: settings.snapshot.clone(),
            groups: groups.collect(),
            verification: Verification::default(),
            state: Mutex::new(State {
                saving: None,
                last: None,
                success: None,
                started: clock::wall(),
                saves: 0,
                failures: 0,
                load: LoadStatus::None,
                unchanged: 0,
                begun: Instant::now(),
                points: settings.snapshot.interval.clone(),
            }),
            cancel: AtomicBool::new(false),
            ended: watch::Sender::new(0),
            is_loading: AtomicBool::new(false),
            keeps_old: AtomicBool::new(false),
        })
    }

    /// Everything that is known.
    pub fn status(&self) -> SnapshotStatus {
        let changes = self.changes();
        let state = self.state.lock();
        SnapshotStatus {
            file: self.settings.file.as_ref().map(SnapshotPlace::to_string),
            saving: state.saving.as_ref().map(|saving| (saving.progress, saving.since.elapsed(), saving.entries)),
            last: state.last.clone(),
            success: state.success,
            last_success: state.success.map_or(state.started, |success| success.at),
            saves: state.saves,
            failures: state.failures,
            changes: changes.saturating_sub(state.unchanged),
            load: state.load.clone(),
            verification: self.verification.status(),
        }
    }

    /// What the tiers count as changes.
    pub(super) fn changes(&self) -> u64 {
        self.groups.iter().map(|group| group.cache.stats().changes).sum()
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
        self.begin(SavePace::Background).map(drop)
    }

    /// Gives what tells of the end of this save.
    fn begin(self: &Arc<Self>, pace: SavePace) -> Result<watch::Receiver<u64>, SaveRefused> {
        let file = self.settings.file.clone().ok_or(SaveRefused::Off)?;
        let mut state = self.state.lock();
        if state.saving.is_some() {
            return Err(SaveRefused::InProgress);
        }
        if self.is_loading() {
            return Err(SaveRefused::Loading);
        }
        let entries = self.groups.iter().map(|group| group.cache.stats().entries).sum();
        let changes = self.changes();
        self.cancel.store(false, Relaxed);
        let this = self.clone();
        let work = move || this.save(&file, pace);
        thread::Builder::new().name("snapshot".into()).spawn(work).map_err(|_| SaveRefused::NoThread)?;
        let since = Instant::now();
        (state.saving, state.begun) =
            (Some(Saving { since, progress: SaveProgress::default(), entries, changes }), since);
        // Ends are told under the lock: this one is still to come, and all before it have come.
        Ok(self.ended.subscribe())
    }

    /// The whole save, on its thread.
    fn save(&self, place: &SnapshotPlace, pace: SavePace) {
        let begun = Instant::now();
        let mut rested = begun;
        let groups: Vec<_> = self.groups.iter().map(GroupInSnapshots::to_save).collect();
        let mut step = |progress| {
            if self.cancel.load(Relaxed) {
                return Err(io::Error::other("called off: the server shuts down"));
            }
            if let Some(saving) = &mut self.state.lock().saving {
                saving.progress = progress;
            }
            let worked = rested.elapsed();
            if pace != SavePace::Last && worked >= WORK {
                thread::sleep(pace.rest(worked));
                rested = Instant::now();
            }
            Ok(())
        };
        let is_first = self.keeps_old.load(Relaxed) || self.verification.is_unfinished();
        // The old file may have entries that this one does not have.
        let keeps_old = is_first && !place::is_empty(place);
        let saved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let about = groups.iter().map(|group| group.cache.stats().max_bytes).sum();
            let order = SaveOrder { groups: &groups, compression: self.settings.compression, keeps_old, about };
            place::save(place, &order, &mut step)
        }));
        let took = begun.elapsed();
        let result = match saved {
            Ok(Ok(saved)) => Ok(SaveProgress { entries: saved.entries(), bytes: saved.bytes }),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the save panicked".to_owned()),
        };
        match &result {
            Ok(SaveProgress { entries, bytes }) => {
                tracing::info!(file = %place, entries, bytes, ms = took.as_millis() as u64, "snapshot written");
            }
            Err(error) => tracing::error!("no snapshot was written, the last one is as it was: {error}"),
        }
        let mut state = self.state.lock();
        let now = clock::wall();
        match &result {
            Ok(progress) => {
                state.success = Some(Success { at: now, took, progress: *progress });
                state.unchanged = state.saving.as_ref().map_or(0, |saving| saving.changes);
                state.saves += 1;
                if is_first {
                    self.keeps_old.store(false, Relaxed);
                    self.verification.kept();
                }
                if keeps_old {
                    tracing::warn!(
                        file = old_name(place),
                        "the snapshot before is kept: it was not loaded, or not all of it"
                    );
                }
            }
            Err(_) => state.failures += 1,
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
        let mut ended = self.begin(SavePace::Awaited).map_err(|refused| refused.to_string())?;
        self.next_end(&mut ended).await
    }

    /// The sender lives in `self`, so waiting cannot fail.
    async fn next_end(&self, ended: &mut watch::Receiver<u64>) -> Result<SaveProgress, String> {
        let _ = ended.changed().await;
        self.state.lock().last.clone().map_or_else(|| Err("it was not begun".to_owned()), |last| last.result)
    }

    /// The last save of the process: one that is under way is called off, as it lacks what was
    /// written since. Nothing without a file, or while the load is under way.
    ///
    /// # Errors
    /// Why it failed.
    pub async fn save_at_end(self: &Arc<Self>) -> Result<(), String> {
        if self.settings.file.is_none() {
            return Ok(());
        }
        let mut others = self.ended.subscribe();
        loop {
            match self.begin(SavePace::Last) {
                Ok(mut ended) => return self.next_end(&mut ended).await.map(drop),
                Err(SaveRefused::InProgress) => {
                    self.cancel.store(true, Relaxed);
                    let _ = self.next_end(&mut others).await;
                }
                Err(refused) => {
                    tracing::warn!("no snapshot is written at the end: {refused}");
                    return Ok(());
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

    /// When a save is due.
    pub fn points(&self) -> Vec<SavePoint> {
        self.state.lock().points.clone()
    }

    /// Changes that, until the next start.
    pub fn set_points(&self, points: Vec<SavePoint>) {
        self.state.lock().points = points;
    }

    /// Whether there is a file to write.
    pub fn has_file(&self) -> bool {
        self.settings.file.is_some()
    }

    /// Whether a save is due `after` the last one began.
    fn is_due(&self, after: Duration) -> bool {
        let (least, unchanged) = {
            let state = self.state.lock();
            let over = state.points.iter().filter(|point| point.after <= after);
            (over.map(|point| point.changes).min(), state.unchanged)
        };
        least.is_some_and(|least| least == 0 || self.changes().saturating_sub(unchanged) >= least)
    }

    /// Begins a save if one is due. To be called now and then.
    pub fn tick(self: &Arc<Self>) {
        let after = self.state.lock().begun.elapsed();
        if !self.is_due(after) {
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

    /// How much of the load is done, per cent.
    pub fn loaded_per_cent(&self) -> u64 {
        match &self.state.lock().load {
            LoadStatus::Loading { bytes, total, .. } => (bytes * 100).checked_div(*total).unwrap_or(0),
            LoadStatus::None | LoadStatus::Done(..) => 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Tier;
    use larder_base::buffers::Buffers;
    use larder_engine::{Attributes, Condition, Expiry, Write};
    use larder_source::ServerLoads;

    #[test]
    fn a_save_is_due_after_a_time_with_enough_changes() {
        let args = ["--snapshot-file=x", "--snapshot-interval=1h", "--snapshot-interval=1m:3"];
        let settings = Settings::from_args(&args).expect("settings");
        let tier = Tier::new(&settings.groups[0]);
        let cache = tier.cache.clone();
        let group = ProcessGroup::new(0, tier, &settings, &Buffers::unbounded(), &ServerLoads::default());
        let snapshots = Snapshots::new(&settings, &group.into_iter().collect());
        let due = || [59, 60, 3599, 3600].map(|seconds| snapshots.is_due(Duration::from_secs(seconds)));
        let set = |key: &str| {
            let (value, expiry, attributes, condition) = (b"v", Expiry::Never, Attributes::NONE, Condition::Always);
            let write = Write { value, expiry, attributes, condition };
            cache.tier().set(cache.key(key.as_bytes()), write, 1).expect("room");
        };
        assert_eq!(due(), [false, false, false, true]);
        set("a");
        set("b");
        assert_eq!(due(), [false, false, false, true]);
        set("c");
        assert_eq!(due(), [false, true, true, true]);
        snapshots.set_points(Vec::new());
        assert_eq!(due(), [false; 4]);
    }

    #[test]
    fn a_save_leaves_requests_their_share_of_the_core() {
        let rests = |micros| {
            let worked = Duration::from_micros(micros);
            [SavePace::Background, SavePace::Awaited, SavePace::Last].map(|pace| pace.rest(worked).as_micros())
        };
        assert_eq!(rests(50), [200, 50, 0]);
        // It was preempted: a longer rest would only make the save take longer.
        assert_eq!(rests(700), [1000, 700, 0]);
        assert_eq!(rests(20_000), [1000, 1000, 0]);
    }
}
