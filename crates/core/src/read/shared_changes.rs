//! Changes of one key on a store that other programs change as well: each rests on what was read, and
//! is made again if that has changed meanwhile.
use super::{group::Group, key_locks::KeyGuard};
use bytes::Bytes;
use larder_engine::Stored;
use larder_source::{Revision, SharedStore, SourceError, kind_of};
use larder_store::{StoredValue, clock};
use std::{future::Future, rc::Rc};

/// The error of a change that was begun again until clients wait no longer. Nothing has changed.
pub fn overtaken() -> SourceError {
    SourceError::Unavailable("other clients change the key all the time".into())
}

impl Group {
    /// The source as a store that other programs change as well.
    pub fn shared(&self) -> Option<&dyn SharedStore> {
        self.source.as_local()?.shared()
    }

    /// Commits an entry (`None`: deleted) of a locked key to the source and then to the tier, if the
    /// source still has this revision of it; whether it had. The commit has started when this
    /// returns and does not depend on the future.
    pub fn commit_if(
        self: &Rc<Self>,
        held: &Rc<KeyGuard>,
        key: Bytes,
        to: Option<StoredValue>,
        revision: Revision,
        actor: u64,
    ) -> impl Future<Output = Result<bool, SourceError>> + 'static {
        let (group, held) = (self.clone(), held.clone());
        self.start_write(false, async move {
            let store = group.shared().ok_or_else(overtaken)?;
            let applied = store.change_if(&key, to.as_ref(), revision).await;
            match &applied {
                Ok(false) => {
                    group.cache.invalidate(group.cache.key(&key));
                    group.writes.watched.changed([&key]);
                }
                outcome => {
                    let outcome = outcome.clone().map(drop);
                    group.finish_commit(&[(key, to)], &outcome, actor);
                }
            }
            drop(held);
            applied
        })
    }

    /// The version that clients know an entry of the source by: that of the tier's copy, which is made
    /// if there is none like it. 0: the tier keeps none.
    pub(super) fn version_of_entry(&self, key: &[u8], entry: &StoredValue) -> u64 {
        let (same, now) = (self.cache.key(key), clock::now());
        let copy = self.cache.tier().peek(same, now, |copy| {
            let is_same = copy.value.as_bytes() == &entry.value[..]
                && (copy.expiry() == entry.expiry || self.policy.of(key).ttl.is_some())
                && kind_of(copy.metadata()) == entry.kind;
            is_same.then(|| copy.version())
        });
        copy.flatten().unwrap_or_else(|| self.apply_to_tier(&[(key, Some(entry.clone()))], 0))
    }

    /// Stores a string under a locked key (or with `None` deletes the key) if `condition` holds for the version of the
    /// entry that the source has; `Unmet` if not. A delete answers `Replaced` if there was an entry.
    pub(super) async fn change_shared_if(
        self: &Rc<Self>,
        store: &dyn SharedStore,
        held: &Rc<KeyGuard>,
        key: &[u8],
        to: Option<StoredValue>,
        condition: impl Fn(Option<u64>) -> bool,
    ) -> Result<Stored, SourceError> {
        let owned = Bytes::copy_from_slice(key);
        let change = async {
            loop {
                let (found, revision) = store.read(key).await?;
                if !condition(found.as_ref().map(|found| self.version_of_entry(key, found))) {
                    return Ok(Stored::Unmet);
                }
                if to.is_none() && found.is_none() {
                    return Ok(Stored::Created(0));
                }
                if self.commit_if(held, owned.clone(), to.clone(), revision, 0).await? {
                    let version = self.cache.tier().peek(self.cache.key(key), clock::now(), |copy| copy.version());
                    let version = version.unwrap_or(0);
                    return Ok(if found.is_some() { Stored::Replaced(version) } else { Stored::Created(version) });
                }
            }
        };
        // A commit that has begun goes on. Only one at a time is under way.
        self.in_time(false, SourceError::Lost, change).await
    }
}
