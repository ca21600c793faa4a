//! What a shard tells the simulation of other sizes ([`crate::what_if`]): what happens to a sample
//! of its keys. And what callers learn from samples.

use crate::{
    cache::Cache,
    evicted::Evicted,
    key::Key,
    record::{self, Meta},
    shard::Shard,
    shard_common::Rules,
    sync::lock,
    time::Millis,
    what_if::{CacheSizes, Held, Lasts, Simulated, WhatIf, WhatIfSample, is_sampled},
};
use std::sync::atomic::Ordering::Relaxed;

impl Shard {
    /// A counted read found the record at a position.
    #[inline(always)]
    pub(crate) fn sample_hit(&self, rules: &Rules, hash: u64, position: u32, now: Millis) {
        if is_sampled(hash, self.sample_limit) {
            self.note_hit(rules, hash, position, now);
        }
    }

    /// A counted read found nothing that may be served.
    #[inline(always)]
    pub(crate) fn sample_miss(&self, rules: &Rules, hash: u64, now: Millis) {
        if is_sampled(hash, self.sample_limit) {
            note_miss(rules, hash, now);
        }
    }

    /// A key was deleted, invalidated or cleared.
    #[inline]
    pub(crate) fn sample_removal(&self, rules: &Rules, hash: u64) {
        if is_sampled(hash, self.sample_limit)
            && let Some(what_if) = &rules.what_if
        {
            what_if.removed(hash);
        }
    }

    /// A key was stored, or its lifetime changed. `ends_at`: it has an end at its source, which will
    /// be the same when it is fetched again.
    #[inline]
    pub(crate) fn sample_stored(&self, rules: &Rules, key: Key<'_>, ends_at: bool, now: Millis) {
        if is_sampled(key.hash, self.sample_limit) {
            self.note_stored(rules, key, ends_at, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_hit(&self, rules: &Rules, hash: u64, position: u32, now: Millis) {
        let Some(what_if) = &rules.what_if else { return };
        let record = self.log.record(position);
        let meta = Meta::read(record);
        if !meta.is_hidden() {
            let end = record::end(record, meta);
            let lasts = end.map_or(Lasts::Forever, |end| Lasts::Until(end.at));
            what_if.read(hash, Some(Held { weight: self.log.footprint(position), lasts }), now);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_stored(&self, rules: &Rules, key: Key<'_>, ends_at: bool, now: Millis) {
        let Some(what_if) = &rules.what_if else { return };
        let Some((position, entry)) = self.find(key) else { return };
        // Copies that may be served out of date while they are renewed last for longer.
        let windows = record::is_soft(entry.record, entry.meta).then(|| rules.windows(&entry).while_renewed);
        let longer = windows.unwrap_or(0);
        let lasts = match entry.expiry() {
            None => Lasts::Forever,
            Some(end) if ends_at => Lasts::Until(end.saturating_add(longer)),
            Some(end) => Lasts::For(end.saturating_sub(now).saturating_add(longer)),
        };
        what_if.stored(key.hash, Held { weight: self.log.footprint(position), lasts }, now);
    }
}

#[cold]
#[inline(never)]
fn note_miss(rules: &Rules, hash: u64, now: Millis) {
    if let Some(what_if) = &rules.what_if {
        what_if.read(hash, None, now);
    }
}

impl Cache {
    /// The latest evictions, the oldest first: one in 16 of those of a shard, and at most 512.
    pub fn evicted(&self) -> Vec<Evicted> {
        self.rules.evicted.latest()
    }

    /// What the hit ratio would be at other sizes; `None`: it is not simulated
    /// ([`Config::what_if`](crate::Config::what_if)).
    pub fn what_if(&self, now: Millis) -> Option<WhatIf> {
        let what_if = self.rules.what_if.as_ref()?;
        Some(self.with_sizes(|sizes| what_if.report(sizes, now)))
    }

    /// How much is simulated for [`what_if`](Self::what_if); `None`: nothing.
    pub fn what_if_sample(&self) -> Option<WhatIfSample> {
        self.rules.what_if.as_ref().map(Simulated::sample)
    }

    /// Keeps the simulation up.
    pub(crate) fn tick_what_if(&self, now: Millis) {
        let Some(what_if) = &self.rules.what_if else { return };
        let limit = self.with_sizes(|sizes| what_if.tick(sizes, now));
        if self.rules.sample_limit.swap(limit, Relaxed) != limit {
            for number in 0..self.shards() {
                lock(self.mutex(number)).sample_limit = limit;
            }
        }
    }

    fn with_sizes<R>(&self, run: impl FnOnce(&CacheSizes<'_>) -> R) -> R {
        let shards = |bytes| (self.shards_at(bytes), size_of::<Shard>());
        run(&CacheSizes { stats: &self.stats(), max_keys: self.max_keys(), shards: &shards })
    }
}
