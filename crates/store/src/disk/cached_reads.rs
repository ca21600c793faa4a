//! Reads that never touch the disk, for cores: of the memtable, and of the blocks that fjall's block
//! cache has.
//!
//! fjall offers none. Its tables take blocks from the block cache, else they read them from the file
//! that a table of descriptors has for them. So here each table has a twin: of the same file, with
//! the same block cache under the same number, but with an empty file as its descriptor. If a block
//! is not in the cache, the twin's read fails at once. Then a reader thread reads the key with the
//! table itself, which brings the block into the cache.
//!
//! A read counts only if the twins are of the tree's latest list of tables and no memtable waits for
//! its flush: then memtable and twins together have all entries.
use bytes::Bytes;
use fjall::AbstractTree;
use lsm_tree::{DescriptorTable, Table, TableId, table::filter::standard_bloom};
use parking_lot::{Mutex, RwLock};
use std::{collections::HashMap, fs::File, sync::Arc};

/// What a read of the cache alone has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Cached<T> {
    /// As the store has it.
    Known(T),
    /// A reader must look.
    Unknown,
}

/// The twins of a tree's tables.
pub(super) struct TwinTables {
    /// Has [`EMPTY`] for each twin. It never evicts one: fjall would then open the table's file.
    descriptors: Arc<DescriptorTable>,
    empty: Arc<File>,
    latest: RwLock<Arc<TwinVersion>>,
    /// The list whose twins were begun last.
    begun: Mutex<Option<VersionName>>,
}
/// Reading it gives nothing, without waiting.
const EMPTY: &str = "/dev/null";

/// The twins of one list of tables.
#[derive(Default)]
struct TwinVersion {
    of: Option<VersionName>,
    /// From the newest to the oldest. The tables of a run are in the order of their keys and do not
    /// overlap.
    runs: Vec<Vec<Table>>,
}
/// A tree's number and the number of its list of tables.
type VersionName = (u64, u64);

impl TwinTables {
    pub(super) fn new() -> std::io::Result<TwinTables> {
        Ok(TwinTables {
            descriptors: Arc::new(DescriptorTable::new(usize::MAX >> 16)),
            empty: Arc::new(File::open(EMPTY)?),
            latest: RwLock::default(),
            begun: Mutex::default(),
        })
    }

    /// Whether [`refresh`](TwinTables::refresh) is due: once for each list of tables, also if it fails.
    pub(super) fn are_due(&self, tree: &impl AbstractTree) -> bool {
        let latest = Some(name(tree));
        std::mem::replace(&mut *self.begun.lock(), latest) != latest
    }

    /// Makes the twins of the latest list of tables, which reads some blocks of each new one.
    pub(super) fn refresh(&self, tree: &impl AbstractTree) -> lsm_tree::Result<()> {
        let version = tree.current_version();
        let old = self.latest.read().clone();
        let known: HashMap<TableId, &Table> = match old.of {
            Some((of, _)) if of == tree.id() => old.runs.iter().flatten().map(|table| (table.id(), table)).collect(),
            _ => HashMap::new(),
        };
        let twin = |table: &Table| match known.get(&table.id()) {
            Some(twin) => Ok((*twin).clone()),
            None => self.twin(table, tree),
        };
        let runs = version.iter_levels().flat_map(|level| level.iter());
        let runs = runs.map(|run| run.iter().map(twin).collect()).collect::<lsm_tree::Result<_>>()?;
        *self.latest.write() = Arc::new(TwinVersion { of: Some((tree.id(), version.id())), runs });
        Ok(())
    }

    fn twin(&self, table: &Table, tree: &impl AbstractTree) -> lsm_tree::Result<Table> {
        self.descriptors.insert_for_table((tree.id(), table.id()).into(), self.empty.clone());
        Table::recover(
            table.path.to_path_buf(),
            table.checksum(),
            table.global_seqno(),
            tree.id(),
            table.cache.clone(),
            Some(self.descriptors.clone()),
            table.pinned_filter_size() > 0,
            table.pinned_block_index_size() > 0,
            tree.metrics().clone(),
        )
    }

    /// The entry as it is stored, if memory is enough to tell. The caller knows that neither flush
    /// nor compaction is under way: these hold a lock that this takes.
    pub(super) fn get(&self, tree: &impl AbstractTree, key: &[u8]) -> Cached<Option<Bytes>> {
        const LATEST: u64 = u64::MAX;
        let found = |entry: lsm_tree::InternalValue| Cached::Known((!entry.is_tombstone()).then(|| entry.value.into()));
        // First of all: what is sealed and flushed after this is still in it.
        if let Some(entry) = tree.active_memtable().get(key, LATEST) {
            return found(entry);
        }
        // The memtables before the list: one that is flushed in between is in the list.
        if tree.sealed_memtable_count() > 0 {
            return Cached::Unknown;
        }
        let latest = self.latest.read().clone();
        if latest.of != Some(name(tree)) {
            return Cached::Unknown;
        }
        let hash = standard_bloom::Builder::get_hash(key);
        for run in &latest.runs {
            let at = run.partition_point(|table| **table.metadata.key_range.max() < *key);
            let Some(table) = run.get(at).filter(|table| **table.metadata.key_range.min() <= *key) else { continue };
            match table.get(key, LATEST, hash) {
                Ok(Some(entry)) => return found(entry),
                Ok(None) => {}
                // Not in the cache. If it is damage, the reader says so.
                Err(_) => return Cached::Unknown,
            }
        }
        Cached::Known(None)
    }
}

fn name(tree: &impl AbstractTree) -> VersionName {
    (tree.id(), tree.current_version().id())
}
