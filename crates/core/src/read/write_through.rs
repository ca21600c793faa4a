//! The write-through: the source first, then the tier; an older value never replaces a newer one.
use super::{group::Group, key_events::KeyEvent, key_locks::WriteLock, pending_writes::PendingWrite};
use bytes::Bytes;
use larder_engine::{Attributes, Change, Condition, Expiry, Key, Millis, Stored, TooLarge, Write};
use larder_source::{LocalStore, SourceError, SourceKind, ValueWrites};
use larder_store::{StoredValue, clock};
use smallvec::SmallVec;
use std::{future::Future, rc::Rc};

impl Group {
    /// Registers a write of `key` before it is sent to the source. A relayed command registers one
    /// for each key that it writes. Not for groups without a source.
    pub fn writing<'g>(&'g self, key: Key<'g>) -> PendingWrite<'g> {
        let writing = self.resume(key);
        // A write that stores no copy need not know of other writes.
        if writing.stores() {
            self.writes.begin(key.hash());
        }
        writing
    }

    /// Continues a write of `key` that was [detached](PendingWrite::detach). Call it once for each.
    pub fn resume<'g>(&'g self, key: Key<'g>) -> PendingWrite<'g> {
        PendingWrite::of(&self.writes, &self.cache, &self.policy, key)
    }

    /// The source accepted a command that empties it: clears the tier.
    pub fn flushed(&self) {
        self.writes.overlap_all();
        self.writes.note_all_changed();
        self.cache.tier().clear();
    }

    /// Stores a value, which expires at `expiry` (`None`: as the group has it). Version 0 in the
    /// answer: the tier keeps no copy.
    ///
    /// # Errors
    /// The source's error: nothing has changed (with `Lost`, the write may be applied). Without a
    /// source, `Refused` for an entry that is too large.
    pub async fn put(self: &Rc<Self>, key: &[u8], value: Bytes, expiry: Option<Millis>) -> Result<Stored, SourceError> {
        self.put_tagged(key, value, expiry, &[]).await
    }

    /// Like `put`, with tags. A source keeps none, so only groups without one may be given any.
    ///
    /// # Errors
    /// As [`put`](Group::put).
    pub async fn put_tagged(
        self: &Rc<Self>,
        key: &[u8],
        value: Bytes,
        expiry: Option<Millis>,
        tags: &[Box<[u8]>],
    ) -> Result<Stored, SourceError> {
        debug_assert!(tags.is_empty() || self.is_store(), "checked by who takes them");
        if self.is_stored_here(key) {
            let now = clock::now();
            let tags: SmallVec<[&[u8]; 8]> = tags.iter().map(|tag| &**tag).collect();
            let write = Write {
                value: &value,
                expiry: expiry.map_or_else(|| self.policy.lifetime(key), Expiry::At),
                attributes: Attributes { tags: &tags, ..Attributes::NONE },
                condition: Condition::Always,
            };
            let hashed = self.cache.key(key);
            let mut tier = self.tier_for_change(hashed);
            let stored = tier.set(hashed, write, now).map_err(too_large)?;
            self.note_set(key, matches!(stored, Stored::Created(_)), expiry.is_some());
            drop(tier);
            self.tell_peers(key).await;
            return Ok(stored);
        }
        let sole = self.lock_if_local(key).await?;
        self.put_locked(sole, key, value, expiry).await
    }

    /// Like `put_tagged`, for a caller that has locked the key.
    pub(super) async fn put_locked(
        self: &Rc<Self>,
        sole: Option<WriteLock>,
        key: &[u8],
        value: Bytes,
        expiry: Option<Millis>,
    ) -> Result<Stored, SourceError> {
        let key = Bytes::copy_from_slice(key);
        let held = sole.is_some();
        self.spawn_write(sole, move |group| async move {
            let known = group.known(held, &key);
            let writing = group.writing(group.cache.key(&key));
            let put = match known {
                Some(store) => {
                    let found = StoredValue::string(value.clone(), expiry);
                    store.apply(vec![(key.clone(), Some(found))]).await.map(|()| true)
                }
                None => group.source.put(&key, &value, expiry).await,
            };
            match put {
                Ok(replaced) => {
                    let keeps =
                        !matches!(group.source.kind(), SourceKind::Values(ValueWrites::Changed)) && group.owns(&key);
                    let version = match keeps {
                        true => writing.put(&value, expiry, clock::now()),
                        false => {
                            writing.forget();
                            0
                        }
                    };
                    if held {
                        group.note_set(&key, !replaced, expiry.is_some());
                        group.publish_noted();
                    }
                    Ok(if replaced { Stored::Replaced(version) } else { Stored::Created(version) })
                }
                Err(error) => Err(failed(writing, error)),
            }
        })
        .await
    }

    /// Whether memory tiers are the only store of the group: this node's, or those of all nodes
    /// that share it.
    pub fn is_store(&self) -> bool {
        match &self.peers {
            None => !self.source.reads_through(),
            Some(peers) => peers.is_store(),
        }
    }

    /// Whether the tier of this node is the only store of the key: there is no source, and no other
    /// node owns it.
    pub(super) fn is_stored_here(&self, key: &[u8]) -> bool {
        match &self.peers {
            None => !self.source.reads_through(),
            Some(peers) => peers.is_store() && peers.owns_now(key),
        }
    }

    /// Whether the key belongs to this node. What a client writes to a key of another node is that
    /// node's to keep.
    pub(super) fn owns(&self, key: &[u8]) -> bool {
        self.peers.as_ref().is_none_or(|peers| peers.owns_now(key))
    }

    /// The other nodes forget their copies of a key that was changed here.
    pub(super) async fn tell_peers(&self, key: &[u8]) {
        if let Some(peers) = &self.peers {
            // The value is here: a node that is not reached is told later.
            let _ = peers.removed(key, || ()).await;
        }
    }

    /// Deletes a key; true if there was one.
    ///
    /// # Errors
    /// As [`put`](Group::put).
    pub async fn delete(self: &Rc<Self>, key: &[u8]) -> Result<bool, SourceError> {
        if self.is_stored_here(key) {
            let hashed = self.cache.key(key);
            let mut tier = self.tier_for_change(hashed);
            let existed = tier.delete(hashed, clock::now());
            if existed {
                self.note_event(KeyEvent::Del, key);
            }
            drop(tier);
            self.tell_peers(key).await;
            return Ok(existed);
        }
        let sole = self.lock_if_local(key).await?;
        self.delete_locked(sole, key).await
    }

    /// Like `delete`, for a caller that has locked the key.
    pub(super) async fn delete_locked(
        self: &Rc<Self>,
        sole: Option<WriteLock>,
        key: &[u8],
    ) -> Result<bool, SourceError> {
        let key = Bytes::copy_from_slice(key);
        let held = sole.is_some();
        self.spawn_write(sole, move |group| async move {
            let known = group.known(held, &key);
            let writing = group.writing(group.cache.key(&key));
            let deleted = match known {
                Some(store) => store.apply(vec![(key.clone(), None)]).await.map(|()| true),
                None => group.source.delete(&key).await,
            };
            match deleted {
                Ok(existed) => {
                    writing.forget();
                    if held && existed {
                        group.note_event(KeyEvent::Del, &key);
                        group.publish_noted();
                    }
                    Ok(existed)
                }
                Err(error) => Err(failed(writing, error)),
            }
        })
        .await
    }

    /// The store, if the key is known to exist: no other writer changes a locked key, so a key in
    /// the tier is also in the store.
    pub(super) fn known(&self, held: bool, key: &[u8]) -> Option<&dyn LocalStore> {
        let store = self.source.as_local().filter(|_| held)?;
        self.cache.tier().peek(self.cache.key(key), clock::now(), |_| ())?;
        Some(store)
    }

    /// Changes a key's expiry (`None`: never); true if the key exists.
    ///
    /// # Errors
    /// As [`put`](Group::put).
    pub async fn expire(self: &Rc<Self>, key: &[u8], expiry: Option<Millis>) -> Result<bool, SourceError> {
        if self.is_stored_here(key) {
            let to = expiry.map_or(Expiry::Never, Expiry::At);
            let hashed = self.cache.key(key);
            let mut tier = self.tier_for_change(hashed);
            let changed = tier.update(hashed, clock::now(), |entry, _| match entry {
                Some(_) => (Change::Expire(to), true),
                None => (Change::Keep, false),
            });
            let changed = changed.map_err(too_large)?;
            if changed {
                self.note_event(event_of_expiry(expiry), key);
            }
            drop(tier);
            self.tell_peers(key).await;
            return Ok(changed);
        }
        let sole = self.lock_if_local(key).await?;
        let held = sole.is_some();
        let key = Bytes::copy_from_slice(key);
        self.spawn_write(sole, move |group| async move {
            let writing = group.writing(group.cache.key(&key));
            match group.source.expire(&key, expiry).await {
                Ok(true) => {
                    writing.expire(expiry, clock::now());
                    if held {
                        group.note_event(event_of_expiry(expiry), &key);
                        group.publish_noted();
                    }
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

    /// Runs a write. If the client disconnects, hyper drops the handler's future; that must not end
    /// the registration while the write may still reach the source.
    async fn spawn_write<R: 'static, F: Future<Output = Result<R, SourceError>> + 'static>(
        self: &Rc<Self>,
        sole: Option<WriteLock>,
        write: impl FnOnce(Rc<Group>) -> F,
    ) -> Result<R, SourceError> {
        let write = write(self.clone());
        let write = async {
            let answer = write.await;
            drop(sole);
            answer
        };
        self.start_write(false, write).await
    }
}

fn event_of_expiry(expiry: Option<Millis>) -> KeyEvent {
    if expiry.is_some() { KeyEvent::Expire } else { KeyEvent::Persist }
}

fn failed(writing: PendingWrite<'_>, error: SourceError) -> SourceError {
    match error {
        SourceError::Lost(_) => writing.forget(),
        SourceError::Unavailable(_)
        | SourceError::Throttled(..)
        | SourceError::Refused(_)
        | SourceError::OnlyStreamed(_)
        | SourceError::ReadOnly(_) => {
            writing.refused();
        }
    }
    error
}

pub(super) fn too_large(error: TooLarge) -> SourceError {
    let TooLarge { needed, max_memory } = error;
    SourceError::Refused(
        format!("OOM the entry needs {needed} bytes, more than max-memory ({max_memory}) allows").into(),
    )
}

/// Whether these can be the tags of an entry; if not, which limit they are over.
///
/// # Errors
/// A sentence that names the limit.
pub fn check_tags<T: AsRef<[u8]>>(tags: &[T]) -> Result<(), String> {
    if tags.len() > Attributes::MAX_TAGS {
        return Err(too_many_tags());
    }
    match tags.iter().all(|tag| (1..=Attributes::MAX_TAG).contains(&tag.as_ref().len())) {
        true => Ok(()),
        false => Err(format!("a tag has 1 to {} bytes", Attributes::MAX_TAG)),
    }
}

/// What is said of an entry with too many tags.
pub fn too_many_tags() -> String {
    format!("an entry has at most {} tags", Attributes::MAX_TAGS)
}
