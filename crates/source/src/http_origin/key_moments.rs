//! A bounded memory of keys about which something holds until a moment: the origin asked not to be
//! asked, or the value is too large.
use foldhash::fast::RandomState;
use larder_engine::Millis;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Keys that are remembered at the same time. Nothing holds of those beyond it.
const MOST_KEYS: usize = 10_000;

/// Keys about which something holds until a moment.
#[derive(Debug, Default)]
pub(super) struct KeyMoments {
    /// By the hash of the key: what holds of a key may hold of another one by mistake, which costs
    /// it no more than a wait or a copy.
    until: Mutex<HashMap<u64, Millis>>,
    /// So that a fetch takes no lock while there is none.
    count: AtomicUsize,
    hasher: RandomState,
}
impl KeyMoments {
    pub(super) fn add(&self, key: &[u8], until: Millis, now: Millis) {
        let mut keys = self.until.lock();
        if keys.len() >= MOST_KEYS {
            keys.retain(|_, until| *until > now);
        }
        if keys.len() < MOST_KEYS {
            keys.insert(self.hasher.hash_one(key), until);
        }
        self.count.store(keys.len(), Relaxed);
    }
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }
    /// It holds no longer.
    pub(super) fn forget(&self, key: &[u8]) {
        if !self.is_empty() {
            let mut keys = self.until.lock();
            keys.remove(&self.hasher.hash_one(key));
            self.count.store(keys.len(), Relaxed);
        }
    }
    /// Until when it holds of the key, if it does.
    pub(super) fn until(&self, key: &[u8], now: Millis) -> Option<Millis> {
        if self.is_empty() {
            return None;
        }
        let mut keys = self.until.lock();
        let hash = self.hasher.hash_one(key);
        let until = *keys.get(&hash)?;
        if until > now {
            return Some(until);
        }
        keys.remove(&hash);
        self.count.store(keys.len(), Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_ends_and_is_bounded() {
        let keys = KeyMoments::default();
        assert_eq!(keys.until(b"a", 0), None);
        keys.add(b"a", 10, 0);
        assert_eq!((keys.until(b"a", 9), keys.until(b"b", 9)), (Some(10), None));
        assert_eq!((keys.until(b"a", 10), keys.count.load(Relaxed)), (None, 0));
        for number in 0..2 * MOST_KEYS {
            keys.add(&number.to_le_bytes(), 100, 50);
        }
        assert_eq!(keys.count.load(Relaxed), MOST_KEYS);
        keys.add(b"later", 200, 100);
        assert_eq!(keys.count.load(Relaxed), 1, "those whose moment is past made room");
        keys.forget(b"earlier");
        keys.forget(b"later");
        assert!(keys.is_empty() && keys.until(b"later", 100).is_none());
    }
}
