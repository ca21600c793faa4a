//! Settings and state shared by all shards of a cache: the account, the hasher, the listener, lifetimes.

use crate::{
    budget::Budget,
    change_listener::ChangeListeners,
    entry::Entry,
    evicted::EvictedSample,
    large::Lent,
    policy::Eviction,
    stale_rules::{StaleRules, StaleWindows},
    time::Millis,
    what_if::Simulated,
};
use foldhash::quality::FixedState;
use std::{
    hash::{BuildHasher, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// Shared by all shards of a cache.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) budget: Budget,
    pub(crate) eviction: Eviction,
    /// Bytes that an entry of any size cannot have: the shards themselves and the segments that one
    /// record opens.
    pub(crate) fixed: usize,
    pub(crate) hasher: FixedState,
    pub(crate) changes: ChangeListeners,
    /// Milliseconds; 0 for none.
    pub(crate) default_ttl: AtomicU64,
    /// Per cent.
    pub(crate) jitter: u8,
    /// `None`: nothing is served that is out of date.
    pub(crate) stale: Option<Arc<dyn StaleRules>>,
    /// Of these rules: how long entries are kept past their freshness, ms.
    pub(crate) keep: AtomicU64,
    /// And how early entries are renewed at most, ms.
    pub(crate) ahead: AtomicU64,
    pub(crate) lent: Lent,
    /// Number of shards.
    pub(crate) shards: usize,
    /// Which shard takes the next step to a bound that was lowered.
    pub(crate) shrink_next: AtomicUsize,
    /// The number was chosen by the bounds.
    pub(crate) shards_by_size: bool,
    /// The simulation of other sizes.
    pub(crate) what_if: Option<Simulated>,
    /// Which keys it follows; each shard has the same limit.
    pub(crate) sample_limit: AtomicU64,
    /// The latest evictions.
    pub(crate) evicted: EvictedSample,
}

/// Remembered absences take at most one part in so many of the bounds, so that reads of keys that
/// do not exist cannot evict values.
const ABSENCE_SHARE: usize = 16;

impl Rules {
    /// Bytes and keys that a shard has for remembered absences.
    pub(crate) fn absence_room(&self) -> (usize, usize) {
        let share = |bound: usize| bound / self.shards / ABSENCE_SHARE;
        (share(self.budget.max_bytes()), self.budget.max_keys().map_or(usize::MAX, |keys| share(keys).max(1)))
    }

    /// For how long entries are kept past their freshness, ms.
    #[inline]
    pub(crate) fn keep(&self) -> u64 {
        self.keep.load(Relaxed)
    }

    /// How early entries are renewed at most, ms.
    #[inline]
    pub(crate) fn ahead(&self) -> u64 {
        self.ahead.load(Relaxed)
    }

    /// Asks the rules for the longest times that they give.
    pub(crate) fn ask_stale_rules(&self) {
        if let Some(rules) = &self.stale {
            self.keep.store(rules.longest_window(), Relaxed);
            self.ahead.store(rules.earliest_renewal(), Relaxed);
        }
    }

    /// For how long an entry that is out of date may be served.
    pub(crate) fn windows(&self, entry: &Entry<'_>) -> StaleWindows {
        self.stale.as_ref().map_or(StaleWindows::NONE, |rules| rules.windows(entry))
    }

    /// Whether it is time to renew a fresh entry, of which so much time is `left`.
    pub(crate) fn renews_ahead(&self, entry: &Entry<'_>, left: Option<u64>, now: Millis) -> bool {
        let near = left.filter(|left| *left <= self.ahead());
        near.zip(self.stale.as_ref()).is_some_and(|(left, rules)| rules.renews_ahead(entry, left, now))
    }

    /// A key's hash. Straight through the hasher: `[u8]`'s own `Hash` adds the length, which the
    /// hasher takes in anyway.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
    }
}
