//! A source in front of a group's own: keys of other nodes are asked of their owners.
use super::{at_owner::NOT_AGREED, member::Member, messages::MOST_KEYS, peer_group::PeerGroup};
use larder_engine::Millis;
use larder_source::{Fetch, FillPolicy, LocalFuture, Source, SourceError, SourceKind, ValueStream, ValueWrites};
use larder_store::clock;
use std::{rc::Rc, sync::Arc};

/// One core's handle on a group whose keys have owners.
pub struct PeerSource(Rc<PeerGroup>);

impl PeerSource {
    /// The source that asks the owners of keys.
    pub fn new(group: Rc<PeerGroup>) -> PeerSource {
        PeerSource(group)
    }
    fn inner(&self) -> &Rc<dyn Source> {
        &self.0.source
    }
    fn forget(&self, key: &[u8]) {
        self.0.cache.invalidate(self.0.cache.key(key));
    }
}

impl Source for PeerSource {
    fn kind(&self) -> SourceKind<'_> {
        match self.inner().kind() {
            // The owner keeps what is written, not this node.
            SourceKind::Memory => SourceKind::Values(ValueWrites::Changed),
            kind => kind,
        }
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        let membership = self.0.membership();
        self.0.counts.fetches.add(batch.len() as u64);
        let mut here = Vec::with_capacity(batch.len());
        let mut elsewhere: Vec<(&Arc<Member>, Vec<Fetch>)> = Vec::new();
        for fetch in batch.drain(..) {
            let is_own = membership.owner(fetch.key()).is_self;
            // A whole reply is no value that a peer could answer.
            if fetch.reply_name().is_some() || is_own && fetch.is_direct() {
                here.push(fetch);
                continue;
            }
            if fetch.is_direct() && self.0.is_store() {
                // What this node lacks may well be at the owner.
                fetch.finish(Err(SourceError::Unavailable(NOT_AGREED.into())), clock::now());
                continue;
            }
            if fetch.is_direct() {
                here.push(self.0.as_substitute(fetch));
                continue;
            }
            let first = self.0.asked_first(&membership, &fetch);
            if first.is_self {
                here.push(if is_own { fetch } else { self.0.as_substitute(fetch) });
                continue;
            }
            match elsewhere.iter_mut().find(|(of, fetches)| Arc::ptr_eq(of, first) && fetches.len() < MOST_KEYS) {
                Some((_, fetches)) => fetches.push(fetch),
                None => elsewhere.push((first, vec![fetch])),
            }
        }
        if !here.is_empty() {
            self.inner().fetch(&mut here);
        }
        for (first, fetches) in elsewhere {
            let takes_many = first.is_larder() && !first.is_out() && !first.is_out_for(&self.0.name);
            if takes_many && fetches.len() > 1 {
                let group = self.0.clone();
                tokio::task::spawn_local(group.fetch_many(membership.clone(), first.clone(), fetches, false));
                continue;
            }
            for fetch in fetches {
                // The node is told of the request that is traced, so that travels alone.
                match takes_many && fetch.trace().is_none() {
                    true => self.0.gather(&membership, first, fetch),
                    false => {
                        let group = self.0.clone();
                        drop(tokio::task::spawn_local(group.fetch(membership.clone(), first.clone(), fetch)));
                    }
                }
            }
        }
    }
    fn stream<'a>(
        &'a self,
        key: &'a [u8],
        policy: &FillPolicy,
    ) -> Option<LocalFuture<'a, Result<Option<ValueStream>, SourceError>>> {
        // Keys that no node keeps have no owner.
        self.inner().stream(key, policy)
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            if self.0.is_store() {
                self.0.set_at_owner(key, value, expiry).await?;
                self.forget(key);
                self.0.changed_at_owner(key).await;
                return Ok(true);
            }
            let replaced = self.inner().put(key, value, expiry).await?;
            self.0.removed(key, || self.forget(key)).await?;
            Ok(replaced)
        })
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            let existed = match self.inner().delete(key).await {
                deleted if !self.0.is_store() => deleted?,
                // The owner knows; it is not asked.
                _ => true,
            };
            self.0.removed(key, || self.forget(key)).await?;
            Ok(existed)
        })
    }
    fn expire<'a>(&'a self, key: &'a [u8], expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            if self.0.is_store() {
                let reason = "ERR the lifetime of a key can be changed at its owner only (peers)";
                return Err(SourceError::Refused(reason.into()));
            }
            let changed = self.inner().expire(key, expiry).await?;
            self.0.removed(key, || self.forget(key)).await?;
            Ok(changed)
        })
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        self.inner().ping()
    }
}
