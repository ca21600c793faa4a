//! `disk:DIR`: the durable store of this machine ([`store::disk`](larder_store::disk)) as a source.
//!
//! A read crosses to a reader's thread, a write to the committer, and the answers come back ([`crossing`]). A write that is to say whether there
//! was an entry reads first: whoever writes a key holds its lock, so that is still so when it is written. What takes longer than
//! `source-timeout` fails on the core, whatever the disk does; writes, where they are awaited ([`LocalStore::patience`]).
mod handoff;

use super::{
    FetchedValue, Limits, LocalFuture, LocalStore, Page, Scan, Source, SourceError, SourceHealth,
    health::{Stand, Standing},
};
use crate::{
    buffers::{BufferKind, Buffers},
    source::Fetch,
};
use bytes::Bytes;
use handoff::Handoff;
use larder_engine::Millis;
use larder_store::{
    clock,
    disk::{Change, Range, Store, Tree, Walk},
};
use parking_lot::Mutex;
use std::{ops::ControlFlow, path::Path, rc::Rc, sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// What all cores share: the open store.
#[derive(Clone)]
pub(super) struct DiskSetup {
    store: Store,
    limits: Limits,
    health: Arc<SourceHealth>,
    buffers: Arc<Buffers>,
}

impl DiskSetup {
    pub(super) fn store(&self) -> &Store {
        &self.store
    }
    /// Opens the store.
    pub(super) fn open(
        dir: &Path,
        limits: Limits,
        health: Arc<SourceHealth>,
        buffers: Arc<Buffers>,
    ) -> Result<DiskSetup, String> {
        let mut standing = Standing::new(health.clone());
        standing.set(Stand::Up);
        let standing = Mutex::new(standing);
        let told = health.clone();
        let poisoned = Box::new(move |reason: &Arc<str>| {
            told.note_error(reason);
            standing.lock().set(Stand::Down);
        });
        let store = Store::open(dir, limits.store, poisoned)?;
        Ok(DiskSetup { store, limits, health, buffers })
    }
    fn unavailable(&self, what: &str) -> SourceError {
        SourceError::Unavailable(self.named(what))
    }
    fn late(&self, within: Duration) -> SourceError {
        self.unavailable(&format!("no answer within {within:?}"))
    }
    fn lost(&self, what: &str) -> SourceError {
        SourceError::Lost(self.named(what))
    }
    fn named(&self, what: &str) -> Arc<str> {
        format!("disk store {}: {what}", self.store.dir().display()).into()
    }
}

/// Keys that one page of a scan looks at, whether they are live or not: no reader is kept for long.
const PAGE_KEYS: usize = 10_000;

/// One core's handle on the store.
pub(super) struct DiskSource {
    crossing: Rc<Handoff>,
    task: JoinHandle<()>,
}
impl Drop for DiskSource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl DiskSource {
    pub(super) fn new(setup: DiskSetup) -> DiskSource {
        let crossing = Rc::new(Handoff::new(setup));
        DiskSource { task: tokio::task::spawn_local(crossing.clone().run()), crossing }
    }
    fn change(&self, key: &[u8], to: Option<FetchedValue>) -> LocalFuture<'_, Result<(), SourceError>> {
        self.apply(vec![(Bytes::copy_from_slice(key), to)])
    }
}

fn into_found((value, expiry): (Bytes, Option<Millis>), buffers: &Arc<Buffers>) -> FetchedValue {
    FetchedValue { value: buffers.count(BufferKind::Fetched, value), expiry }
}

impl Source for DiskSource {
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        let setup = &self.crossing.setup;
        setup.health.admit(batch, setup.limits.max_in_flight);
        self.crossing.fetch(batch.drain(..));
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            let replaced = self.crossing.exists(key).await?;
            self.change(key, Some(FetchedValue { value: Bytes::copy_from_slice(value), expiry })).await?;
            Ok(replaced)
        })
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            let existed = self.crossing.exists(key).await?;
            if existed {
                self.change(key, None).await?;
            }
            Ok(existed)
        })
    }
    fn expire<'a>(&'a self, key: &'a [u8], expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            let Some(FetchedValue { value, .. }) = self.get_many(&[key]).await?.pop().flatten() else {
                return Ok(false);
            };
            self.change(key, Some(FetchedValue { value, expiry })).await?;
            Ok(true)
        })
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        let poisoned = self.crossing.setup.store.poisoned();
        Box::pin(std::future::ready(poisoned.map_or(Ok(()), |reason| Err(SourceError::Unavailable(reason)))))
    }
    fn as_local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }
}

impl LocalStore for DiskSource {
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> LocalFuture<'a, Result<Vec<Option<FetchedValue>>, SourceError>> {
        let keys: Vec<Bytes> = keys.iter().map(|key| Bytes::copy_from_slice(key)).collect();
        let buffers = self.crossing.setup.buffers.clone();
        let work = move |tree: &Tree| {
            let found = tree.get_many(&keys, clock::now())?;
            Ok(found.into_iter().map(|found| found.map(|found| into_found(found, &buffers))).collect())
        };
        Box::pin(self.crossing.read(self.crossing.setup.limits.timeout, work))
    }
    fn apply(&self, changes: Vec<(Bytes, Option<FetchedValue>)>) -> LocalFuture<'_, Result<(), SourceError>> {
        let entries =
            changes.into_iter().map(|(key, to)| (key, to.map(|FetchedValue { value, expiry }| (value, expiry))));
        let change = Change::Apply(entries.collect());
        Box::pin(self.crossing.write(change))
    }
    fn scan(&self, scan: Scan) -> LocalFuture<'_, Result<Page, SourceError>> {
        Box::pin(self.crossing.read(self.crossing.setup.limits.slow_timeout, move |tree| page(tree, scan)))
    }
    fn count(&self) -> LocalFuture<'_, Result<u64, SourceError>> {
        let setup = &self.crossing.setup;
        Box::pin(self.crossing.answered(setup.limits.slow_timeout, setup.store.count()))
    }
    fn clear(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(self.crossing.write(Change::Clear))
    }
    fn patience(&self, slow: bool) -> Duration {
        self.crossing.setup.limits.patience(slow)
    }
}

fn page(tree: &Tree, scan: Scan) -> Result<Page, String> {
    let Scan { start, end, reverse, limit, max_bytes, keys_only } = scan;
    let mut page = Page::default();
    let (mut seen, mut bytes) = (0, 0);
    tree.walk(Range { start, end, reverse }, clock::now(), |Walk { key, live, .. }| {
        seen += 1;
        if let Some((value, expiry)) = live {
            let value = if keys_only { Bytes::new() } else { value };
            bytes += key.len() + value.len();
            page.entries.push((key.clone(), FetchedValue { value, expiry }));
        }
        if page.entries.len() >= limit || bytes >= max_bytes || seen >= PAGE_KEYS {
            page.next = Some(key);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(page)
}
