//! The table as a [`Source`] and as a [`LocalStore`]; every write is refused.
use super::{
    table_map_reads::{TableLookup, TableSource, stored_value, wait_for},
    table_reload::TableSetup,
    table_scan,
};
use crate::{
    admission::FetchEnd,
    fetch::Fetch,
    local_future::LocalFuture,
    local_store::{LocalStore, Page, Scan},
    source_error::SourceError,
    source_health::SourceHealth,
    source_limits::SourceLimits,
    source_setup::SourceSetup,
    source_trait::{Source, SourceKind},
};
use bytes::Bytes;
use larder_store::{StoredValue, clock};
use std::{
    path::Path,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// Opens the table and starts its thread, which ends with the setup.
pub(crate) fn setup(path: &Path, limits: SourceLimits, health: SourceHealth) -> Result<SourceSetup, String> {
    // It serves from the memory map: a failed reload leaves the old table in place.
    let table = Arc::new(TableSetup::open(path, limits, health.and_up())?);
    let own = table.clone();
    let setup = SourceSetup::of(table.shared.health.clone(), move |scope, _| Rc::new(TableSource::new(&own, scope)));
    Ok(SourceSetup { table: Some(table), ..setup })
}

impl Source for TableSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Table(self)
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        self.shared.health.admit(batch, self.limits.max_in_flight);
        // One task for each fetch, so that a damaged chunk fails only the fetches that need it.
        for fetch in batch.drain(..) {
            let (shared, waiting, within) = (self.shared.clone(), self.waiting.clone(), self.limits.timeout);
            tokio::task::spawn_local(async move {
                let begun = Instant::now();
                let key = Bytes::copy_from_slice(fetch.key());
                let answer = wait_for(shared.clone(), waiting, within, move |served| {
                    Ok(served.table.get(&key)?.map(|value| stored_value(&served.table, value)))
                });
                let answer = answer.await;
                shared.health.finished(FetchEnd::of(&answer), begun.elapsed());
                fetch.finish(answer, clock::now());
            });
        }
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl LocalStore for TableSource {
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> LocalFuture<'a, Result<Vec<Option<StoredValue>>, SourceError>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(keys.len());
            for &key in keys {
                answers.push(match self.look(key, |entry| StoredValue::string(entry.value.to_bytes(), None)) {
                    TableLookup::Found(found) => Some(found),
                    TableLookup::Absent => None,
                    TableLookup::Unknown(_) => {
                        let key = Bytes::copy_from_slice(key);
                        let answer = self.wait_for(self.limits.timeout, move |served| {
                            Ok(served.table.get(&key)?.map(|value| stored_value(&served.table, value)))
                        });
                        answer.await?
                    }
                });
            }
            Ok(answers)
        })
    }
    fn apply(&self, _: Vec<(Bytes, Option<StoredValue>)>) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Err(self.kind().read_only())))
    }
    fn scan(&self, scan: Scan) -> LocalFuture<'_, Result<Page, SourceError>> {
        Box::pin(self.wait_for(self.limits.slow_timeout, move |served| table_scan::page(served, &scan)))
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
        Box::pin(std::future::ready(Err(self.kind().read_only())))
    }
}
