//! Who hears of changes. Nobody, as a rule: then an operation costs one relaxed load more.

use crate::{
    Cache,
    sync::{Arc, lock},
};
use std::{
    fmt,
    sync::{
        Arc as Shared, OnceLock,
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
pub(crate) struct Changes {
    /// How many want to hear.
    listening: AtomicUsize,
    listener: OnceLock<Shared<dyn Listener>>,
}
impl Changes {
    /// Relaxed is enough: see [`Cache::listen`].
    #[inline]
    fn listener(&self) -> Option<&Shared<dyn Listener>> {
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

/// Has a cache tell its listener of changes until it is dropped.
#[derive(Debug)]
pub struct Listening(Arc<Cache>);
impl Drop for Listening {
    fn drop(&mut self) {
        self.0.rules.changes.listening.fetch_sub(1, Relaxed);
    }
}

impl Cache {
    /// Whom to tell of changes while somebody [listens](Cache::listen). A cache has one listener for life; false if it had one already.
    pub fn set_listener(&self, listener: Shared<dyn Listener>) -> bool {
        self.rules.changes.listener.set(listener).is_ok()
    }

    /// Every change that begins after this returns is told to the listener, until the last [`Listening`] is dropped.
    pub fn listen(self: &Arc<Self>) -> Listening {
        self.rules.changes.listening.fetch_add(1, Relaxed);
        // Whoever locks a shard after us sees it; whoever was before us has made its change.
        for number in 0..self.shards() {
            drop(lock(self.mutex(number)));
        }
        Listening(self.clone())
    }
}
