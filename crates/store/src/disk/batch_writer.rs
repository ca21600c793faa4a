//! Makes one batch of changes. The store has one, and the thread that has locked it is the writer: the
//! committer, or a core ([`in_place`](super::in_place)).
use super::{
    change::{StoreChange, WriteError},
    commit_replies::Answer,
    format::EntryEncoder,
    tree::Tree,
    write_stop_reason::Poison,
};
use crate::StoredValue;
use std::{collections::HashMap, path::Path};

/// Makes batches.
#[derive(Debug, Default)]
pub(super) struct BatchWriter(EntryEncoder);

impl BatchWriter {
    /// Writes all or none of the changes; on stable storage when it returns, if `sync`. A clear
    /// comes alone. A failure poisons the store in `dir`.
    pub(super) fn commit<'c>(
        &mut self,
        (tree, dir, poison): (&Tree, &Path, &Poison),
        changes: impl ExactSizeIterator<Item = &'c StoreChange>,
        sync: bool,
    ) -> Answer {
        if let Some(reason) = poison.reason() {
            return Err(WriteError::Refused(reason));
        }
        let mut is_clear = false;
        // The latest change of a key counts: all of a batch have one sequence number in fjall.
        let mut writes = HashMap::with_capacity(changes.len());
        for change in changes {
            is_clear |= matches!(change, StoreChange::Clear);
            for (key, to) in change.entries() {
                let entry = to.as_ref().map(|stored| self.0.entry(stored));
                writes.insert(self.0.key(key), entry);
            }
        }
        let written = match (is_clear, writes.is_empty()) {
            (true, _) => tree.clear(),
            (false, true) => Ok(()),
            (false, false) => tree.commit(writes, sync),
        };
        written.map_err(|error| WriteError::Lost(poison.set(dir, &error)))
    }

    /// Stores, or with `None` deletes, one entry, without a sync: the usual write of a client that
    /// sends one request at a time.
    pub(super) fn commit_one(
        &mut self,
        (tree, dir, poison): (&Tree, &Path, &Poison),
        key: &[u8],
        to: Option<&StoredValue>,
    ) -> Answer {
        if let Some(reason) = poison.reason() {
            return Err(WriteError::Refused(reason));
        }
        let entry = to.map(|stored| self.0.entry(stored));
        let written = tree.commit_one(self.0.key(key), entry);
        written.map_err(|error| WriteError::Lost(poison.set(dir, &error)))
    }
}
