//! Disk stores.
use super::metric_family::{
    MetricFamily,
    MetricKind::{Counter, Gauge},
};

/// Like `part`, for seconds of a disk store.
macro_rules! store_seconds {
    ($name:literal, $($field:ident).+, $help:literal) => {
        MetricFamily {
            name: $name,
            kind: Counter,
            help: $help,
            read: |s, to| {
                for (group, store) in s.parts(|group| group.store.as_ref()) {
                    to.seconds(&[("group", group)], store.$($field).+.as_secs_f64());
                }
            },
        }
    };
}

pub(super) const DISK_STORE: &[MetricFamily] = &[
    part!(store, "larder_store_poisoned", Gauge, poisoned, "1 if the disk store refuses writes after a failed write."),
    part!(store, "larder_store_writes_total", Counter, writes, "Writes to the disk store."),
    part!(store, "larder_store_batches_total", Counter, batches, "Batches of writes, each with at most one sync."),
    part!(store, "larder_store_written_bytes_total", Counter, bytes, "Bytes of keys and values written."),
    part!(
        store,
        "larder_store_table_bytes_total",
        Counter,
        table_bytes,
        "Bytes of table files that flushes and compactions wrote. Divided by larder_store_written_bytes_total, plus one for the journal, this is the write amplification."
    ),
    part!(store, "larder_store_syncs_total", Counter, syncs, "Syncs of the journal."),
    part!(
        store,
        "larder_store_in_place_writes_total",
        Counter,
        in_place,
        "Writes that workers made themselves, without the committer thread."
    ),
    part!(
        store,
        "larder_store_in_place_pauses_total",
        Counter,
        in_place_pauses,
        "Writes of workers that took over 1 ms. For 50 times as long (at most 10 s), only the committer thread writes."
    ),
    part!(
        store,
        "larder_store_in_place_reads_total",
        Counter,
        cached_reads,
        "Reads of the disk store that workers answered from its memtable and block cache, without a reader thread."
    ),
    part!(
        store,
        "larder_store_stalls_total",
        Counter,
        stalls,
        "Batches held back because flushes or compactions were behind."
    ),
    store_seconds!("larder_store_stalled_seconds_total", stalled, "Time that batches were held back."),
    MetricFamily {
        name: "larder_store_tables",
        kind: Gauge,
        help: "Table files, by level.",
        read: |s, to| {
            for (group, store) in s.parts(|group| group.store.as_ref()) {
                for (level, tables) in store.tree.tables.iter().enumerate() {
                    to.number(&[("group", group), ("level", &level.to_string())], *tables);
                }
            }
        },
    },
    part!(
        store,
        "larder_store_level0_runs",
        Gauge,
        tree.level0_runs,
        "Runs of level 0; from 8 on, writes are slowed down."
    ),
    part!(store, "larder_store_sealed_memtables", Gauge, tree.sealed_memtables, "Memtables waiting to be flushed."),
    part!(store, "larder_store_memtable_bytes", Gauge, tree.memtable_bytes, "Bytes of all memtables."),
    part!(
        store,
        "larder_store_block_cache_bytes",
        Gauge,
        tree.block_cache_bytes,
        "Bytes of the block cache (store-block-cache)."
    ),
    part!(store, "larder_store_journals", Gauge, tree.journals, "Journals on disk."),
    part!(store, "larder_store_disk_bytes", Gauge, tree.disk_bytes, "Bytes on disk, including journals."),
    part!(store, "larder_store_compactions_running", Gauge, tree.compactions_running, "Running compactions."),
    part!(store, "larder_store_compactions_total", Counter, tree.compactions, "Completed compaction checks."),
    store_seconds!("larder_store_compaction_seconds_total", tree.compacting, "Time spent in compactions."),
    part!(store, "larder_store_expired_total", Counter, tree.expired, "Expired entries that compaction dropped."),
];
