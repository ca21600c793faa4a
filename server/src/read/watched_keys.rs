//! WATCH on a source on this machine, whose writes all pass through Larder.
use super::{group::Group, pending_writes::PendingWrites};
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
    keys: Vec<Box<[u8]>>,
    broken: Arc<AtomicBool>,
    /// The earliest expiry of the watched keys.
    expiry: Option<Millis>,
}
impl WatchedKeys {
    /// Whether any of the keys has changed or expired. Call it while they are locked.
    pub fn is_broken(&self, now: Millis) -> bool {
        self.broken.load(Relaxed) || self.expiry.is_some_and(|at| at <= now)
    }
    /// The watched keys.
    pub fn keys(&self) -> &[Box<[u8]>] {
        &self.keys
    }
    /// Watches one more key, which has this entry. Call it while the key is locked.
    pub fn add(&mut self, key: &[u8], entry: Option<&StoredValue>) {
        if self.keys.iter().any(|known| **known == *key) {
            return;
        }
        self.writes.watched.add(key, entry.is_some(), &self.broken);
        self.keys.push(key.into());
        self.expiry = [self.expiry, entry.and_then(|entry| entry.expiry)].into_iter().flatten().min();
    }
}
impl Drop for WatchedKeys {
    fn drop(&mut self) {
        self.writes.watched.end(&self.keys, &self.broken);
    }
}

impl Group {
    /// A watch without keys.
    pub fn watch(&self) -> WatchedKeys {
        self.writes.watched.begin();
        WatchedKeys { writes: self.writes.clone(), keys: Vec::new(), broken: Arc::default(), expiry: None }
    }
}
