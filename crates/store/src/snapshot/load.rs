//! Reads a file back to memory tiers, which serve meanwhile.
use super::{
    entry::SavedEntry,
    error::SnapshotError,
    read::{Scrutiny, SnapshotReader},
};
use crate::clock;
use larder_engine::{Cache, Restore, Restored};
use smallvec::SmallVec;
use std::{
    io::{self, Read},
    path::Path,
    sync::Arc,
};

/// Entries whose places in memory are fetched together.
const TOGETHER: usize = 16;

/// What a load did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Entries that are in a tier again.
    pub restored: u64,
    /// Entries that had expired.
    pub expired: u64,
    /// Entries whose keys were written, deleted or cleared since the load began.
    pub overtaken: u64,
    /// Entries that no tier of this size can hold.
    pub too_large: u64,
    /// Entries of groups that are not loaded.
    pub skipped: u64,
}

impl Loaded {
    /// Entries read.
    pub fn entries(&self) -> u64 {
        self.restored + self.expired + self.overtaken + self.too_large + self.skipped
    }
}

/// The load of one file: notes what changes in the tiers from when it is made.
pub struct Load {
    groups: Vec<(String, Restore)>,
}

impl Load {
    /// A load to these tiers, by the names of their groups. From now on changes are noted, so make
    /// it before anybody is served.
    pub fn new<'c>(groups: impl IntoIterator<Item = (&'c str, &'c Arc<Cache>)>) -> Load {
        let groups = groups.into_iter().map(|(name, cache)| (name.to_owned(), cache.begin_restore()));
        Load { groups: groups.collect() }
    }

    /// Loads a snapshot from its begin. Entries of groups that this load does not have are skipped.
    /// `step` is called after each block with what was done and the bytes that were read; its
    /// error ends the load. After an error the blocks before it are loaded, and nothing of the
    /// block at fault.
    ///
    /// # Errors
    /// The snapshot cannot be read or is damaged, or `step`'s own.
    pub fn run<R: Read>(
        &self,
        mut reader: SnapshotReader<R>,
        step: &mut dyn FnMut(&Loaded, u64) -> io::Result<()>,
    ) -> Result<Loaded, SnapshotError> {
        let place = |name: &String| self.groups.iter().position(|(known, _)| known == name);
        let places: Vec<Option<usize>> = reader.header().groups.iter().map(place).collect();
        let mut loaded = Loaded::default();
        loop {
            let Some(block) = reader.next_block(Scrutiny::Entries)? else { return Ok(loaded) };
            match places[block.group].map(|place| &self.groups[place].1) {
                Some(restore) => restore_block(restore, block.entries(), &mut loaded),
                None => loaded.skipped += u64::from(block.entries),
            }
            step(&loaded, reader.position()).map_err(|error| SnapshotError::io(Path::new(""), error))?;
        }
    }
}

fn restore_block<'r>(restore: &Restore, mut entries: impl Iterator<Item = SavedEntry<'r>>, loaded: &mut Loaded) {
    let (cache, now) = (restore.cache(), clock::now());
    let mut batch: SmallVec<[SavedEntry<'r>; TOGETHER]> = SmallVec::new();
    loop {
        batch.extend(entries.by_ref().take(TOGETHER));
        if batch.is_empty() {
            return;
        }
        let keys: SmallVec<[_; TOGETHER]> = batch.iter().map(|entry| cache.key(entry.key)).collect();
        keys.iter().for_each(|key| cache.prefetch_bucket(*key));
        for (entry, key) in batch.drain(..).zip(keys) {
            match restore.put(key, &entry.restored(), now) {
                Ok(Restored::Stored) => loaded.restored += 1,
                Ok(Restored::Expired) => loaded.expired += 1,
                Ok(Restored::Overtaken) => loaded.overtaken += 1,
                Err(_) => loaded.too_large += 1,
            }
        }
    }
}
