//! What a cache counts.

use crate::miss_causes::MissCauses;

/// Counters of one cache, summed over its shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries held, expired ones that are not yet reclaimed included.
    pub entries: u64,
    /// Entries held, remembered absences included, that have an expiry.
    pub expiring_entries: u64,
    /// Remembered absences.
    pub negative_entries: u64,
    /// Bytes on the account of the bound.
    pub used_bytes: u64,
    /// Bytes of records and large values that live.
    pub live_bytes: u64,
    /// The bound.
    pub max_bytes: u64,
    /// Bytes that are still to be freed, because the bound was lowered.
    pub shrink_bytes: u64,
    /// Bytes of open segments.
    pub segment_bytes: u64,
    /// Bytes of large entries.
    pub large_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of the ghost.
    pub ghost_bytes: u64,
    /// Bytes of the timing wheel.
    pub wheel_bytes: u64,
    /// Fetches in flight.
    pub flights: u64,
    /// Tags that entries carry, each counted once for each shard where one does.
    pub tags: u64,
    /// Bytes of these tags, besides four for each in an entry.
    pub tag_bytes: u64,
    /// Reads answered.
    pub hits: u64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Why, as far as it is remembered.
    pub miss_causes: MissCauses,
    /// Reads answered by a remembered absence.
    pub negative_hits: u64,
    /// Reads of what was derived from an entry that were answered; `hits` has them as well.
    pub derived_hits: u64,
    /// Reads answered with something out of date; `hits` or `negative_hits` have them as well.
    pub stale_hits: u64,
    /// Fetches that failed or took too long, and were answered with something out of date.
    pub stale_fetches: u64,
    /// Entries that were stored under a key that had none.
    pub insertions: u64,
    /// Writes, fills (of absences too), deletes, and entries that were cleared.
    pub changes: u64,
    /// Entries dropped for room.
    pub evictions: u64,
    /// Entries dropped for time.
    pub expirations: u64,
    /// Fills that were not stored because a write or an invalidation overtook them.
    pub fenced_fills: u64,
    /// Clears of tags.
    pub tag_clears: u64,
}

impl Stats {
    pub(crate) fn add(&mut self, other: &Stats) {
        let Stats {
            entries,
            expiring_entries,
            negative_entries,
            used_bytes: _,
            live_bytes,
            max_bytes: _,
            shrink_bytes: _,
            segment_bytes,
            large_bytes,
            index_bytes,
            ghost_bytes,
            wheel_bytes,
            flights,
            hits,
            misses,
            miss_causes,
            negative_hits,
            derived_hits,
            stale_hits,
            stale_fetches,
            insertions,
            changes,
            evictions,
            expirations,
            fenced_fills,
            tags,
            tag_bytes,
            tag_clears,
        } = other;
        self.entries += entries;
        self.expiring_entries += expiring_entries;
        self.negative_entries += negative_entries;
        self.live_bytes += live_bytes;
        self.segment_bytes += segment_bytes;
        self.large_bytes += large_bytes;
        self.index_bytes += index_bytes;
        self.ghost_bytes += ghost_bytes;
        self.wheel_bytes += wheel_bytes;
        self.flights += flights;
        self.hits += hits;
        self.misses += misses;
        self.miss_causes.add(miss_causes);
        self.negative_hits += negative_hits;
        self.derived_hits += derived_hits;
        self.stale_hits += stale_hits;
        self.stale_fetches += stale_fetches;
        self.insertions += insertions;
        self.changes += changes;
        self.evictions += evictions;
        self.expirations += expirations;
        self.fenced_fills += fenced_fills;
        self.tags += tags;
        self.tag_bytes += tag_bytes;
        self.tag_clears += tag_clears;
    }
}
