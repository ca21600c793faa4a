//! What a store can do besides: scans, changes of several keys at once, and changes that rest on what
//! was read.
use super::{local_future::LocalFuture, source_error::SourceError};
use bytes::Bytes;
use larder_store::StoredValue;
use std::{ops::Bound, time::Duration};

/// Which entries to read, and how many at most.
#[derive(Debug, Clone)]
pub struct Scan {
    /// Start of the range, in byte order of the keys. If it is after the end, the range is empty.
    pub start: Bound<Bytes>,
    /// End of the range.
    pub end: Bound<Bytes>,
    /// Scan from the end to the start.
    pub reverse: bool,
    /// Maximum entries of a page; at least 1.
    pub limit: usize,
    /// The page ends after the entry with which its keys and values reach this many bytes.
    pub max_bytes: usize,
    /// Leave values empty.
    pub keys_only: bool,
}

/// One page of a scan: entries that were live when read, in the order of the scan.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Key and value.
    pub entries: Vec<(Bytes, StoredValue)>,
    /// The last key read (exclusive start of the next page; not always among `entries`); `None` at
    /// the end of the range.
    pub next: Option<Bytes>,
    /// Values that are not among these, because another program wrote them.
    pub unreadable: u64,
}

/// A source whose entries Larder scans, and changes several of at once. It is on this machine and
/// only Larder changes it, or it is a [`SharedStore`].
///
/// Like in [`Source`](super::Source), no call blocks the core.
pub trait LocalStore {
    /// The entries of these keys, in their order; expired ones are absent.
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> LocalFuture<'a, Result<Vec<Option<StoredValue>>, SourceError>>;
    /// Stores (or with `None` deletes) all of these, or none if it fails. The future has no
    /// deadline and completes only when the outcome is decided ([`Lost`](SourceError::Lost):
    /// only a restart will tell). The same holds for `clear` and for the writes of
    /// [`Source`](super::Source). A change after its key locks are released would leave older
    /// copies in the tier.
    fn apply(&self, changes: Vec<(Bytes, Option<StoredValue>)>) -> LocalFuture<'_, Result<(), SourceError>>;
    /// Like `apply`, for one entry if the store can change it without waiting; `None`: nothing has
    /// changed, and this is for `apply`.
    fn apply_now(&self, _key: &[u8], _to: Option<&StoredValue>) -> Option<Result<(), SourceError>> {
        None
    }
    /// One page of a range. A scan of several pages returns every key that exists during the whole
    /// scan.
    fn scan(&self, scan: Scan) -> LocalFuture<'_, Result<Page, SourceError>>;
    /// The number of entries. Expired ones count while they use space.
    fn count(&self) -> LocalFuture<'_, Result<u64, SourceError>>;
    /// Whether scans are in byte order of the keys. If not, a scan returns the keys within its
    /// bounds in the store's own order, whatever the direction. [`Page::next`] still continues
    /// it.
    fn is_ordered(&self) -> bool {
        true
    }
    /// A key chosen by `seed`; `None` if the store can find a key only by its order.
    fn pick(&self, _seed: u64) -> Option<LocalFuture<'_, Result<Option<Bytes>, SourceError>>> {
        None
    }
    /// Deletes everything.
    fn clear(&self) -> LocalFuture<'_, Result<(), SourceError>>;
    /// The same store, if other programs change it too.
    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }
    /// How long a client waits for a change before it gets an error with unknown outcome:
    /// `source-timeout`, or `source-slow-timeout` if `slow` (many entries).
    fn patience(&self, slow: bool) -> Duration;
}

/// What a [`SharedStore`] had under a key when it was read. Each write makes another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision(
    /// The version of the row; `None`: there was none.
    pub Option<i64>,
);

/// A store that other programs change as well, such as other Larders. Key locks keep out only the
/// writers of this process, so a change that rests on what was read says what it was. Several
/// keys cannot be changed as one: [`LocalStore::apply`] writes them one by one.
pub trait SharedStore: LocalStore {
    /// The entry of a key, and its revision.
    fn read<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<(Option<StoredValue>, Revision), SourceError>>;
    /// Stores (or with `None` deletes) an entry if the key still has this revision; whether it had.
    /// If not, nothing has changed.
    fn change_if<'a>(
        &'a self,
        key: &'a [u8],
        to: Option<&'a StoredValue>,
        revision: Revision,
    ) -> LocalFuture<'a, Result<bool, SourceError>>;
}

/// Whether a key is between two bounds.
pub(super) fn is_within(low: &Bound<Bytes>, high: &Bound<Bytes>, key: &[u8]) -> bool {
    (match low {
        Bound::Included(low) => key >= &low[..],
        Bound::Excluded(low) => key > &low[..],
        Bound::Unbounded => true,
    }) && match high {
        Bound::Included(high) => key <= &high[..],
        Bound::Excluded(high) => key < &high[..],
        Bound::Unbounded => true,
    }
}
