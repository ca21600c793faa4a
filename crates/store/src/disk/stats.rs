//! What the store counts and how it stands.
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Levels of the tree.
pub const LEVELS: usize = 7;

/// Counters of the store's threads. Relaxed throughout: each number stands for itself.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) batches: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) in_place: AtomicU64,
    pub(super) in_place_pauses: AtomicU64,
    pub(super) cached_reads: AtomicU64,
    pub(super) stalls: AtomicU64,
    pub(super) stalled_micros: AtomicU64,
    pub(super) table_bytes: AtomicU64,
}
impl Counts {
    pub(super) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }
    /// A batch of so many writes, with or without a sync of its own.
    pub(super) fn add_batch(&self, writes: usize, bytes: usize, has_sync: bool) {
        Counts::add(&self.batches, 1);
        Counts::add(&self.writes, writes as u64);
        Counts::add(&self.bytes, bytes as u64);
        Counts::add(&self.syncs, has_sync.into());
    }
}

/// How a tree stands.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs)]
pub struct TreeStats {
    /// Table files, level by level.
    pub tables: [u64; LEVELS],
    /// Sorted runs of level 0, each of which a read may have to look into.
    pub level0_runs: u64,
    pub sealed_memtables: u64,
    /// Of all memtables.
    pub memtable_bytes: u64,
    pub journals: u64,
    /// Everything on disk.
    pub disk_bytes: u64,
    pub block_cache_bytes: u64,
    pub compactions_running: u64,
    pub compactions: u64,
    pub compacting: Duration,
    /// Expired entries that compaction has dropped.
    pub expired: u64,
}

/// How an open store stands.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs)]
pub struct StoreStats {
    pub tree: TreeStats,
    /// Takes no more writes.
    pub poisoned: bool,
    /// Groups of writes that were written together.
    pub batches: u64,
    pub writes: u64,
    /// Keys and values that were written.
    pub bytes: u64,
    pub syncs: u64,
    /// Those of the writes that cores made themselves.
    pub in_place: u64,
    /// Writes of cores that took so long that the committer writes for a while.
    pub in_place_pauses: u64,
    /// Reads that cores made themselves.
    pub cached_reads: u64,
    /// Batches that were held back because flushes or compactions were behind.
    pub stalls: u64,
    pub stalled: Duration,
    /// Of tables made by flushes and compactions; divided by `bytes`, and one for the journal: the
    /// write amplification.
    pub table_bytes: u64,
}
