//! What is written to a store, and why it may not have been.
use crate::StoredValue;
use bytes::Bytes;
use std::sync::Arc;

/// What to write.
#[derive(Debug)]
pub enum StoreChange {
    /// Stores, or with `None` deletes, all of these or none.
    Apply(Vec<StoreEntry>),
    /// Deletes everything.
    Clear,
}
/// A key, with its value or (to delete it) nothing.
pub type StoreEntry = (Bytes, Option<StoredValue>);

impl StoreChange {
    pub(super) fn entries(&self) -> &[StoreEntry] {
        match self {
            StoreChange::Apply(entries) => entries,
            StoreChange::Clear => &[],
        }
    }
    /// About what it needs in memory and on disk.
    pub(super) fn bytes(&self) -> usize {
        self.entries().iter().map(|(key, to)| bytes_of(key, to.as_ref())).sum()
    }
}
/// About what one entry needs in memory and on disk.
pub(super) fn bytes_of(key: &[u8], to: Option<&StoredValue>) -> usize {
    const EACH: usize = 64;
    key.len() + to.map_or(0, |stored| stored.value.len()) + EACH
}

/// Why a write was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteError {
    /// Nothing was changed, and trying again may help.
    Refused(Arc<str>),
    /// Nothing was changed, and the same would be refused again.
    Invalid(Arc<str>),
    /// It may be on disk, or be there after a restart.
    Lost(Arc<str>),
}
