//! A cache's listener, which hears that a key is not what it was. While nobody listens, an operation costs one relaxed load more.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Hears of every change of a key that a reader of the cache could see, in their order for each key. A fill is none: it says
/// what the source already had.
pub trait Listener: Send + Sync + fmt::Debug {
    /// The key was written, deleted, evicted or invalidated, or has expired; `by` as [`Tier::act_as`](crate::Tier::act_as) says, or 0. Called
    /// under the lock of its shard: it must be quick and must not use the cache.
    fn changed(&self, key: &[u8], by: u64);
    /// Every key may have changed. Called after the fact, perhaps under locks.
    fn cleared(&self);
    /// The operation that changed something is about to return, and holds no lock any more. Called when nothing changed as well.
    fn settled(&self);
}

/// Whom a cache tells.
#[derive(Debug, Default)]
pub(crate) struct ChangeListener {
    /// How many want to hear.
    pub(crate) listening: AtomicUsize,
    pub(crate) listener: OnceLock<Arc<dyn Listener>>,
}

impl ChangeListener {
    /// Relaxed is enough: see [`Cache::listen`](crate::Cache::listen).
    #[inline]
    pub(crate) fn listener(&self) -> Option<&Arc<dyn Listener>> {
        if self.listening.load(Relaxed) == 0 { None } else { self.listener.get() }
    }

    #[inline]
    pub(crate) fn changed(&self, key: &[u8], by: u64) {
        if let Some(listener) = self.listener() {
            listener.changed(key, by);
        }
    }

    pub(crate) fn cleared(&self) {
        if let Some(listener) = self.listener() {
            listener.cleared();
        }
    }

    #[inline]
    pub(crate) fn settled(&self) {
        if let Some(listener) = self.listener() {
            listener.settled();
        }
    }
}
