//! Makes the mirror equal to the source.
use super::{DrainedMirror, Mirror, MirrorState, source_pair::SourcePair};
use crate::{
    source_error::SourceError,
    source_health::SourceHealth,
    stored_entries::{HeldEntry, StoredEntries, next_batch},
};
use bytes::Bytes;
use std::{
    mem,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until},
};

/// Keys that are compared together, at most, so that clients of the source do not wait long.
const BATCH: usize = 64;
/// How often a batch is compared before its keys go back to the end of the queue.
const ROUNDS: usize = 3;
/// Few names wait this long for more, so that a hot key is not copied all the time.
const GATHER: Duration = Duration::from_millis(5);
/// Between two attempts while a source gives errors.
const RETRY: Duration = Duration::from_millis(200);
/// Between two looks at the connection to the mirror.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks at a mirror that is refused.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Copies changes of the group's source to its mirror, until [`Mirror::end`]. Nothing if it has none.
pub async fn run(group: &str, pair: &SourcePair) {
    let (Some((_, mirror)), Some([first, second])) = (pair.mirror(), pair.at_start()) else { return };
    let [source, to] = [first, second]
        .map(|setup| End { entries: StoredEntries::of(setup.open(None, false)), health: setup.health().clone() });
    MirrorTask::new(group, mirror.clone(), source, to).run().await;
}

/// The source, or its mirror.
struct End {
    entries: StoredEntries,
    health: Arc<SourceHealth>,
}

/// Which keys are walked over next.
enum Walk {
    /// None before the mirror is seen to be one, and the changes before are copied.
    Check,
    /// Those of the source from here on.
    Source(Option<Bytes>),
    /// Those of the mirror from here on: the source may have deleted some.
    Mirror(Option<Bytes>),
    Done,
}

struct MirrorTask<'g> {
    group: &'g str,
    mirror: Arc<Mirror>,
    source: End,
    to: End,
    /// The two have traded places since the start.
    is_swapped: bool,
    /// Of the mirror. One that was lost may have come back with less.
    reconnects: u64,
    /// It may be written to.
    is_ours: bool,
    walk: Walk,
    /// When the next page is walked over: half of the time belongs to the source's clients.
    walk_from: Instant,
    /// Keys that are compared together.
    batch: usize,
}

impl<'g> MirrorTask<'g> {
    fn new(group: &'g str, mirror: Arc<Mirror>, source: End, to: End) -> MirrorTask<'g> {
        let (reconnects, walk_from) = (to.health.reconnects(), Instant::now());
        let (is_swapped, is_ours, walk) = (false, false, Walk::Check);
        MirrorTask { group, mirror, source, to, is_swapped, reconnects, is_ours, walk, walk_from, batch: 1 }
    }

    async fn run(mut self) {
        while !self.mirror.is_dropped() {
            match self.step().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    self.mirror.counts.errors.fetch_add(1, Relaxed);
                    self.batch = (self.batch / 2).max(1);
                    self.walk = Walk::Check;
                    if self.mirror.set_state(MirrorState::Failing) != MirrorState::Failing {
                        tracing::warn!(group = self.group, %error, "the mirror falls behind: it is tried again");
                    }
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Copies the changes that wait, and walks over a page. Whether the task is over.
    async fn step(&mut self) -> Result<bool, SourceError> {
        if self.to.health.reconnects() != self.reconnects {
            (self.reconnects, self.walk) = (self.to.health.reconnects(), Walk::Check);
        }
        if !self.is_ours {
            if !self.check().await? {
                return Ok(self.refuse().await);
            }
            self.is_ours = true;
            self.begin_walk();
        }
        let names = self.mirror.changed.lock().take(self.batch);
        let (is_idle, is_full) = (names.is_empty(), names.len() == self.batch);
        self.copy(names).await?;
        if self.mirror.is_ending() {
            self.show();
            return Ok(self.mirror.changed.lock().is_empty());
        }
        if Instant::now() >= self.walk_from {
            self.walk().await?;
        }
        self.show();
        if is_idle && self.stand_by().await? {
            return Ok(false);
        }
        if is_idle {
            let walks = !matches!(self.walk, Walk::Done);
            tokio::select! {
                () = self.mirror.wake.notified() => {}
                () = sleep_until(self.walk_from), if walks => {}
                () = sleep(LOOK) => {}
            }
        } else if !is_full {
            sleep(GATHER).await;
        }
        Ok(false)
    }

    /// Where a reload waits for it, and nothing is left to copy: lets the two trade places. Whether it
    /// did.
    async fn stand_by(&mut self) -> Result<bool, SourceError> {
        if self.mirror.drain.lock().is_none() {
            return Ok(false);
        }
        // Without changes nothing has told whether it is still there, and has its entries.
        self.to.entries.keys(None).await?;
        let is_copy = matches!(self.walk, Walk::Done) && self.to.health.reconnects() == self.reconnects;
        if !is_copy || !self.mirror.changed.lock().is_settled() {
            return Ok(false);
        }
        let Some(waits) = self.mirror.drain.lock().take() else { return Ok(false) };
        let (drained, goes_on) = oneshot::channel();
        if waits.send(DrainedMirror(drained)).is_err() {
            return Ok(false);
        }
        // It is dropped, not sent.
        let _ = goes_on.await;
        if self.mirror.is_swapped() != self.is_swapped {
            self.is_swapped = !self.is_swapped;
            mem::swap(&mut self.source, &mut self.to);
            // Both are equal, so there is nothing to walk over.
            self.reconnects = self.to.health.reconnects();
        }
        Ok(true)
    }

    /// Whether the mirror is empty or seems to be a copy of the source. Another store would be
    /// overwritten, and a mirror that has taken the place of its source would be emptied.
    async fn check(&self) -> Result<bool, SourceError> {
        let mut after = None;
        loop {
            let (keys, next) = self.to.entries.keys(after).await?;
            if !keys.is_empty() {
                let strange =
                    self.source.entries.read(&keys).await?.iter().filter(|held| **held == HeldEntry::Absent).count();
                return Ok(strange * 10 <= keys.len());
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(true),
            }
        }
    }

    async fn refuse(&self) -> bool {
        if self.mirror.set_state(MirrorState::Refused) != MirrorState::Refused {
            tracing::error!(
                group = self.group,
                "nothing is mirrored: the mirror has entries that the source has not. Empty it, or name another one"
            );
        }
        tokio::select! {
            () = sleep(LOOK_AGAIN) => {}
            _ = async { self.mirror.ending.subscribe().wait_for(|ending| *ending).await.map(drop) } => {}
        }
        self.mirror.is_ending()
    }

    /// Begins to compare all keys.
    fn begin_walk(&mut self) {
        self.walk = Walk::Source(None);
        // It is also the walk that was asked for before.
        self.mirror.changed.lock().take_walk();
        // It sees again which entries are left out.
        self.mirror.left_out_now.store(0, Relaxed);
    }

    /// Compares a page of the walk.
    async fn walk(&mut self) -> Result<(), SourceError> {
        if matches!(self.walk, Walk::Done) && self.mirror.changed.lock().take_walk() {
            self.begin_walk();
            tracing::warn!(group = self.group, "everything is compared with the mirror again");
        }
        let begun = Instant::now();
        let (keys, next) = match &self.walk {
            Walk::Done => return Ok(()),
            Walk::Check => {
                // Whether a walk was asked for does not matter: one begins after the check.
                self.is_ours = !self.mirror.changed.lock().is_short();
                return Ok(());
            }
            Walk::Source(after) => {
                let (keys, next) = self.source.entries.keys(after.clone()).await?;
                (keys, next.map_or(Walk::Mirror(None), |next| Walk::Source(Some(next))))
            }
            Walk::Mirror(after) => {
                let (keys, next) = self.to.entries.keys(after.clone()).await?;
                (keys, next.map_or(Walk::Done, |next| Walk::Mirror(Some(next))))
            }
        };
        let mut keys = &keys[..];
        while let Some(batch) = keys.get(..self.batch.min(keys.len())).filter(|batch| !batch.is_empty()) {
            self.copy(batch.to_vec()).await?;
            self.mirror.counts.scanned.fetch_add(batch.len() as u64, Relaxed);
            keys = &keys[batch.len()..];
        }
        // Who waits for the end of a walk need not wait longer.
        let pause = if matches!(next, Walk::Done) { Duration::ZERO } else { begun.elapsed() };
        (self.walk, self.walk_from) = (next, Instant::now() + pause);
        Ok(())
    }

    /// Says how far the mirror is.
    fn show(&self) {
        let is_over = matches!(self.walk, Walk::Done) && self.mirror.changed.lock().has_few();
        let was = self.mirror.state();
        let state = match (is_over, was) {
            (true, _) => MirrorState::InStep,
            // Changes that wait a moment.
            (false, MirrorState::InStep) if matches!(self.walk, Walk::Done) => MirrorState::InStep,
            (false, _) => MirrorState::Filling,
        };
        self.mirror.set_state(state);
        if state == MirrorState::InStep && was != MirrorState::InStep {
            let numbers = self.mirror.snapshot();
            let (copied, left_out) = (numbers.copied, numbers.left_out);
            tracing::info!(group = self.group, copied, left_out, "the mirror is in step");
        }
    }

    /// Copies what these keys have now. Those on which the sources do not agree in the end, or that an
    /// error left open, are queued again.
    async fn copy(&mut self, mut keys: Vec<Bytes>) -> Result<(), SourceError> {
        let outcome = self.settle(&mut keys).await;
        let mut changed = self.mirror.changed.lock();
        for key in &keys {
            changed.push(key);
        }
        outcome
    }

    /// Removes the keys on which both sources agree, and those that the mirror cannot keep.
    async fn settle(&mut self, keys: &mut Vec<Bytes>) -> Result<(), SourceError> {
        let counts = &self.mirror.counts;
        let mut written: Vec<HeldEntry> = Vec::new();
        let mut next = self.batch;
        for round in 0..ROUNDS {
            if keys.is_empty() {
                break;
            }
            let (held, copies) = tokio::try_join!(self.source.entries.read(keys), self.to.entries.read(keys))?;
            if round == 0 {
                let bytes = |entries: &[HeldEntry]| entries.iter().map(HeldEntry::size).sum::<usize>();
                next = next_batch(self.batch, held.len(), bytes(&held).max(bytes(&copies)), BATCH);
            }
            let mut open = Vec::new();
            for (at, (held, copy)) in held.into_iter().zip(copies).enumerate() {
                let was_written = written.get(at).is_some_and(|written| held.is_same(written));
                match held {
                    // What was deleted must not stay, however short its life is.
                    held if held.is_same(&copy) && (held != HeldEntry::Absent || copy == HeldEntry::Absent) => {}
                    // Servers of two versions dump it in different ways.
                    HeldEntry::Dump(..) if was_written && matches!(copy, HeldEntry::Dump(..)) => {}
                    held => {
                        counts.different.fetch_add(u64::from(was_written), Relaxed);
                        match self.to.entries.leaves_out(&held) {
                            None => open.push((keys[at].clone(), held)),
                            Some(reason) if copy == HeldEntry::Absent => self.left_out(reason),
                            // No entry is better than an old one.
                            Some(_) => open.push((keys[at].clone(), HeldEntry::Absent)),
                        }
                    }
                }
            }
            *keys = open.iter().map(|(key, _)| key.clone()).collect();
            if open.is_empty() || round + 1 == ROUNDS {
                break;
            }
            let refusals = self.to.entries.write(&open).await?;
            written.clear();
            keys.clear();
            for ((key, held), refusal) in open.into_iter().zip(refusals) {
                match refusal {
                    Some(reason) => self.left_out(&reason),
                    None => {
                        counts.copied.fetch_add(1, Relaxed);
                        keys.push(key);
                        written.push(held);
                    }
                }
            }
        }
        // A batch that fails is not followed by a larger one.
        self.batch = next;
        Ok(())
    }

    fn left_out(&self, reason: &str) {
        self.mirror.left_out_now.fetch_add(1, Relaxed);
        if self.mirror.counts.left_out.fetch_add(1, Relaxed) == 0 {
            tracing::warn!(group = self.group, reason, "the mirror cannot keep some entries");
        }
    }
}

#[cfg(test)]
mod tests;
