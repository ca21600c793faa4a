//! Copies of sources that announce changes, after a restart: their keys are read from the source
//! again, the most read ones first, and compared with the file.
//!
//! ```text
//!   FILE ─ a pass for each class of hotness (the `restore` thread, `restore-verify-rate`) ─► batches ─► worker 0: fetches like those of misses ─► tier
//! ```
//!
//! The value in the file is only compared. What the tier gets is what the source answers, under the
//! rules of every fetch: the source has promised to announce the next change, and a change that
//! comes meanwhile fences the fetch. So a key that is not verified yet is a miss, and a client that
//! asks for it has it verified at once (docs/decisions/0055-restored-copies-are-read-again.md).
use super::{
    place::SnapshotFile,
    saved_state::VerificationStatus,
    snapshots::{GroupInSnapshots, Snapshots},
    verification_state::{Batch, BatchSender, RestoredKey, Seen},
};
use crate::read::{Group, Groups};
use bytes::Bytes;
use larder_engine::{PolicyState, Wait};
use larder_source::{Fetch, SourceError};
use larder_store::{
    clock,
    snapshot::{SavedEntry, Scrutiny, SnapshotError, digest},
};
use std::{
    rc::Rc,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

/// Keys that are read from the source at a time, at most. Clients' fetches stand behind so many.
const AT_A_TIME: usize = 32;
/// Batches per second, at least, if the rate allows it.
const BATCHES: u32 = 20;
/// After a source did not answer, it is asked again after this time.
const PAUSE: Duration = Duration::from_millis(250);

/// How hot an entry was, 7 the hottest: how often it was read, and then the queue.
fn hotness(policy: PolicyState) -> usize {
    usize::from(policy.frequency & 3) * 2 + usize::from(policy.is_main)
}

impl Snapshots {
    /// Sends the keys of groups that are verified to the worker, at the rate of the settings. Ends
    /// when all are sent or the worker has ended.
    pub(super) fn feed(&self, file: &SnapshotFile, batches: BatchSender) {
        // The first pass counts the other classes, so that empty ones cost no pass.
        let mut counts = [0_u64; 8];
        let mut pace = Pace { next: Instant::now(), rate: self.settings.verify_rate };
        for class in (0..counts.len()).rev() {
            let is_first = class == counts.len() - 1;
            if !is_first && counts[class] == 0 {
                continue;
            }
            let fed = self.feed_class(file, class, &batches, &mut pace, |entry| {
                if is_first {
                    counts[hotness(entry.policy)] += 1;
                    self.verification.entries.fetch_add(1, Relaxed);
                }
            });
            match fed {
                Ok(true) => {}
                Ok(false) => return,
                // The start has said so already, or the load has.
                Err(error) => tracing::debug!("keys are verified up to a fault of the snapshot: {error}"),
            }
        }
    }

    /// One pass. False: the receiver of the batches is gone.
    fn feed_class(
        &self,
        file: &SnapshotFile,
        class: usize,
        batches: &BatchSender,
        pace: &mut Pace,
        mut look: impl FnMut(&SavedEntry<'_>),
    ) -> Result<bool, SnapshotError> {
        let mut reader = file.reader()?;
        let number = |name: &String| {
            let verified = |group: &&GroupInSnapshots| group.is_verified && group.name == *name;
            self.groups.iter().find(verified).map(|group| group.number)
        };
        let groups: Vec<Option<usize>> = reader.header().groups.iter().map(number).collect();
        let mut batch = Batch { group: 0, keys: Vec::new() };
        while let Some(block) = reader.next_block(Scrutiny::Entries)? {
            let Some(group) = groups[block.group] else { continue };
            if batch.group != group && !pace.send(&mut batch, batches) {
                return Ok(false);
            }
            batch.group = group;
            for entry in block.entries() {
                look(&entry);
                if hotness(entry.policy) != class {
                    continue;
                }
                let key = Bytes::copy_from_slice(entry.key);
                batch.keys.push(RestoredKey { key, digest: entry.digest(), policy: entry.policy });
                if batch.keys.len() >= pace.at_a_time() && !pace.send(&mut batch, batches) {
                    return Ok(false);
                }
            }
        }
        Ok(pace.send(&mut batch, batches))
    }

    /// Reads the keys of restored entries from their sources. To be run by one worker; ends when
    /// there is nothing to verify any more.
    pub async fn verify(&self, groups: &Groups<Rc<Group>>) {
        let Some(mut batches) = self.verification.take() else { return };
        let begun = Instant::now();
        while let Some(Batch { group, keys }) = batches.recv().await {
            self.verify_batch(groups.at(group), keys).await;
        }
        self.verification.is_done.store(true, Relaxed);
        if let Some(VerificationStatus { entries, same, changed, gone, overtaken, .. }) = self.verification.status() {
            let ms = begun.elapsed().as_millis() as u64;
            tracing::info!(
                entries,
                same,
                changed,
                gone,
                overtaken,
                ms,
                "restored copies were read from the source again"
            );
        }
    }

    async fn verify_batch(&self, group: &Group, mut keys: Vec<RestoredKey>) {
        loop {
            let mut waits: Vec<(RestoredKey, Wait)> = Vec::with_capacity(keys.len());
            let mut fetches = Vec::new();
            for restored in keys.drain(..) {
                let key = group.cache.key(&restored.key);
                let now = clock::now();
                let is_held = group.cache.tier().peek(key, now, |_| ()).is_some();
                if is_held || group.policy.denies(&restored.key) {
                    self.overtaken(group, &restored);
                    continue;
                }
                match group.cache.fetch(key, b"", now) {
                    (wait, Some(lead)) => {
                        fetches.push(Fetch::new(lead, group.policy.clone()));
                        waits.push((restored, wait));
                    }
                    // A client is reading it.
                    (_, None) => self.overtaken(group, &restored),
                }
            }
            if !fetches.is_empty() {
                group.source.fetch(&mut fetches);
            }
            for (restored, wait) in waits {
                let seen = seen(Group::end(wait).await, restored.digest);
                self.verification.count(&seen);
                match seen {
                    Seen::Unknown => keys.push(restored),
                    Seen::Same | Seen::Changed => recall(group, &restored),
                    Seen::Gone => {}
                }
            }
            if keys.is_empty() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn overtaken(&self, group: &Group, restored: &RestoredKey) {
        recall(group, restored);
        self.verification.overtaken.fetch_add(1, Relaxed);
    }
}

fn recall(group: &Group, restored: &RestoredKey) {
    group.cache.tier().recall(group.cache.key(&restored.key), restored.policy, clock::now());
}

fn seen(answer: Result<Option<Bytes>, SourceError>, before: u64) -> Seen {
    match answer {
        Ok(Some(value)) if digest(&value) == before => Seen::Same,
        Ok(Some(_)) => Seen::Changed,
        Ok(None) => Seen::Gone,
        Err(error) if error.is_unavailable() => Seen::Unknown,
        // Of another type, or too large now.
        Err(_) => Seen::Changed,
    }
}

/// Holds a rate: what was missed is not caught up.
struct Pace {
    next: Instant,
    /// Keys per second.
    rate: u32,
}

impl Pace {
    /// Keys of a batch.
    fn at_a_time(&self) -> usize {
        ((self.rate / BATCHES) as usize).clamp(1, AT_A_TIME)
    }

    /// Sends a batch, which is empty then, when its time has come. False: the receiver is gone.
    fn send(&mut self, batch: &mut Batch, to: &BatchSender) -> bool {
        if batch.keys.is_empty() {
            return true;
        }
        let now = Instant::now();
        thread::sleep(self.next.saturating_duration_since(now));
        let keys = std::mem::take(&mut batch.keys);
        self.next = self.next.max(now) + Duration::from_secs_f64(keys.len() as f64 / f64::from(self.rate));
        to.blocking_send(Batch { group: batch.group, keys }).is_ok()
    }
}
