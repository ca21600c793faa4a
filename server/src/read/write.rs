//! Write-through: the source first, then the tier, and never an older value over a newer one.
use super::{
    Group, Policy,
    held::{Locks, Sole},
    watched::Watched,
};
use crate::{
    config::Coherence,
    source::{Found, LocalStore, SourceError},
};
use bytes::Bytes;
use larder_engine::{Cache, Change, Condition, Expiry, Key, Millis, Stored, TooLarge, Write};
use larder_store::clock;
use parking_lot::{Mutex, MutexGuard};
use std::{collections::HashMap, future::Future, rc::Rc};

/// The writes of a group that are on their way to its source, by key hash; shared by all cores.
///
/// Two keys of one hash only make a write forget its key where it could have stored it.
#[derive(Debug, Default)]
pub struct Writes {
    slots: [Mutex<HashMap<u64, UnderWay>>; SLOTS],
    /// For sources that keep their entries on this machine.
    pub(super) locks: Locks,
    pub(super) watched: Watched,
}
/// Enough that two cores seldom meet; a write costs a round trip anyway.
const SLOTS: usize = 16;

/// Writes of one key hash.
#[derive(Debug, Default)]
struct UnderWay {
    count: u32,
    /// Two were under way at once; stays set until none is.
    overlapped: bool,
}

impl Writes {
    fn slot(&self, hash: u64) -> MutexGuard<'_, HashMap<u64, UnderWay>> {
        // The engine takes shard and slot from other bits; which ones we take matters little, the locks are held briefly.
        self.slots[(hash >> 32) as usize % SLOTS].lock()
    }
    fn begin(&self, hash: u64) {
        let mut slot = self.slot(hash);
        let key = slot.entry(hash).or_default();
        key.count += 1;
        key.overlapped |= key.count > 1;
    }
    /// Something happened at the source that may have come before or after the writes that are under way.
    fn overlap_all(&self) {
        for slot in &self.slots {
            let mut keys = slot.lock();
            keys.values_mut().for_each(|key| key.overlapped = true);
        }
    }
    /// Ends a write: `settle(overlapped)` runs with the slot locked, so that no other write of the key can begin, be
    /// answered and settle between the decision and the change. Lock order: slot, then the engine's shard.
    fn end<R>(&self, hash: u64, settle: impl FnOnce(bool) -> R) -> R {
        let mut slot = self.slot(hash);
        let key = slot.entry(hash).or_default();
        let answer = settle(key.overlapped);
        key.count = key.count.saturating_sub(1);
        if key.count == 0 {
            slot.remove(&hash);
        }
        answer
    }
}

/// A write on its way to the source. Made before it is sent, ended by what the source said; dropped without that, the
/// write may have been applied and the key is forgotten.
#[derive(Debug)]
pub struct Writing<'g> {
    writes: &'g Writes,
    cache: &'g Cache,
    policy: Policy,
    key: Key<'g>,
    ended: bool,
}
impl Writing<'_> {
    /// Only lifetimes bound the age of copies: then what was written is one.
    fn stores(&self) -> bool {
        self.policy.coherence == Coherence::Ttl
    }
    /// The source took the value, which expires at `expiry`: the tier keeps a copy for at most the group's lifetime.
    /// The copy's version, or 0 if it keeps none (too large for the bound, writes overlapped, or not in mode `ttl`:
    /// the source announces changes of what was read from it after the write, not of what was written).
    pub fn put(self, value: &[u8], expiry: Option<Millis>, now: Millis) -> u64 {
        if !self.stores() {
            self.forget();
            return 0;
        }
        self.settle(|this| {
            let write = Write { value, expiry: this.policy.cap(expiry, now), flags: 0, condition: Condition::Always };
            match this.cache.tier().set(this.key, write, now) {
                Ok(Stored::Created(version) | Stored::Replaced(version)) => Some(version),
                Ok(Stored::Unmet) | Err(_) => None,
            }
        })
        .unwrap_or(0)
    }

    /// The source took a new expiry for a key that exists: the copy's life is shortened to it, never lengthened, for
    /// what counts for the copy is when it was fetched.
    pub fn expire(self, expiry: Option<Millis>, now: Millis) {
        if !self.stores() {
            return self.forget();
        }
        self.settle(|this| {
            this.cache
                .tier()
                .update(this.key, now, |entry, _| match (entry, expiry) {
                    // A fetch in flight may carry the old expiry: `None` below fences it.
                    (None, _) => (Change::Keep, None),
                    (Some(_), None) => (Change::Keep, Some(())),
                    (Some(entry), Some(at)) if entry.expiry().is_some_and(|old| old <= at) => (Change::Keep, Some(())),
                    (Some(_), Some(at)) => (Change::Expire(Expiry::At(at)), Some(())),
                })
                .ok()
                .flatten()
        });
    }

    /// The source took a deletion, or any write of which the tier does not know the result: the key is forgotten.
    pub fn forget(self) {
        // As every write that ends without its own word: see `drop`.
    }

    /// Leaves the write registered; whoever learns what became of it goes on with [`Group::resume`].
    pub fn detach(mut self) {
        self.ended = true;
    }

    /// The source refused the write, or it was never sent: nothing changed.
    pub fn refused(mut self) {
        self.ended = true;
        if self.stores() {
            self.writes.end(self.key.hash(), |_| ());
        }
    }

    /// Ends the write with `change`; if that changes nothing, or writes of the key overlapped, the key is forgotten.
    fn settle<R>(mut self, change: impl FnOnce(&Self) -> Option<R>) -> Option<R> {
        self.ended = true;
        self.writes.end(self.key.hash(), |overlapped| {
            let changed = if overlapped { None } else { change(&self) };
            if changed.is_none() {
                self.cache.invalidate(self.key);
            }
            changed
        })
    }
}
impl Drop for Writing<'_> {
    fn drop(&mut self) {
        match self.ended {
            true => {}
            false if self.stores() => self.writes.end(self.key.hash(), |_| self.cache.invalidate(self.key)),
            false => self.cache.invalidate(self.key),
        }
    }
}

impl Group {
    /// Registers a write of `key` that is about to be sent to the source; for commands that go through verbatim, one per
    /// key that they write. Not for groups without a source.
    pub fn writing<'g>(&'g self, key: Key<'g>) -> Writing<'g> {
        let writing = self.resume(key);
        // What stores nothing need not know of other writes.
        if writing.stores() {
            self.writes.begin(key.hash());
        }
        writing
    }

    /// The write of `key` that was begun and then [detached](Writing::detach): once for each.
    pub fn resume<'g>(&'g self, key: Key<'g>) -> Writing<'g> {
        Writing { writes: &self.writes, cache: &self.cache, policy: self.policy, key, ended: false }
    }

    /// The source took a command that empties it: so is the tier.
    pub fn flushed(&self) {
        self.writes.overlap_all();
        self.cache.tier().clear();
    }

    /// Stores a value, which expires at `expiry` (`None`: as the group has it). Version 0 in the answer: the tier keeps no copy.
    ///
    /// # Errors
    /// What the source said, and then nothing has changed (`Lost`: it may have); without a source, `Refused` for an entry larger than the bound.
    pub async fn put(self: &Rc<Self>, key: &[u8], value: Bytes, expiry: Option<Millis>) -> Result<Stored, SourceError> {
        if !self.source.reads_through() {
            let write = Write {
                value: &value,
                expiry: expiry.map_or(Expiry::Default, Expiry::At),
                flags: 0,
                condition: Condition::Always,
            };
            let stored = self.cache.tier().set(self.cache.key(key), write, clock::now());
            return stored.map_err(too_large);
        }
        let sole = self.alone(key).await?;
        self.put_alone(sole, key, value, expiry).await
    }

    /// The same for who has the key by himself already.
    pub(super) async fn put_alone(
        self: &Rc<Self>,
        sole: Option<Sole>,
        key: &[u8],
        value: Bytes,
        expiry: Option<Millis>,
    ) -> Result<Stored, SourceError> {
        let key = Bytes::copy_from_slice(key);
        let held = sole.is_some();
        self.detached(sole, move |group| async move {
            let known = group.known(held, &key);
            let writing = group.writing(group.cache.key(&key));
            let put = match known {
                Some(store) => {
                    let found = Found { value: value.clone(), expiry };
                    store.apply(vec![(key.clone(), Some(found))]).await.map(|()| true)
                }
                None => group.source.put(&key, &value, expiry).await,
            };
            match put {
                Ok(replaced) => {
                    let version = writing.put(&value, expiry, clock::now());
                    Ok(if replaced { Stored::Replaced(version) } else { Stored::Created(version) })
                }
                Err(error) => Err(failed(writing, error)),
            }
        })
        .await
    }

    /// Deletes a key; true if there was one.
    ///
    /// # Errors
    /// As [`put`](Group::put).
    pub async fn delete(self: &Rc<Self>, key: &[u8]) -> Result<bool, SourceError> {
        if !self.source.reads_through() {
            return Ok(self.cache.tier().delete(self.cache.key(key), clock::now()));
        }
        let sole = self.alone(key).await?;
        self.delete_alone(sole, key).await
    }

    /// The same for who has the key by himself already.
    pub(super) async fn delete_alone(self: &Rc<Self>, sole: Option<Sole>, key: &[u8]) -> Result<bool, SourceError> {
        let key = Bytes::copy_from_slice(key);
        let held = sole.is_some();
        self.detached(sole, move |group| async move {
            let known = group.known(held, &key);
            let writing = group.writing(group.cache.key(&key));
            let deleted = match known {
                Some(store) => store.apply(vec![(key.clone(), None)]).await.map(|()| true),
                None => group.source.delete(&key).await,
            };
            match deleted {
                Ok(existed) => {
                    writing.forget();
                    Ok(existed)
                }
                Err(error) => Err(failed(writing, error)),
            }
        })
        .await
    }

    /// The store, if it need not look whether it has the key: nobody else writes a key that is held, so what the tier has of it is there.
    fn known(&self, held: bool, key: &[u8]) -> Option<&dyn LocalStore> {
        let store = self.source.as_local().filter(|_| held)?;
        self.cache.tier().peek(self.cache.key(key), clock::now(), |_| ())?;
        Some(store)
    }

    /// Changes a key's expiry (`None`: never); true if the key exists.
    ///
    /// # Errors
    /// As [`put`](Group::put).
    pub async fn expire(self: &Rc<Self>, key: &[u8], expiry: Option<Millis>) -> Result<bool, SourceError> {
        if !self.source.reads_through() {
            let to = expiry.map_or(Expiry::Never, Expiry::At);
            let changed = self.cache.tier().update(self.cache.key(key), clock::now(), |entry, _| match entry {
                Some(_) => (Change::Expire(to), true),
                None => (Change::Keep, false),
            });
            return changed.map_err(too_large);
        }
        let sole = self.alone(key).await?;
        let key = Bytes::copy_from_slice(key);
        self.detached(sole, move |group| async move {
            let writing = group.writing(group.cache.key(&key));
            match group.source.expire(&key, expiry).await {
                Ok(true) => {
                    writing.expire(expiry, clock::now());
                    Ok(true)
                }
                Ok(false) => {
                    writing.forget();
                    Ok(false)
                }
                Err(error) => Err(failed(writing, error)),
            }
        })
        .await
    }

    /// Runs a write in its own task. A client that goes away (hyper then drops the handler's future) must not end the
    /// registration while the write may still reach the source.
    async fn detached<R: 'static, F: Future<Output = Result<R, SourceError>> + 'static>(
        self: &Rc<Self>,
        sole: Option<Sole>,
        write: impl FnOnce(Rc<Group>) -> F,
    ) -> Result<R, SourceError> {
        let write = write(self.clone());
        let task = tokio::task::spawn_local(async {
            let answer = write.await;
            drop(sole);
            answer
        });
        self.clone().done(false, task).await
    }
}

fn failed(writing: Writing<'_>, error: SourceError) -> SourceError {
    match error {
        SourceError::Lost(_) => writing.forget(),
        SourceError::Unavailable(_) | SourceError::Refused(_) | SourceError::ReadOnly => writing.refused(),
    }
    error
}

pub(super) fn too_large(error: TooLarge) -> SourceError {
    let TooLarge { needed, max_memory } = error;
    SourceError::Refused(
        format!("OOM the entry needs {needed} bytes, more than max-memory ({max_memory}) allows").into(),
    )
}
