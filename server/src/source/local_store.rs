//! What a source that keeps its entries on this machine can do besides.
use super::{fetch_result::FetchedValue, local_future::LocalFuture, source_error::SourceError};
use bytes::Bytes;
use std::{ops::Bound, time::Duration};

/// Which entries to read, and how many at most.
#[derive(Debug, Clone)]
pub struct Scan {
    /// Where the range begins, in the order of the keys' bytes. May be behind its end: then nothing is in it.
    pub start: Bound<Bytes>,
    /// Where it ends.
    pub end: Bound<Bytes>,
    /// From its end to its begin.
    pub reverse: bool,
    /// Most entries of a page; at least 1.
    pub limit: usize,
    /// A page ends with the entry that brings its keys and values to this size, bytes.
    pub max_bytes: usize,
    /// Leave values empty.
    pub keys_only: bool,
}

/// Some entries, live when they were read, in the order of the scan.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Key and value.
    pub entries: Vec<(Bytes, FetchedValue)>,
    /// From where to go on (exclusive of the last key seen, which need not be among `entries`); `None`: the range is at its end.
    pub next: Option<Bytes>,
}

/// A source that keeps its entries here: nobody else changes them, so they can be walked, and changed several at once.
///
/// As with [`Source`](super::Source), nothing here blocks the core.
pub trait LocalStore {
    /// The entries of these keys, in their order; expired ones are absent.
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> LocalFuture<'a, Result<Vec<Option<FetchedValue>>, SourceError>>;
    /// Stores (or with `None` deletes) all of these or, if it fails, none; durable as the source promises. However long it takes,
    /// it returns only when that is decided ([`Lost`](SourceError::Lost): only a restart will tell), as do `clear` and the writes of
    /// [`Source`](super::Source): a change that comes about after its keys were let go would leave older copies in the tier.
    fn apply(&self, changes: Vec<(Bytes, Option<FetchedValue>)>) -> LocalFuture<'_, Result<(), SourceError>>;
    /// One page of a range. A walk of several pages sees every key that is there from its begin to its end.
    fn scan(&self, scan: Scan) -> LocalFuture<'_, Result<Page, SourceError>>;
    /// How many entries there are; expired ones may be counted as long as they take room.
    fn count(&self) -> LocalFuture<'_, Result<u64, SourceError>>;
    /// Do scans go by the order of the keys' bytes? If not, each goes through what is within its bounds in an order of the store's own, in whichever
    /// direction; [`Page::next`] still says where to go on.
    fn is_ordered(&self) -> bool {
        true
    }
    /// Some key, as `seed` chooses; `None` where it takes the order of keys to come by one.
    fn pick(&self, _seed: u64) -> Option<LocalFuture<'_, Result<Option<Bytes>, SourceError>>> {
        None
    }
    /// Deletes everything.
    fn clear(&self) -> LocalFuture<'_, Result<(), SourceError>>;
    /// How long a client waits for a change before it is told that nobody knows (`source-timeout`); of many entries, `slow`
    /// (`source-slow-timeout`).
    fn patience(&self, slow: bool) -> Duration;
}
