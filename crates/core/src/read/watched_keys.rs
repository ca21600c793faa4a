//! WATCH on a store: the writes that pass through this Larder, and for a shared store the revisions.
use super::{group::Group, pending_writes::PendingWrites};
use indexmap::IndexMap;
use larder_engine::Millis;
use larder_source::Revision;
use larder_store::StoredValue;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// The watched keys of one client, until this is dropped.
#[derive(Debug)]
pub struct WatchedKeys {
    writes: Arc<PendingWrites>,
    /// With the revision that a shared store had.
    keys: IndexMap<Box<[u8]>, Revision>,
    /// About what the keys occupy, here and in the registry.
    owned: usize,
    broken: Arc<AtomicBool>,
    /// The earliest expiry of the watched keys.
    expiry: Option<Millis>,
}
impl WatchedKeys {
    /// Whether any of the keys has changed or expired. Call it while they are locked.
    pub fn is_broken(&self, now: Millis) -> bool {
        self.broken.load(Relaxed) || self.expiry.is_some_and(|at| at <= now)
    }
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.keys().map(|key| &**key)
    }
    /// About what the watch occupies.
    pub fn owned(&self) -> usize {
        self.owned
    }
    /// The revision that a watched key had.
    pub fn revision(&self, key: &[u8]) -> Option<Revision> {
        self.keys.get(key).copied()
    }
    /// Watches one more key, which has this entry and, in a shared store, this revision. Call it while
    /// the key is locked.
    pub fn add(&mut self, key: &[u8], entry: Option<&StoredValue>, revision: Revision) {
        if self.keys.contains_key(key) {
            return;
        }
        self.keys.insert(key.into(), revision);
        self.owned += 2 * key.len() + 256;
        self.writes.watched.add(key, entry.is_some(), &self.broken);
        self.expiry = [self.expiry, entry.and_then(|entry| entry.expiry)].into_iter().flatten().min();
    }
}
impl Drop for WatchedKeys {
    fn drop(&mut self) {
        self.writes.watched.end(self.keys(), &self.broken);
    }
}

impl Group {
    pub fn watch(&self) -> WatchedKeys {
        self.writes.watched.begin();
        WatchedKeys {
            writes: self.writes.clone(),
            keys: IndexMap::new(),
            owned: 0,
            broken: Arc::default(),
            expiry: None,
        }
    }
}
