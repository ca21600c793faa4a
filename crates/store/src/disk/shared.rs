//! What the store's threads share.
use super::{
    batch_writer::BatchWriter,
    counting::Waiting,
    dir::Dir,
    read_queue::ReadQueue,
    settings::StoreSettings,
    stats::{Counts, StoreStats},
    stop_signal::StopSignal,
    tree::Tree,
    write_gate::Gate,
    write_queue::WriteQueue,
    write_stop_reason::Poison,
};
use parking_lot::Mutex;
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

/// What the store's threads share.
pub(super) struct Shared {
    pub(super) settings: StoreSettings,
    pub(super) reads: ReadQueue,
    pub(super) scans: ReadQueue,
    pub(super) counting: Waiting,
    pub(super) writes: WriteQueue,
    /// The thread that has locked it writes.
    pub(super) writer: Mutex<BatchWriter>,
    pub(super) gate: Gate,
    pub(super) upkeep: StopSignal,
    pub(super) counts: Counts,
    pub(super) poison: Poison,
    /// Backups end.
    pub(super) closing: AtomicBool,
    pub(super) tree: Tree,
    // Last: the directory is unlocked when nothing uses it any more.
    pub(super) dir: Dir,
}

impl Shared {
    /// What a write needs.
    pub(super) fn to_write(&self) -> (&Tree, &Path, &Poison) {
        (&self.tree, self.dir.path(), &self.poison)
    }
    pub(super) fn stats(&self) -> StoreStats {
        let counts = &self.counts;
        StoreStats {
            tree: self.tree.stats(),
            poisoned: self.poison.reason().is_some(),
            batches: counts.batches.load(Relaxed),
            writes: counts.writes.load(Relaxed),
            bytes: counts.bytes.load(Relaxed),
            syncs: counts.syncs.load(Relaxed),
            in_place: counts.in_place.load(Relaxed),
            in_place_pauses: counts.in_place_pauses.load(Relaxed),
            cached_reads: counts.cached_reads.load(Relaxed),
            stalls: counts.stalls.load(Relaxed),
            stalled: Duration::from_micros(counts.stalled_micros.load(Relaxed)),
            table_bytes: counts.table_bytes.load(Relaxed),
        }
    }
}
