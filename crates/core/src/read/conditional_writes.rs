//! Conditional writes: they apply only if the entry has an expected version (HTTP's `If-Match` and
//! `If-None-Match`).
use super::{group::Group, key_events::KeyEvent, write_through::too_large};
use bytes::Bytes;
use larder_engine::{Attributes, Change, Condition, Expiry, Stored, Write};
use larder_source::SourceError;
use larder_store::{StoredValue, clock};
use smallvec::SmallVec;
use std::rc::Rc;

/// The version of a value that is at the source but not in the tier.
const UNKNOWN: u64 = 0;

impl Group {
    /// Like [`put_tagged`](Group::put_tagged), if `condition` holds for the version of the entry
    /// (`None`: there is no such key).
    ///
    /// This is atomic without a source, and with a store. With other sources the
    /// key is read through first, and a write of another client between that read and this
    /// write goes unnoticed.
    ///
    /// # Errors
    /// As [`put`](Group::put).
    pub async fn put_if(
        self: &Rc<Self>,
        key: &[u8],
        value: Bytes,
        expiry: Option<u64>,
        tags: &[Box<[u8]>],
        condition: impl Fn(Option<u64>) -> bool,
    ) -> Result<Stored, SourceError> {
        if self.shared().is_some() {
            let held = self.hold([key]).await?;
            // A store of this machine may have taken its place meanwhile.
            if let Some(store) = self.shared() {
                let to = StoredValue::string(value, expiry);
                return self.change_shared_if(store, &held, key, Some(to), condition).await;
            }
        }
        if !self.is_stored_here(key) {
            let sole = self.lock_if_local(key).await?;
            if !condition(self.version_of(key).await?) {
                return Ok(Stored::Unmet);
            }
            return self.put_locked(sole, key, value, expiry).await;
        }
        let (key, now) = (self.cache.key(key), clock::now());
        let tags: SmallVec<[&[u8]; 8]> = tags.iter().map(|tag| &**tag).collect();
        loop {
            let version = self.cache.tier().peek(key, now, |entry| entry.version());
            if !condition(version) {
                return Ok(Stored::Unmet);
            }
            let write = Write {
                value: &value,
                expiry: expiry.map_or_else(|| self.policy.lifetime(key.bytes()), Expiry::At),
                attributes: Attributes { tags: &tags, ..Attributes::NONE },
                condition: Condition::IfVersion(version.unwrap_or(0)),
            };
            let mut tier = self.tier_for_change(key);
            match tier.set(key, write, now).map_err(too_large)? {
                // Another write came between the read and the write: read again.
                Stored::Unmet => {}
                stored => {
                    self.note_set(key.bytes(), matches!(stored, Stored::Created(_)), expiry.is_some());
                    drop(tier);
                    self.tell_peers(key.bytes()).await;
                    return Ok(stored);
                }
            }
        }
    }

    /// Like [`delete`](Group::delete), if `condition` holds; `None` if it does not.
    ///
    /// # Errors
    /// As [`delete`](Group::delete).
    pub async fn delete_if(
        self: &Rc<Self>,
        key: &[u8],
        condition: impl Fn(Option<u64>) -> bool,
    ) -> Result<Option<bool>, SourceError> {
        if self.shared().is_some() {
            let held = self.hold([key]).await?;
            if let Some(store) = self.shared() {
                let changed = self.change_shared_if(store, &held, key, None, condition).await?;
                return Ok(match changed {
                    Stored::Unmet => None,
                    Stored::Replaced(_) => Some(true),
                    Stored::Created(_) => Some(false),
                });
            }
        }
        if !self.is_stored_here(key) {
            let sole = self.lock_if_local(key).await?;
            if !condition(self.version_of(key).await?) {
                return Ok(None);
            }
            return self.delete_locked(sole, key).await.map(Some);
        }
        let key = self.cache.key(key);
        let mut tier = self.tier_for_change(key);
        let deleted = tier.update(key, clock::now(), |entry, _| {
            let version = entry.map(|entry| entry.version());
            match (condition(version), version) {
                (false, _) => (Change::Keep, None),
                (true, None) => (Change::Keep, Some(false)),
                (true, Some(_)) => (Change::Delete, Some(true)),
            }
        });
        let deleted = deleted.map_err(too_large)?;
        if deleted == Some(true) {
            self.note_event(KeyEvent::Del, key.bytes());
        }
        drop(tier);
        self.tell_peers(key.bytes()).await;
        Ok(deleted)
    }

    async fn version_of(&self, key: &[u8]) -> Result<Option<u64>, SourceError> {
        let now = clock::now();
        let exists = self.read(key, now).await?.is_some();
        let version = self.cache.tier().peek(self.cache.key(key), now, |entry| entry.version());
        Ok(version.or(exists.then_some(UNKNOWN)))
    }
}
