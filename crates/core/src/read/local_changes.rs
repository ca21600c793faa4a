//! Changes of several keys on a source on this machine: all or none, the store first, then the
//! tier. The caller [locks](Group::hold) the keys meanwhile.
use super::{group::Group, key_events::NotedEvents, key_locks::KeyGuard};
use bytes::Bytes;
use larder_engine::{Condition, Key, Stored, Write};
use larder_source::{LocalStore, SourceError, kind_of, metadata_of};
use larder_store::{StoredValue, clock};
use std::{future::Future, rc::Rc};

/// Keys and their new entries (`None`: deleted).
pub type KeyChanges = Vec<(Bytes, Option<StoredValue>)>;

impl Group {
    /// The source as a store of this machine.
    ///
    /// # Errors
    /// `Unavailable` if the source is not on this machine.
    pub fn local(&self) -> Result<&dyn LocalStore, SourceError> {
        self.source.as_local().ok_or_else(|| SourceError::Unavailable("it keeps no entries here".into()))
    }

    /// The entries of locked keys, in order; expired ones are absent.
    ///
    /// # Errors
    /// The source's error.
    pub async fn load(&self, store: &dyn LocalStore, keys: &[Bytes]) -> Result<Vec<Option<StoredValue>>, SourceError> {
        // Other programs may have changed what the tier has a copy of.
        let copy = |key: &Bytes| if store.shared().is_some() { None } else { self.tier_copy(key) };
        let mut found: Vec<Option<StoredValue>> = keys.iter().map(copy).collect();
        let lacking: Vec<usize> = (0..keys.len()).filter(|at| found[*at].is_none()).collect();
        if lacking.is_empty() {
            return Ok(found);
        }
        let asked: Vec<&[u8]> = lacking.iter().map(|at| &*keys[*at]).collect();
        let answered = store.get_many(&asked).await?;
        for (at, entry) in lacking.into_iter().zip(answered) {
            found[at] = entry;
        }
        Ok(found)
    }

    /// The tier's copy, if it has the same expiry as the entry.
    fn tier_copy(&self, key: &[u8]) -> Option<StoredValue> {
        if self.policy.of(key).ttl.is_some() || !self.policy.serves(key) {
            return None;
        }
        let found = |entry: larder_engine::Entry<'_>| StoredValue {
            value: entry.value.to_bytes(),
            expiry: entry.expiry(),
            kind: kind_of(entry.metadata()),
        };
        self.cache.tier().peek(self.cache.key(key), clock::now(), found)
    }

    /// Commits changes of locked keys, all or none, to the source and then to the tier. The commit
    /// has started when this returns and does not depend on the future. `actor` is the client
    /// that makes the changes, for client tracking (0: none). `events` are published if the source
    /// takes them.
    pub fn commit(
        self: &Rc<Self>,
        held: &Rc<KeyGuard>,
        changes: KeyChanges,
        actor: u64,
        events: NotedEvents,
    ) -> impl Future<Output = Result<(), SourceError>> + 'static {
        let (group, held) = (self.clone(), held.clone());
        let write = (!changes.is_empty()).then(|| {
            self.start_write(false, async move {
                let applied = group.local()?.apply(changes.clone()).await;
                group.finish_commit(&changes, &applied, actor);
                if applied.is_ok() && !events.is_empty() {
                    events.iter().for_each(|(event, key)| group.note_event(*event, key));
                    group.publish_noted();
                }
                drop(held);
                applied
            })
        });
        async move {
            match write {
                Some(write) => write.await,
                None => Ok(()),
            }
        }
    }

    /// Commits one entry (`None`: deleted) at once, if no other writer holds its key and the store need
    /// not wait. `None`: nothing has changed, and this is for [`commit`](Group::commit), as it is while
    /// events are published: whether there was an entry decides about them.
    pub fn commit_now(&self, key: &[u8], to: Option<StoredValue>, actor: u64) -> Option<Result<(), SourceError>> {
        if self.publishes_events() {
            return None;
        }
        let _held = self.hold_free(key)?;
        Some(self.commit_held(key, to, actor)?.map(drop))
    }

    /// Replaces a value at once, if the tier has a copy of it, no other writer holds its key and the
    /// store need not wait. The version of the new copy, 0 without one. `None`: nothing has changed,
    /// and this is for [`put`](Group::put).
    pub fn replace_now(&self, key: &[u8], value: Bytes) -> Option<Result<u64, SourceError>> {
        if !self.owns(key) || self.publishes_events() {
            return None;
        }
        let _held = self.hold_free(key)?;
        self.known(true, key)?;
        self.commit_held(key, Some(StoredValue::string(value, None)), 0)
    }

    /// Commits an entry whose key is locked; the version of the tier's copy, 0 without one.
    fn commit_held(&self, key: &[u8], to: Option<StoredValue>, actor: u64) -> Option<Result<u64, SourceError>> {
        let applied = self.source.as_local()?.apply_now(key, to.as_ref())?;
        let version = self.finish_commit(&[(key, to)], &applied, actor);
        Some(applied.map(|()| version))
    }

    /// The version of the tier's copy of the last entry; 0: there is none.
    pub(super) fn finish_commit<K: AsRef<[u8]>>(
        &self,
        changes: &[(K, Option<StoredValue>)],
        applied: &Result<(), SourceError>,
        actor: u64,
    ) -> u64 {
        let keys = || changes.iter().map(|(key, _)| key.as_ref());
        let version = match applied {
            Ok(()) => self.apply_to_tier(changes, actor),
            Err(SourceError::Lost(_)) => {
                keys().for_each(|key| self.cache.invalidate(self.cache.key(key)));
                0
            }
            Err(_) => return 0,
        };
        keys().for_each(|key| self.writes.note_changed(key));
        self.writes.watched.changed(keys());
        version
    }

    /// Applies the changes to the tier atomically, and fences fetches in flight. The version of the
    /// copy of the last entry; 0: there is none.
    pub(super) fn apply_to_tier<K: AsRef<[u8]>>(&self, changes: &[(K, Option<StoredValue>)], actor: u64) -> u64 {
        let now = clock::now();
        let mut version = 0;
        let mut untold: Vec<Key<'_>> = Vec::new();
        let mut tier = self.cache.exclusive(changes.iter().map(|(key, _)| self.cache.key(key.as_ref())));
        tier.act_as(actor);
        for (key, found) in changes {
            let key = self.cache.key(key.as_ref());
            let is_kept =
                |found: &&StoredValue| found.expiry.is_none_or(|at| at > now) && !self.policy.denies(key.bytes());
            let metadata = metadata_of(found.as_ref().map(|found| found.kind).unwrap_or_default());
            let copy = found.as_ref().filter(is_kept).map(|found| Write {
                value: &found.value,
                expiry: self.policy.cap(key.bytes(), found.expiry, now),
                attributes: metadata.attributes(),
                condition: Condition::Always,
            });
            version = match copy.map(|copy| tier.set(key, copy, now)) {
                Some(Ok(Stored::Created(version) | Stored::Replaced(version))) => version,
                _ => 0,
            };
            if version == 0 && !tier.delete(key, now) {
                untold.push(key);
            }
        }
        drop(tier);
        // Tracking clients may have copies that the tier did not have.
        untold.into_iter().for_each(|key| self.cache.invalidate(key));
        version
    }

    /// Stores a value (or with `None` deletes it) without looking for an old one: cheaper than
    /// [`put`](Group::put) and [`delete`](Group::delete).
    ///
    /// # Errors
    /// As [`put`](Group::put).
    pub async fn overwrite(self: &Rc<Self>, key: &[u8], value: Option<Bytes>) -> Result<(), SourceError> {
        if self.source.as_local().is_some() && !self.publishes_events() {
            let held = self.hold([key]).await?;
            let found = value.map(|value| StoredValue::string(value, None));
            return self.commit(&held, vec![(Bytes::copy_from_slice(key), found)], 0, Vec::new()).await;
        }
        match value {
            Some(value) => self.put(key, value, None).await.map(drop),
            None => self.delete(key).await.map(drop),
        }
    }

    /// Deletes everything at the source and in the tier. All keys must be locked.
    ///
    /// # Errors
    /// The source's error.
    pub fn clear_source(
        self: &Rc<Self>,
        held: &Rc<KeyGuard>,
    ) -> impl Future<Output = Result<(), SourceError>> + 'static {
        let (group, held) = (self.clone(), held.clone());
        self.start_write(true, async move {
            let cleared = group.local()?.clear().await;
            if matches!(cleared, Ok(()) | Err(SourceError::Lost(_))) {
                group.flushed();
                group.writes.watched.all_deleted();
            }
            drop(held);
            cleared
        })
    }
}
