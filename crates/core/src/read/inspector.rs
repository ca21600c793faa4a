//! The inspector: compares a sampled hit with the source a moment later. See decision 0028.
use super::group::Group;
use bytes::Bytes;
use larder_engine::{Cache, Key, Millis, Outcome};
use larder_source::{Fetch, Inspected, Inspection};
use larder_store::clock;
use std::{sync::Arc, time::Duration};

/// From a hit to its comparison, and from a difference to the look at whether the copy is still
/// there: a change that the source announces has arrived by then.
const MOMENT: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy)]
pub(super) struct ServedCopy {
    pub(super) version: u64,
    /// How long it had been kept.
    pub(super) age: Duration,
}

impl Group {
    /// Compares a served copy with the source, in a task of its own.
    pub(super) fn inspect(&self, inspection: &Arc<Inspection>, key: Key<'_>, served: ServedCopy) {
        let (inspection, cache, source, policy) =
            (inspection.clone(), self.cache.clone(), self.source.clone(), self.policy.clone());
        let key = Bytes::copy_from_slice(key.bytes());
        tokio::task::spawn_local(async move {
            tokio::time::sleep(MOMENT).await;
            let (wait, lead) = inspection.scratch.fetch(cache.key(&key), b"", clock::now());
            if let Some(lead) = lead {
                source.fetch(&mut vec![Fetch::to_compare(lead, policy)]);
            }
            let ended = match wait.await {
                Outcome::Value(value) => compare(&cache, &key, served, Some(&value)).await,
                Outcome::Absent => compare(&cache, &key, served, None).await,
                Outcome::Failed(_) | Outcome::Abandoned => Inspected::Skipped,
            };
            inspection.ended(ended, clock::now());
        });
    }
}

async fn compare(cache: &Cache, key: &[u8], served: ServedCopy, truth: Option<&Bytes>) -> Inspected {
    match is_same(cache, key, served, truth, clock::now()) {
        None => return Inspected::Forgotten,
        Some(true) => return Inspected::Same,
        Some(false) => tokio::time::sleep(MOMENT).await,
    }
    match is_same(cache, key, served, truth, clock::now()) {
        None => Inspected::Forgotten,
        Some(_) => Inspected::Older(served.age),
    }
}

/// Whether the tier's copy has this value; `None`: it is no longer the copy that was served.
fn is_same(cache: &Cache, key: &[u8], served: ServedCopy, truth: Option<&Bytes>, now: Millis) -> Option<bool> {
    let look = |entry: larder_engine::Entry<'_>| {
        let same = truth.is_some_and(|value| **value == *entry.value.as_bytes());
        (entry.version() == served.version).then_some(same)
    };
    cache.tier().peek(cache.key(key), now, look).flatten()
}
