//! Changes of documents: reading, computing and writing back as one step for all other writers,
//! without a source and on a store of this machine.
use super::{group::Group, key_events::KeyEvent, shared_changes::overtaken, write_through::too_large};
use bytes::Bytes;
use larder_engine::{Change, Entry, Expiry, Millis, Stored};
use larder_source::{DOCUMENT_ATTRIBUTES, SourceError, SourceKind, is_document};
use larder_store::{StoredValue, ValueKind, clock};
use std::{rc::Rc, time::Instant};

/// What a change of a document sees.
#[derive(Debug, Clone, Copy)]
pub struct HeldValue<'h> {
    /// The value: a document's text, or the bytes of a string.
    pub value: &'h [u8],
    pub is_document: bool,
    /// The entry's version; 0: the tier has no copy.
    pub version: u64,
}

/// What a change makes of an entry.
#[derive(Debug)]
pub enum DocumentChange {
    /// It stays as it is.
    Keep,
    /// This compact text becomes its value, and it becomes a document.
    Store(Bytes),
}

impl Group {
    /// Whether documents can be stored under this key by this node: there is no source, and no
    /// other node owns the key; or the source is a store of this machine that takes writes.
    pub fn keeps_documents(&self, key: &[u8]) -> bool {
        self.is_stored_here(key) || matches!(self.source.kind(), SourceKind::Store(_))
    }

    /// Stores a document. `text` is compact (`larder_document::compact`). It expires at `expiry`
    /// (`None`: as the group has it).
    ///
    /// # Errors
    /// As [`change_document`](Group::change_document).
    pub async fn put_document(
        self: &Rc<Self>,
        key: &[u8],
        text: Bytes,
        expiry: Option<Millis>,
    ) -> Result<Stored, SourceError> {
        let end = expiry.map_or_else(|| self.policy.lifetime(key), Expiry::At);
        self.change_document(key, end, |_| (DocumentChange::Store(text.clone()), ())).await.map(|(stored, ())| stored)
    }

    /// Changes the entry of a key as `change` says, which sees what is there (`None`: there is no
    /// such key). It is asked again if the entry of a shared store changes meanwhile. A document that is
    /// stored expires as `expiry` says. The version in the answer
    /// is 0 where the tier has no copy; [`Stored::Unmet`]: the entry was kept.
    ///
    /// # Errors
    /// The store's error; `Refused` where the text is too large for the memory tier, or where no
    /// documents are kept ([`keeps_documents`](Group::keeps_documents)).
    pub async fn change_document<R>(
        self: &Rc<Self>,
        key: &[u8],
        expiry: Expiry,
        mut change: impl FnMut(Option<HeldValue<'_>>) -> (DocumentChange, R),
    ) -> Result<(Stored, R), SourceError> {
        if self.is_stored_here(key) {
            let (stored, answer) = self.change_document_here(key, expiry, change)?;
            if stored != Stored::Unmet {
                self.tell_peers(key).await;
            }
            return Ok((stored, answer));
        }
        if !self.keeps_documents(key) {
            return Err(SourceError::Refused("ERR this source keeps no documents".into()));
        }
        let held = self.hold([key]).await?;
        let owned = Bytes::copy_from_slice(key);
        let tier_version = || self.cache.tier().peek(self.cache.key(key), clock::now(), |entry| entry.version());
        let until = Instant::now() + self.local()?.patience(false);
        loop {
            let (found, revision) = match self.shared() {
                Some(store) => store.read(key).await.map(|(found, revision)| (found, Some(revision)))?,
                None => (self.load(self.local()?, std::slice::from_ref(&owned)).await?.pop().flatten(), None),
            };
            let version = match (&found, revision) {
                (Some(found), Some(_)) => self.version_of_entry(key, found),
                _ => tier_version().unwrap_or(0),
            };
            let (wanted, answer) = change(found.as_ref().map(|found| HeldValue {
                value: &found.value,
                is_document: found.kind == ValueKind::Document,
                version,
            }));
            let DocumentChange::Store(value) = wanted else { return Ok((Stored::Unmet, answer)) };
            let now = clock::now();
            let expiry = match expiry {
                Expiry::Keep => found.as_ref().and_then(|found| found.expiry),
                Expiry::At(at) => Some(at),
                Expiry::FreshFor(ttl) => Some(now.saturating_add(ttl)),
                Expiry::FreshUntil(at) => Some(at),
                Expiry::Default | Expiry::Never => None,
            };
            let stored = StoredValue { value, expiry, kind: ValueKind::Document };
            match revision {
                None => {
                    let events = self.events_of_change(&owned, found.as_ref(), Some(&stored));
                    self.commit(&held, vec![(owned.clone(), Some(stored))], 0, events).await?;
                }
                Some(revision) => {
                    if !self.commit_if(&held, owned.clone(), Some(stored), revision, 0).await? {
                        if Instant::now() >= until {
                            return Err(overtaken());
                        }
                        continue;
                    }
                }
            }
            let version = tier_version().unwrap_or(0);
            return Ok((if found.is_some() { Stored::Replaced(version) } else { Stored::Created(version) }, answer));
        }
    }

    /// [`change_document`](Group::change_document) for a key whose only store is the tier of this
    /// node: it waits for nothing. Other nodes are not told.
    ///
    /// # Errors
    /// The text is too large for the memory tier.
    pub fn change_document_here<R>(
        &self,
        key: &[u8],
        expiry: Expiry,
        change: impl FnOnce(Option<HeldValue<'_>>) -> (DocumentChange, R),
    ) -> Result<(Stored, R), SourceError> {
        let now = clock::now();
        let key = self.cache.key(key);
        let mut tier = self.cache.exclusive([key]);
        let mut existed = false;
        let answer = tier.update(key, now, |entry, scratch| {
            existed = entry.is_some();
            let held = |entry: &Entry<'_>| is_document(entry.metadata());
            let is_document = entry.is_some_and(held);
            let (wanted, answer) = change(entry.map(|entry| HeldValue {
                value: entry.value.as_bytes(),
                is_document,
                version: entry.version(),
            }));
            let change = match wanted {
                DocumentChange::Keep => return (Change::Keep, (false, answer)),
                DocumentChange::Store(text) => {
                    scratch.extend_from_slice(&text);
                    // A document keeps its tags.
                    if is_document { Change::Put(expiry) } else { Change::Replace(expiry, DOCUMENT_ATTRIBUTES) }
                }
            };
            (change, (true, answer))
        });
        let (is_stored, answer) = answer.map_err(too_large)?;
        if is_stored && self.publishes_events() {
            let new = (!existed).then_some(KeyEvent::New);
            new.into_iter().chain([KeyEvent::DOCUMENT_SET]).for_each(|event| self.note_event(event, key.bytes()));
        }
        let version = tier.peek(key, now, |entry| entry.version()).unwrap_or(0);
        let stored = match (is_stored, existed) {
            (false, _) => Stored::Unmet,
            (true, true) => Stored::Replaced(version),
            (true, false) => Stored::Created(version),
        };
        Ok((stored, answer))
    }
}
