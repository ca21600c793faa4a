//! `table:FILE`: an immutable table ([`store::table`](larder_store::table)), answered from its memory map.
//!
//! ```text
//! read ─► look: in the map, on the core ─┬─ there, or not ─► answered, nothing passes through the memory tier
//!                                        └─ chunks that nobody has checked ─► fetch: a thread that may wait for the disk ─► flight
//!
//! file moved into place, or reload ─► keeper's thread: open, check all of it ─► next ─► the cores take it at their next read
//!                                                                           └─► keys that changed ─► Invalidations, on one core
//! ```
//!
//! Invariants:
//! - A core waits for no disk: it answers from chunks that were read and checked before, and hands over what needs others.
//! - A file is served only after all of it was checked, but for the first, which is checked in the background while chunks that are needed are checked as they are.
//! - A client that was told that a key changed reads the new table: it is in place before anything is announced.
mod reload;
mod scan_pages;

pub use reload::Reloaded;
pub(super) use reload::TableSetup;

use super::{FetchedValue, InvalidationScope, Limits, LocalFuture, LocalStore, Page, Reads, Scan, Source, SourceError};
use crate::source::Fetch;
use bytes::Bytes;
use larder_engine::{Entry, Millis, Outside};
use larder_store::{
    clock,
    table::{Decoder, Now, Table, TableError},
};
use reload::{Shared, announce};
use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, mpsc};

/// Values from here on leave by reference: copying one takes longer than counting it.
const LARGE: usize = 16 << 10;
/// Threads of one core that may wait for the disk at a time.
const WAITING: usize = 8;

/// A table that is served: the how manyth, since when.
#[derive(Debug)]
struct Served {
    generation: u64,
    table: Arc<Table>,
    about: Outside,
}

/// What a look into the map came to.
pub enum TableLookup<R, F> {
    /// The key is there.
    Found(R),
    /// It is not.
    Absent,
    /// It cannot be said without waiting for the disk.
    Unknown(F),
}

/// As long as it lives, a core's looks are into one table, so that what is read together is of one time. It does not outlive the core's turn: nothing
/// is awaited with it.
pub struct PinnedTable<'s>(&'s Cell<bool>);
impl Drop for PinnedTable<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// One core's handle on the table.
pub struct TableSource {
    shared: Arc<Shared>,
    limits: Limits,
    /// The latest, as far as this core has seen.
    served: Rc<RefCell<Arc<Served>>>,
    /// Reads go on with what this core has seen; see [`PinnedTable`].
    pinned: Cell<bool>,
    /// For compressed values.
    decoder: RefCell<Decoder>,
    /// Threads that may wait for the disk on behalf of this core.
    waiting: Arc<Semaphore>,
}

impl TableSource {
    pub(super) fn new(setup: &TableSetup, watch: Option<InvalidationScope>) -> TableSource {
        let shared = setup.shared.clone();
        if let Some(watch) = watch {
            let mut announcer = shared.announcer.lock();
            if announcer.is_none() {
                let (swaps, swapped) = mpsc::channel(1);
                *announcer = Some(swaps);
                tokio::task::spawn_local(announce(swapped, watch.to));
            }
        }
        let mut changes = shared.served.subscribe();
        let served = Rc::new(RefCell::new(changes.borrow_and_update().clone()));
        let followed = Rc::downgrade(&served);
        // A core that is not read from must not keep an old file open.
        tokio::task::spawn_local(async move {
            while changes.changed().await.is_ok() {
                let Some(served) = followed.upgrade() else { return };
                let next = changes.borrow_and_update().clone();
                served.replace(next);
            }
        });
        TableSource {
            limits: setup.limits,
            shared,
            served,
            pinned: Cell::new(false),
            decoder: RefCell::default(),
            waiting: Arc::new(Semaphore::new(WAITING)),
        }
    }

    /// Takes the latest table if this core has not seen it yet.
    #[inline]
    fn catch_up(&self) {
        let seen = self.served.borrow().generation;
        if seen != self.shared.generation.load(Ordering::Acquire) {
            self.served.replace(self.shared.served.borrow().clone());
        }
    }

    /// The latest table, for all looks as long as this lives.
    #[inline]
    pub(crate) fn one_table(&self) -> PinnedTable<'_> {
        self.catch_up();
        self.pinned.set(true);
        PinnedTable(&self.pinned)
    }

    /// Reads a key in the map, or gives `read` back if that cannot be done without waiting.
    #[inline]
    pub(crate) fn look<R, F: FnOnce(Entry<'_>) -> R>(&self, key: &[u8], read: F) -> TableLookup<R, F> {
        if !self.pinned.get() {
            self.catch_up();
        }
        let served = self.served.borrow();
        match served.table.get_now(key, &mut self.decoder.borrow_mut()) {
            Now::Found(value) if value.len() < LARGE => TableLookup::Found(served.about.inline(key, value, read)),
            Now::Found(value) => TableLookup::Found(served.about.large(key, served.table.share(value), read)),
            Now::Absent => TableLookup::Absent,
            Now::Unknown => TableLookup::Unknown(read),
        }
    }

    /// Has the processor fetch what a read of the key will look at.
    #[inline]
    pub(crate) fn prefetch(&self, key: &[u8]) {
        self.served.borrow().table.prefetch(key);
    }

    /// Runs this on a thread that may wait for the disk, with the latest table.
    async fn wait_for<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce(&Served) -> Result<T, TableError> + Send + 'static,
    ) -> Result<T, SourceError> {
        wait_for(self.shared.clone(), self.waiting.clone(), within, work).await
    }
}

async fn wait_for<T: Send + 'static>(
    shared: Arc<Shared>,
    waiting: Arc<Semaphore>,
    within: Duration,
    work: impl FnOnce(&Served) -> Result<T, TableError> + Send + 'static,
) -> Result<T, SourceError> {
    let served = shared.served.borrow().clone();
    let done = tokio::time::timeout(within, async {
        let permit = waiting.acquire_owned().await;
        tokio::task::spawn_blocking(move || {
            let done = work(&served);
            drop(permit);
            done
        })
        .await
    });
    match done.await {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(error))) => {
            shared.note(&error);
            Err(SourceError::Unavailable(error.to_string().into()))
        }
        Ok(Err(_)) => Err(SourceError::Unavailable("the read was abandoned".into())),
        Err(_) => Err(SourceError::Unavailable("the disk did not answer within source-timeout".into())),
    }
}

/// A value as the rest of the server takes it.
fn found(table: &Arc<Table>, value: Cow<'_, [u8]>) -> FetchedValue {
    let value = match value {
        Cow::Owned(value) => value.into(),
        Cow::Borrowed(value) if value.len() < LARGE => Bytes::copy_from_slice(value),
        Cow::Borrowed(value) => table.share(value),
    };
    FetchedValue { value, expiry: None }
}

impl Source for TableSource {
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        self.shared.health.admit(batch, self.limits.max_in_flight);
        // One by one, so that a damaged chunk fails only those that need it.
        for fetch in batch.drain(..) {
            let (shared, waiting, within) = (self.shared.clone(), self.waiting.clone(), self.limits.timeout);
            tokio::task::spawn_local(async move {
                let begun = Instant::now();
                let key = Bytes::copy_from_slice(fetch.key());
                let answer = wait_for(shared.clone(), waiting, within, move |served| {
                    Ok(served.table.get(&key)?.map(|value| found(&served.table, value)))
                });
                let answer = answer.await;
                shared.health.finished(answer.is_err(), begun.elapsed());
                fetch.finish(answer, clock::now());
            });
        }
    }
    fn put<'a>(&'a self, _: &'a [u8], _: &'a [u8], _: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(std::future::ready(Err(SourceError::ReadOnly)))
    }
    fn delete<'a>(&'a self, _: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(std::future::ready(Err(SourceError::ReadOnly)))
    }
    fn expire<'a>(&'a self, _: &'a [u8], _: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(std::future::ready(Err(SourceError::ReadOnly)))
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn reads(&self) -> Reads<'_> {
        Reads::Table(self)
    }
    fn as_local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }
}

impl LocalStore for TableSource {
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> LocalFuture<'a, Result<Vec<Option<FetchedValue>>, SourceError>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(keys.len());
            for &key in keys {
                answers.push(
                    match self.look(key, |entry| FetchedValue { value: entry.value.to_bytes(), expiry: None }) {
                        TableLookup::Found(found) => Some(found),
                        TableLookup::Absent => None,
                        TableLookup::Unknown(_) => {
                            let key = Bytes::copy_from_slice(key);
                            let answer = self.wait_for(self.limits.timeout, move |served| {
                                Ok(served.table.get(&key)?.map(|value| found(&served.table, value)))
                            });
                            answer.await?
                        }
                    },
                );
            }
            Ok(answers)
        })
    }
    fn apply(&self, _: Vec<(Bytes, Option<FetchedValue>)>) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Err(SourceError::ReadOnly)))
    }
    fn scan(&self, scan: Scan) -> LocalFuture<'_, Result<Page, SourceError>> {
        Box::pin(self.wait_for(self.limits.slow_timeout, move |served| scan_pages::page(served, &scan)))
    }
    fn count(&self) -> LocalFuture<'_, Result<u64, SourceError>> {
        Box::pin(std::future::ready(Ok(self.shared.served.borrow().table.len())))
    }
    fn patience(&self, slow: bool) -> Duration {
        self.limits.patience(slow)
    }
    fn is_ordered(&self) -> bool {
        false
    }
    fn pick(&self, seed: u64) -> Option<LocalFuture<'_, Result<Option<Bytes>, SourceError>>> {
        Some(Box::pin(self.wait_for(self.limits.timeout, move |served| {
            let Some(number) = seed.checked_rem(served.table.len()) else { return Ok(None) };
            let entry = served.table.entries(served.table.position(number)).next().transpose()?;
            Ok(entry.map(|(key, _)| Bytes::copy_from_slice(key)))
        })))
    }
    fn clear(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Err(SourceError::ReadOnly)))
    }
}
