//! A [`LocalStore`] for unit tests: a map, whose answers take a turn of the runtime, and which
//! fails when it is told to.
use bytes::Bytes;
use larder_engine::Millis;
use larder_source::{Fetch, LocalFuture, LocalStore, Page, Scan, Source, SourceError, SourceKind};
use larder_store::{StoredValue, clock};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// One core's handle; clones share the entries.
#[derive(Debug, Default, Clone)]
pub(crate) struct MemoryStore {
    pub(crate) entries: Arc<Mutex<BTreeMap<Bytes, StoredValue>>>,
    /// What the next changes are answered with.
    pub(crate) fails: Arc<Mutex<Option<SourceError>>>,
    /// What the next scan but so many is answered with.
    pub(crate) scans: Arc<Mutex<Option<(usize, SourceError)>>>,
    /// Calls of `get_many` and `apply`, and pages read.
    pub(crate) reads: Arc<AtomicUsize>,
    pub(crate) applied: Arc<AtomicUsize>,
    pub(crate) pages: Arc<AtomicUsize>,
    /// The next changes wait for it.
    pub(crate) held: Arc<Mutex<Option<Arc<Notify>>>>,
    /// How long clients wait; `None`: a minute.
    patience: Option<Duration>,
    /// Of so many writes of one entry one takes a turn, and the others are made at once; 0: none is.
    turns: usize,
    /// Writes of one entry that were made at once, or could have been.
    pub(crate) at_once: Arc<AtomicUsize>,
}

impl MemoryStore {
    /// One that makes no write of one entry at once, and one that makes most.
    pub(crate) fn both_kinds() -> [MemoryStore; 2] {
        [0, 3].map(|turns| MemoryStore { turns, ..MemoryStore::default() })
    }
    /// One whose clients soon stop waiting.
    pub(crate) fn with_impatient_clients() -> MemoryStore {
        MemoryStore { patience: Some(Duration::from_millis(200)), ..MemoryStore::default() }
    }
    fn get(&self, key: &[u8]) -> Option<StoredValue> {
        let now = clock::now();
        self.entries.lock().get(key).filter(|found| found.expiry.is_none_or(|at| at > now)).cloned()
    }
    fn failure(&self) -> Result<(), SourceError> {
        self.fails.lock().clone().map_or(Ok(()), Err)
    }
    fn change(&self, key: Bytes, found: Option<StoredValue>) {
        match found {
            Some(found) => drop(self.entries.lock().insert(key, found)),
            None => drop(self.entries.lock().remove(&key)),
        }
    }
}

impl Source for MemoryStore {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Store(self)
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        for fetch in batch.drain(..) {
            let store = self.clone();
            tokio::task::spawn_local(async move {
                let found = store.get(fetch.key());
                tokio::task::yield_now().await;
                fetch.finish(Ok(found), clock::now());
            });
        }
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.failure()?;
            let existed = self.get(key).is_some();
            let found = StoredValue::string(Bytes::copy_from_slice(value), expiry);
            self.change(Bytes::copy_from_slice(key), Some(found));
            Ok(existed)
        })
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.failure()?;
            let existed = self.get(key).is_some();
            self.change(Bytes::copy_from_slice(key), None);
            Ok(existed)
        })
    }
    fn expire<'a>(&'a self, key: &'a [u8], expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            self.failure()?;
            let Some(found) = self.get(key) else { return Ok(false) };
            self.change(Bytes::copy_from_slice(key), Some(StoredValue { expiry, ..found }));
            Ok(true)
        })
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl LocalStore for MemoryStore {
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> LocalFuture<'a, Result<Vec<Option<StoredValue>>, SourceError>> {
        Box::pin(async move {
            self.reads.fetch_add(1, Relaxed);
            tokio::task::yield_now().await;
            Ok(keys.iter().map(|key| self.get(key)).collect())
        })
    }
    fn apply(&self, changes: Vec<(Bytes, Option<StoredValue>)>) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(async move {
            self.applied.fetch_add(1, Relaxed);
            tokio::task::yield_now().await;
            let held = self.held.lock().take();
            if let Some(held) = held {
                held.notified().await;
            }
            self.failure()?;
            changes.into_iter().for_each(|(key, found)| self.change(key, found));
            Ok(())
        })
    }
    fn apply_now(&self, key: &[u8], to: Option<&StoredValue>) -> Option<Result<(), SourceError>> {
        if self.turns == 0
            || self.at_once.fetch_add(1, Relaxed).is_multiple_of(self.turns)
            || self.held.lock().is_some()
        {
            return None;
        }
        Some(self.failure().map(|()| self.change(Bytes::copy_from_slice(key), to.cloned())))
    }
    fn scan(&self, scan: Scan) -> LocalFuture<'_, Result<Page, SourceError>> {
        Box::pin(async move {
            self.pages.fetch_add(1, Relaxed);
            tokio::task::yield_now().await;
            if let Some((after, error)) = &mut *self.scans.lock() {
                match after.checked_sub(1) {
                    Some(fewer) => *after = fewer,
                    None => return Err(error.clone()),
                }
            }
            Ok(self.page(&scan))
        })
    }
    fn count(&self) -> LocalFuture<'_, Result<u64, SourceError>> {
        Box::pin(async move { Ok(self.entries.lock().len() as u64) })
    }
    fn clear(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(async move {
            self.failure()?;
            self.entries.lock().clear();
            Ok(())
        })
    }
    fn patience(&self, _: bool) -> Duration {
        self.patience.unwrap_or(Duration::from_secs(60))
    }
}

impl MemoryStore {
    fn page(&self, scan: &Scan) -> Page {
        let empty = match (&scan.start, &scan.end) {
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) => start >= end,
            (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            (Bound::Included(start), Bound::Included(end)) => start > end,
            _ => false,
        };
        if empty {
            return Page::default();
        }
        let entries = self.entries.lock();
        let range = entries.range((scan.start.clone(), scan.end.clone()));
        let (forth, back) = if scan.reverse { (None, Some(range.rev())) } else { (Some(range), None) };
        let (mut page, mut bytes, mut seen) = (Page::default(), 0, 0);
        let now = clock::now();
        for (key, found) in forth.into_iter().flatten().chain(back.into_iter().flatten()) {
            if seen == scan.limit || bytes >= scan.max_bytes {
                return page;
            }
            seen += 1;
            page.next = Some(key.clone());
            if found.expiry.is_some_and(|at| at <= now) {
                continue;
            }
            let found =
                if scan.keys_only { StoredValue { value: Bytes::new(), ..found.clone() } } else { found.clone() };
            bytes += key.len() + found.value.len();
            page.entries.push((key.clone(), found));
        }
        page.next = None;
        page
    }
}
