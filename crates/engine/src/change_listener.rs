//! A cache's listeners, which hear that a key is not what it was. Without a listener, an operation
//! costs one relaxed load more.

use crate::{
    key::Key,
    sync::{RwLock, read, write},
};
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Hears of every change of a key that a reader of the cache could see, in their order for each
/// key. A fill is none: it says what the source already had.
pub trait Listener: Send + Sync + fmt::Debug {
    /// The key was written, deleted, evicted or invalidated, or has expired; `by` as
    /// [`Tier::act_as`](crate::Tier::act_as) says, or 0. Called under the lock of its shard: it
    /// must be quick and must not use the cache.
    fn changed(&self, key: Key<'_>, by: u64);
    /// The entry of the key has more tags than before, but the same value and end. Called like
    /// [`Listener::changed`].
    fn tagged(&self, _key: Key<'_>) {}
    /// The entry of the key is removed for this reason, which a change of the same key tells, too.
    /// Called like [`Listener::changed`].
    fn removed(&self, _key: Key<'_>, _why: Removal) {}
    /// The background has removed what a clear ended, which was told already. Called like
    /// [`Listener::changed`].
    fn swept(&self, _key: Key<'_>) {}
    /// Entries are being cleared. Called under the locks of all shards, so it has its place among
    /// the changes of every key: those told before it are cleared, and those told after it are
    /// not.
    fn clearing(&self, _what: Clear<'_>) {}
    /// Every key may have changed. Called after the fact, perhaps under locks.
    fn cleared(&self) {}
    /// The operation that changed something is about to return, and holds no lock any more. Called
    /// when nothing changed as well.
    fn settled(&self);
}

/// Why a cache removes an entry by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Its lifetime is over.
    Expired,
    /// There is no room for it.
    Evicted,
}

/// What a clear removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clear<'c> {
    /// Everything.
    All,
    /// The keys that begin with a prefix. If it is not final, they are out of date.
    Prefix(&'c [u8], bool),
    /// What carries a tag; out of date, if the clear is soft.
    Tag(&'c [u8], bool),
}

/// Which of a cache's listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerKind {
    /// Knows which client has read which key.
    Tracking,
    /// Publishes keyspace events.
    Events,
    /// Logs changes for replicas. While it listens, clears lock all shards at once.
    Replication,
}

/// Listeners that a cache can have.
const KINDS: usize = 3;
/// Bits of the number of those who listen by one of them.
const BITS: u32 = u64::BITS / KINDS as u32;

impl ListenerKind {
    /// One of those who listen by it, in the sum of all.
    fn one(self) -> u64 {
        1 << (BITS * self as u32)
    }
}

/// Whom a cache tells.
#[derive(Debug, Default)]
pub(crate) struct ChangeListeners {
    /// How many want to hear by each listener, in `BITS` bits each.
    listening: AtomicU64,
    listeners: [OnceLock<Arc<dyn Listener>>; KINDS],
    /// Held by clears that lock one shard after the other.
    stepwise: RwLock<()>,
}

impl ChangeListeners {
    pub(crate) fn set(&self, kind: ListenerKind, listener: Arc<dyn Listener>) -> bool {
        self.listeners[kind as usize].set(listener).is_ok()
    }

    pub(crate) fn begin(&self, kind: ListenerKind) {
        self.listening.fetch_add(kind.one(), Relaxed);
        // A stepwise clear that has not seen us ends first.
        drop(write(&self.stepwise));
    }

    pub(crate) fn end(&self, kind: ListenerKind) {
        self.listening.fetch_sub(kind.one(), Relaxed);
    }

    /// Does anybody listen? Relaxed is enough: see [`Cache::listen`](crate::Cache::listen).
    #[inline]
    pub(crate) fn are_heard(&self) -> bool {
        self.listening.load(Relaxed) != 0
    }

    /// Runs a clear that locks one shard after the other; `None` if a listener wants to hear where
    /// among the changes it stands. The caller holds no lock.
    pub(crate) fn stepwise<R>(&self, clear: impl FnOnce() -> R) -> Option<R> {
        let _held = read(&self.stepwise);
        (self.listening.load(Relaxed) < ListenerKind::Replication.one()).then(clear)
    }

    #[cold]
    #[inline(never)]
    fn tell(&self, tell: impl Fn(&dyn Listener)) {
        let listening = self.listening.load(Relaxed);
        for (kind, listener) in self.listeners.iter().enumerate() {
            if listening >> (BITS * kind as u32) & ((1 << BITS) - 1) != 0
                && let Some(listener) = listener.get()
            {
                tell(&**listener);
            }
        }
    }

    #[inline]
    pub(crate) fn changed(&self, key: Key<'_>, by: u64) {
        if self.are_heard() {
            self.tell(|listener| listener.changed(key, by));
        }
    }

    #[inline]
    pub(crate) fn tagged(&self, key: Key<'_>) {
        if self.are_heard() {
            self.tell(|listener| listener.tagged(key));
        }
    }

    pub(crate) fn removed(&self, key: Key<'_>, why: Removal) {
        self.tell(|listener| listener.removed(key, why));
    }

    pub(crate) fn swept(&self, key: Key<'_>) {
        if self.are_heard() {
            self.tell(|listener| listener.swept(key));
        }
    }

    /// The locks of all shards are held.
    pub(crate) fn clearing(&self, what: Clear<'_>) {
        if self.are_heard() {
            self.tell(|listener| listener.clearing(what));
        }
    }

    pub(crate) fn cleared(&self) {
        if self.are_heard() {
            self.tell(|listener| listener.cleared());
        }
    }

    #[inline]
    pub(crate) fn settled(&self) {
        if self.are_heard() {
            self.tell(|listener| listener.settled());
        }
    }
}
