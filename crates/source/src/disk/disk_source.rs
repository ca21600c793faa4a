//! One core's handle on the disk store, as a [`Source`] and as a [`LocalStore`].
use super::{disk_handoff::Handoff, disk_setup::DiskSetup};
use crate::{
    fetch::Fetch,
    local_future::LocalFuture,
    local_store::{LocalStore, Page, Scan},
    ordered_faults::strike_fetches,
    source_error::SourceError,
    source_health::SourceHealth,
    source_limits::SourceLimits,
    source_setup::SourceSetup,
    source_trait::{Source, SourceKind},
};
use bytes::Bytes;
use larder_base::buffers::Buffers;
use larder_engine::Millis;
use larder_store::{
    StoredValue, clock,
    disk::{Range, StoreChange, Tree, TreeWalk},
};
use std::{ops::ControlFlow, path::Path, rc::Rc, sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// Keys that one page of a scan reads, live or expired, so that no reader is busy for long.
const PAGE_KEYS: usize = 10_000;

/// Opens the store.
pub(crate) fn setup(
    dir: &Path,
    limits: SourceLimits,
    health: SourceHealth,
    buffers: Arc<Buffers>,
) -> Result<SourceSetup, String> {
    let setup = DiskSetup::open(dir, limits, health, buffers)?;
    let (health, store) = (setup.health.clone(), Some(setup.store.clone()));
    let opened = SourceSetup::of(health, move |_, _| Rc::new(DiskSource::new(setup.clone())));
    Ok(SourceSetup { store, ..opened })
}

/// One core's handle on the store.
struct DiskSource {
    handoff: Rc<Handoff>,
    task: JoinHandle<()>,
}
impl Drop for DiskSource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl DiskSource {
    fn new(setup: DiskSetup) -> DiskSource {
        let handoff = Rc::new(Handoff::new(setup));
        DiskSource { task: tokio::task::spawn_local(handoff.clone().run()), handoff }
    }
    fn change(&self, key: &[u8], to: Option<StoredValue>) -> LocalFuture<'_, Result<(), SourceError>> {
        self.apply(vec![(Bytes::copy_from_slice(key), to)])
    }
}

impl Source for DiskSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Store(self)
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        let setup = &self.handoff.setup;
        setup.health.admit(batch, setup.limits.max_in_flight);
        if let Some(faults) = setup.health.faults() {
            let handoff = self.handoff.clone();
            strike_fetches(&setup.health, faults, batch, move |fetch| handoff.fetch(std::iter::once(fetch)));
        }
        self.handoff.fetch(batch.drain(..));
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            let replaced = self.handoff.exists(key).await?;
            self.change(key, Some(StoredValue::string(Bytes::copy_from_slice(value), expiry))).await?;
            Ok(replaced)
        })
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            let existed = self.handoff.exists(key).await?;
            if existed {
                self.change(key, None).await?;
            }
            Ok(existed)
        })
    }
    fn expire<'a>(&'a self, key: &'a [u8], expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            let Some(found) = self.get_many(&[key]).await?.pop().flatten() else {
                return Ok(false);
            };
            self.change(key, Some(StoredValue { expiry, ..found })).await?;
            Ok(true)
        })
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        let poisoned = self.handoff.setup.store.poisoned();
        Box::pin(std::future::ready(poisoned.map_or(Ok(()), |reason| Err(SourceError::Unavailable(reason)))))
    }
}

impl LocalStore for DiskSource {
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> LocalFuture<'a, Result<Vec<Option<StoredValue>>, SourceError>> {
        Box::pin(self.handoff.get_many(keys.iter().map(|key| Bytes::copy_from_slice(key)).collect()))
    }
    fn apply(&self, changes: Vec<(Bytes, Option<StoredValue>)>) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(self.handoff.write(StoreChange::Apply(changes)))
    }
    fn apply_now(&self, key: &[u8], to: Option<&StoredValue>) -> Option<Result<(), SourceError>> {
        // Some faults take time.
        if self.handoff.setup.health.faults().is_some() {
            return None;
        }
        self.handoff.write_now(|store| store.write_entry_now(key, to))
    }
    fn scan(&self, scan: Scan) -> LocalFuture<'_, Result<Page, SourceError>> {
        Box::pin(self.handoff.read(self.handoff.setup.limits.slow_timeout, move |tree| page(tree, scan)))
    }
    fn count(&self) -> LocalFuture<'_, Result<u64, SourceError>> {
        let setup = &self.handoff.setup;
        Box::pin(self.handoff.answered(setup.limits.slow_timeout, setup.store.count()))
    }
    fn clear(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(self.handoff.write(StoreChange::Clear))
    }
    fn patience(&self, slow: bool) -> Duration {
        self.handoff.setup.limits.patience(slow)
    }
}

fn page(tree: &Tree, scan: Scan) -> Result<Page, String> {
    let Scan { start, end, reverse, limit, max_bytes, keys_only } = scan;
    let mut page = Page::default();
    let (mut seen, mut bytes) = (0, 0);
    tree.walk(Range { start, end, reverse }, clock::now(), |TreeWalk { key, live, .. }| {
        seen += 1;
        if let Some(mut entry) = live {
            if keys_only {
                entry.value = Bytes::new();
            }
            bytes += key.len() + entry.value.len();
            page.entries.push((key.clone(), entry));
        }
        if page.entries.len() >= limit || bytes >= max_bytes || seen >= PAGE_KEYS {
            page.next = Some(key);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(page)
}
