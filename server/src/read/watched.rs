//! Keys that clients WATCH, on a source whose writes all come by here.
use super::{Group, write::Writes};
use crate::source::Found;
use larder_engine::Millis;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

/// Who watches what, of one group; shared by all cores.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Watches that there are: a write looks no further as long as there is none.
    count: AtomicUsize,
    keys: Mutex<HashMap<Box<[u8]>, Vec<Watching>>>,
}
/// One client's watch over one key.
#[derive(Debug)]
struct Watching {
    broken: Arc<AtomicBool>,
    existed: bool,
}
impl Watching {
    fn end(&self) {
        self.broken.store(true, Relaxed);
    }
}
impl Watched {
    /// Keys were written. To be called while they are held: who takes them afterwards sees it.
    pub(super) fn changed<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let watched = self.keys.lock();
        for key in keys {
            watched.get(key.as_ref()).into_iter().flatten().for_each(Watching::end);
        }
    }
    /// All were deleted.
    pub(super) fn all_deleted(&self) {
        let watched = self.keys.lock();
        watched.values().flatten().filter(|watching| watching.existed).for_each(Watching::end);
    }
}

/// One client's watch over keys, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    writes: Arc<Writes>,
    keys: Vec<Box<[u8]>>,
    broken: Arc<AtomicBool>,
    /// When the first of those that exist expires.
    expiry: Option<Millis>,
}
impl Watch {
    /// Has any of the keys changed, or expired by now? To be asked while they are held.
    pub fn is_broken(&self, now: Millis) -> bool {
        self.broken.load(Relaxed) || self.expiry.is_some_and(|at| at <= now)
    }
    /// What is watched.
    pub fn keys(&self) -> &[Box<[u8]>] {
        &self.keys
    }
    /// Watches one more key, which has this entry. To be called while it is held.
    pub fn add(&mut self, key: &[u8], entry: Option<&Found>) {
        if self.keys.iter().any(|known| **known == *key) {
            return;
        }
        let watching = Watching { broken: self.broken.clone(), existed: entry.is_some() };
        self.writes.watched.keys.lock().entry(key.into()).or_default().push(watching);
        self.keys.push(key.into());
        self.expiry = [self.expiry, entry.and_then(|entry| entry.expiry)].into_iter().flatten().min();
    }
}
impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = self.writes.watched.keys.lock();
        for key in &self.keys {
            if let Some(watches) = watched.get_mut(key) {
                watches.retain(|other| !Arc::ptr_eq(&other.broken, &self.broken));
                if watches.is_empty() {
                    watched.remove(key);
                }
            }
        }
        self.writes.watched.count.fetch_sub(1, Relaxed);
    }
}

impl Group {
    /// A watch over nothing yet.
    pub fn watch(&self) -> Watch {
        // The locks of the keys order this before the writes that must see it.
        self.writes.watched.count.fetch_add(1, Relaxed);
        Watch { writes: self.writes.clone(), keys: Vec::new(), broken: Arc::default(), expiry: None }
    }
}
