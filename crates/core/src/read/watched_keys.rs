//! WATCH on a source on this machine, whose writes all pass through Larder.
use super::{group::Group, pending_writes::PendingWrites};
use indexmap::IndexSet;
use larder_engine::Millis;
use larder_store::StoredValue;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// The watched keys of one client, until this is dropped.
#[derive(Debug)]
pub struct WatchedKeys {
    writes: Arc<PendingWrites>,
    keys: IndexSet<Box<[u8]>>,
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
        self.keys.iter().map(|key| &**key)
    }
    /// About what the watch occupies.
    pub fn owned(&self) -> usize {
        self.owned
    }
    /// Watches one more key, which has this entry. Call it while the key is locked.
    pub fn add(&mut self, key: &[u8], entry: Option<&StoredValue>) {
        if !self.keys.insert(key.into()) {
            return;
        }
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
            keys: IndexSet::new(),
            owned: 0,
            broken: Arc::default(),
            expiry: None,
        }
    }
}
