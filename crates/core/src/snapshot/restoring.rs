//! The start: what is left of killed processes is removed, the file is checked, and loaded on a
//! thread of its own while requests are served.
use super::{
    place::{self, SnapshotFile, old_name},
    saved_state::LoadStatus,
    snapshots::Snapshots,
};
use larder_base::lifecycle::RunError;
use larder_config::SnapshotPlace;
use larder_engine::Millis;
use larder_store::{
    clock,
    snapshot::{Load, Loaded, Scrutiny, SnapshotError},
};
use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::Instant,
};

impl Snapshots {
    /// Cleans up after processes that were killed, and begins the load if one is wanted. Before
    /// anybody is served: from then on changes are noted.
    ///
    /// # Errors
    /// The file is damaged, or no snapshot of this format.
    pub fn start(self: &Arc<Self>) -> Result<(), RunError> {
        let Some(place) = &self.settings.file else { return Ok(()) };
        // Apart from this thread, which runs futures already: an object in a bucket needs a runtime.
        let file = thread::scope(|scope| {
            let begin = || {
                if let Err(error) = place::remove_leftovers(place) {
                    tracing::warn!(file = %place, "cannot look for what earlier snapshots have left: {error}");
                }
                if !self.settings.restore {
                    self.keep_unloaded(place);
                    return Ok(None);
                }
                self.check(place)
            };
            scope
                .spawn(begin)
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the check of the snapshot panicked").into()))
        })?;
        let Some(file) = file else { return Ok(()) };
        let total = file.len()?;
        let loaded = self.groups.iter().filter(|group| !group.is_verified);
        let load = Load::new(loaded.map(|group| (group.name.as_str(), &group.cache)));
        let batches = self.groups.iter().any(|group| group.is_verified).then(|| self.verification.begin());
        let since = clock::wall();
        self.state.lock().load = LoadStatus::Loading { loaded: Loaded::default(), bytes: 0, total, since };
        self.is_loading.store(true, Relaxed);
        let this = self.clone();
        let work = move || {
            this.load(&file, &load, total, since);
            drop(load);
            if let Some(batches) = batches {
                this.feed(&file, batches);
            }
        };
        thread::Builder::new().name("restore".into()).spawn(work)?;
        Ok(())
    }

    /// A file that is not loaded may hold the only copy of the data.
    fn keep_unloaded(&self, place: &SnapshotPlace) {
        match place::exists(place) {
            Ok(false) => return,
            Ok(true) => tracing::warn!(
                "snapshot-file is there and is not loaded, as restore is off; the next snapshot keeps it as {}",
                old_name(place)
            ),
            Err(error) => tracing::warn!("cannot look whether there is a snapshot: {error}"),
        }
        self.keeps_old.store(true, Relaxed);
    }

    /// The file, if there is one that can be loaded.
    fn check(&self, place: &SnapshotPlace) -> Result<Option<SnapshotFile>, RunError> {
        let refused = |error: SnapshotError| {
            let is_damage = error.is_damage();
            Err(RunError::Snapshot { reason: error.to_string(), is_damage })
        };
        let file = match place::open(place) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => {
                tracing::info!("there is no snapshot yet to restore: {error}");
                return Ok(None);
            }
            Err(error) => return refused(error),
        };
        let mut reader = match file.reader() {
            Ok(reader) => reader,
            Err(error) => return refused(error),
        };
        match reader.check(Scrutiny::Checksum) {
            Ok(()) => {}
            Err(error) if error.is_damage() && self.settings.salvage => {
                self.keeps_old.store(true, Relaxed);
                let (error, old) = (error.of_file(file.name()), old_name(place));
                tracing::warn!(
                    "what is before the damage is loaded: {error}; the next snapshot keeps the file as {}",
                    old
                );
            }
            Err(error) => return refused(error.of_file(file.name())),
        }
        for (name, totals) in reader.header().groups.iter().zip(reader.totals()) {
            if totals.entries > 0 && !self.groups.iter().any(|group| group.name == *name) {
                self.keeps_old.store(true, Relaxed);
                tracing::warn!(
                    "group `{name}` of the snapshot is not loaded: there is no such group, or its entries are not restored; the next snapshot keeps the file as {}",
                    old_name(place)
                );
            }
        }
        Ok(Some(file))
    }

    /// The whole load, on its thread.
    fn load(&self, file: &SnapshotFile, load: &Load, total: u64, since: Millis) {
        let begun = Instant::now();
        let mut latest = Loaded::default();
        let mut step = |loaded: &Loaded, bytes| {
            latest = loaded.clone();
            self.state.lock().load = LoadStatus::Loading { loaded: loaded.clone(), bytes, total, since };
            Ok(())
        };
        let name = file.name();
        let run = || load.run(file.reader()?, &mut step).map_err(|error| error.of_file(name));
        let loaded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
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
            Some(damage) => {
                self.keeps_old.store(true, Relaxed);
                tracing::warn!(restored, ms, "the snapshot was loaded up to a fault: {damage}");
            }
        }
        let mut state = self.state.lock();
        // What was loaded is in the file already.
        state.unchanged = restored;
        state.load = LoadStatus::Done(loaded, damage);
        drop(state);
        self.is_loading.store(false, Relaxed);
    }
}
