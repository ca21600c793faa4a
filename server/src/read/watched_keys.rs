//! Keys that clients WATCH, on a source whose writes all come by here.
use super::{group::Group, pending_writes::PendingWrites};
use crate::source::FetchedValue;
use larder_engine::Millis;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// One client's watch over keys, until it is dropped.
#[derive(Debug)]
pub struct WatchedKeys {
    writes: Arc<PendingWrites>,
    keys: Vec<Box<[u8]>>,
    broken: Arc<AtomicBool>,
    /// When the first of those that exist expires.
    expiry: Option<Millis>,
}
impl WatchedKeys {
    /// Has any of the keys changed, or expired by now? To be asked while they are held.
    pub fn is_broken(&self, now: Millis) -> bool {
        self.broken.load(Relaxed) || self.expiry.is_some_and(|at| at <= now)
    }
    /// What is watched.
    pub fn keys(&self) -> &[Box<[u8]>] {
        &self.keys
    }
    /// Watches one more key, which has this entry. To be called while it is held.
    pub fn add(&mut self, key: &[u8], entry: Option<&FetchedValue>) {
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
    /// A watch over nothing yet.
    pub fn watch(&self) -> WatchedKeys {
        self.writes.watched.begin();
        WatchedKeys { writes: self.writes.clone(), keys: Vec::new(), broken: Arc::default(), expiry: None }
    }
}
