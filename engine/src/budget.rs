//! The bound, shared by the shards of a cache: bytes and keys in use against what is allowed.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of an entry that counts as small.
const SMALL: usize = 128;

/// The counters publish no other data, so relaxed order is enough everywhere.
#[derive(Debug)]
pub(crate) struct Budget {
    max_bytes: AtomicUsize,
    max_keys: Option<usize>,
    bytes: AtomicUsize,
    /// Kept only where `max_keys` is set: a line that all cores write is not free.
    keys: AtomicUsize,
}

/// What one shard has on the account.
#[derive(Debug, Default)]
pub(crate) struct Charged {
    bytes: usize,
    keys: usize,
}

impl Budget {
    pub(crate) fn new(max_bytes: usize, max_keys: Option<usize>) -> Budget {
        Budget { max_bytes: max_bytes.into(), max_keys, bytes: 0.into(), keys: 0.into() }
    }

    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes.load(Relaxed)
    }

    pub(crate) fn set_max_bytes(&self, bytes: usize) {
        self.max_bytes.store(bytes, Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// About how many entries one of so many shards can hold, all of them small.
    pub(crate) fn entries(&self, shards: usize) -> usize {
        (self.max_bytes() / SMALL).min(self.max_keys.unwrap_or(usize::MAX)) / shards
    }

    pub(crate) fn max_keys(&self) -> Option<usize> {
        self.max_keys
    }

    /// Brings a shard's account to what it now holds.
    pub(crate) fn settle(&self, charged: &mut Charged, bytes: usize, keys: usize) {
        if bytes != charged.bytes {
            // Wrapping addition of the difference is subtraction where it is negative.
            self.bytes.fetch_add(bytes.wrapping_sub(charged.bytes), Relaxed);
            charged.bytes = bytes;
        }
        if self.max_keys.is_some() && keys != charged.keys {
            self.keys.fetch_add(keys.wrapping_sub(charged.keys), Relaxed);
            charged.keys = keys;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.bytes_over() || self.max_keys.is_some_and(|max| self.keys.load(Relaxed) > max)
    }

    /// Is the cache still filling?
    pub(crate) fn has_room(&self) -> bool {
        let max = self.max_bytes();
        self.bytes() < max - max / 32 && self.max_keys.is_none_or(|max| self.keys.load(Relaxed) < max)
    }

    pub(crate) fn bytes_over(&self) -> bool {
        self.bytes() > self.max_bytes()
    }
}
