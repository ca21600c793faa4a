//! Who watches which keys of a group, and what breaks a watch.
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
pub(super) struct WatchRegistry {
    /// Watches that there are: a write looks no further as long as there is none.
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
    /// Keys were written. To be called while they are held: who takes them afterwards sees it.
    pub(super) fn changed<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let watched = self.keys.lock();
        for key in keys {
            watched.get(key.as_ref()).into_iter().flatten().for_each(KeyWatch::end);
        }
    }
    /// All were deleted.
    pub(super) fn all_deleted(&self) {
        let watched = self.keys.lock();
        watched.values().flatten().filter(|watching| watching.existed).for_each(KeyWatch::end);
    }
    /// There is one watch more, over nothing yet. The locks of the keys order this before the writes that must see it.
    pub(super) fn begin(&self) {
        self.count.fetch_add(1, Relaxed);
    }
    /// A watch goes on over one more key. `broken` is set when it changes.
    pub(super) fn add(&self, key: &[u8], existed: bool, broken: &Arc<AtomicBool>) {
        let watching = KeyWatch { broken: broken.clone(), existed };
        self.keys.lock().entry(key.into()).or_default().push(watching);
    }
    /// The watch with this `broken` ends.
    pub(super) fn end(&self, keys: &[Box<[u8]>], broken: &Arc<AtomicBool>) {
        let mut watched = self.keys.lock();
        for key in keys {
            if let Some(watches) = watched.get_mut(key) {
                watches.retain(|other| !Arc::ptr_eq(&other.broken, broken));
                if watches.is_empty() {
                    watched.remove(key);
                }
            }
        }
        self.count.fetch_sub(1, Relaxed);
    }
}
