//! The registry of WATCH: which clients watch which keys of a group.
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

/// Room for this many watched keys is kept.
const KEPT_KEYS: usize = 64;

/// The watches of one group; shared by all cores.
#[derive(Debug, Default)]
pub(super) struct WatchRegistry {
    /// The number of watches: while it is 0, a write does nothing else here.
    count: AtomicUsize,
    keys: Mutex<HashMap<Box<[u8]>, Vec<KeyWatch>>>,
}
/// One client's watch over one key.
#[derive(Debug)]
struct KeyWatch {
    broken: Arc<AtomicBool>,
    existed: bool,
}
impl KeyWatch {
    fn end(&self) {
        self.broken.store(true, Relaxed);
    }
}
impl WatchRegistry {
    /// Keys were written. Call it while they are locked, so that the next holder of the locks sees
    /// it.
    pub(super) fn changed<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let watched = self.keys.lock();
        for key in keys {
            watched.get(key.as_ref()).into_iter().flatten().for_each(KeyWatch::end);
        }
    }
    /// Any key may have changed: the source is another one.
    pub(super) fn all_changed(&self) {
        self.keys.lock().values().flatten().for_each(KeyWatch::end);
    }
    /// All keys were deleted.
    pub(super) fn all_deleted(&self) {
        let watched = self.keys.lock();
        watched.values().flatten().filter(|watching| watching.existed).for_each(KeyWatch::end);
    }
    /// Registers a watch without keys. The key locks order this before the writes that must see it.
    pub(super) fn begin(&self) {
        self.count.fetch_add(1, Relaxed);
    }
    /// Adds a key to a watch. `broken` is set when the key changes.
    pub(super) fn add(&self, key: &[u8], existed: bool, broken: &Arc<AtomicBool>) {
        let watching = KeyWatch { broken: broken.clone(), existed };
        self.keys.lock().entry(key.into()).or_default().push(watching);
    }
    /// Ends the watch with this `broken`.
    pub(super) fn end<'a>(&self, keys: impl Iterator<Item = &'a [u8]>, broken: &Arc<AtomicBool>) {
        let mut watched = self.keys.lock();
        for key in keys {
            if let Some(watches) = watched.get_mut(key) {
                watches.retain(|other| !Arc::ptr_eq(&other.broken, broken));
                if watches.is_empty() {
                    watched.remove(key);
                }
            }
        }
        // No client is charged for the room that those who have left needed.
        if watched.capacity() > 4 * watched.len().max(KEPT_KEYS) {
            let twice = 2 * watched.len();
            watched.shrink_to(twice);
        }
        drop(watched);
        self.count.fetch_sub(1, Relaxed);
    }
}
