//! One core's handle on a cluster, as a [`Source`], a [`LocalStore`] and a [`SharedStore`].
use super::{
    cassandra_settings::CassandraSettings,
    cluster_session::{ClusterSession, SessionLink},
    row_changes::{read_live, transactions, write_row, write_row_if},
    token_scan,
};
use crate::{
    admission::FetchEnd,
    fetch::Fetch,
    fetch_gate::FetchGate,
    fetch_refusals::{no_room, too_large},
    local_future::LocalFuture,
    local_store::{LocalStore, Page, Revision, Scan, SharedStore},
    source_error::SourceError,
    source_trait::{Source, SourceKind},
};
use bytes::Bytes;
use larder_base::buffers::BufferKind;
use larder_engine::Millis;
use larder_store::{StoredValue, clock};
use std::{rc::Rc, sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::Instant};

/// One core's handle.
pub(super) struct CassandraSource {
    gate: FetchGate,
    link: Rc<SessionLink>,
    task: JoinHandle<()>,
}
impl Drop for CassandraSource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl CassandraSource {
    pub(super) fn new(settings: Arc<CassandraSettings>) -> CassandraSource {
        let health = settings.health.clone();
        let link = Rc::new(SessionLink::new(settings));
        let task = tokio::task::spawn_local(SessionLink::run(Rc::downgrade(&link)));
        let me = Rc::downgrade(&link);
        let send = move |batch: &mut Vec<Fetch>| {
            for link in me.upgrade().iter() {
                batch.drain(..).for_each(|fetch| drop(tokio::task::spawn_local(fetch_one(link.clone(), fetch))));
            }
        };
        CassandraSource { gate: FetchGate::new(health, send), link, task }
    }

    /// A request, which faults to order may strike.
    fn request<'a, T: 'a>(
        &'a self,
        request: impl AsyncFnOnce(&'a CassandraSettings, Rc<ClusterSession>) -> Result<T, SourceError> + 'a,
    ) -> LocalFuture<'a, Result<T, SourceError>> {
        self.link.settings.health.with_faults(1, || {
            Box::pin(async move {
                let session = self.link.session().await?;
                let answer = request(&self.link.settings, session).await;
                self.link.note(&answer);
                answer
            })
        })
    }
}

async fn fetch_one(link: Rc<SessionLink>, fetch: Fetch) {
    let begun = Instant::now();
    let settings = &link.settings;
    let answer = async {
        let session = link.session().await?;
        let (found, _) = read_live(settings, &session, fetch.key()).await?;
        let Some(found) = found else { return Ok(None) };
        let (size, max) = (found.value.len(), settings.limits.max_value);
        if size > max {
            return Err(too_large(size, max));
        }
        if !settings.buffers.fits(size) {
            return Err(no_room(size, settings.buffers.limit()));
        }
        Ok(Some(StoredValue { value: settings.buffers.count(BufferKind::Fetched, found.value), ..found }))
    };
    let answer = answer.await;
    link.note(&answer);
    settings.health.finished(FetchEnd::of(&answer), begun.elapsed() + fetch.held_back());
    fetch.finish(answer, clock::now());
}

impl Source for CassandraSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Store(self)
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        self.gate.fetch(batch);
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        self.request(async move |settings, session| {
            let (before, _) = read_live(settings, &session, key).await?;
            let entry = StoredValue::string(Bytes::copy_from_slice(value), expiry);
            write_row(settings, &session, key, Some(&entry)).await?;
            Ok(before.is_some())
        })
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        self.request(async move |settings, session| {
            let (before, _) = read_live(settings, &session, key).await?;
            if before.is_some() {
                write_row(settings, &session, key, None).await?;
            }
            Ok(before.is_some())
        })
    }
    fn expire<'a>(&'a self, key: &'a [u8], expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        self.request(async move |settings, session| {
            transactions(settings, &session)?;
            let until = Instant::now() + settings.limits.timeout;
            loop {
                let (Some(entry), revision) = read_live(settings, &session, key).await? else { return Ok(false) };
                let entry = StoredValue { expiry, ..entry };
                if write_row_if(settings, &session, key, Some(&entry), revision).await? {
                    return Ok(true);
                }
                if Instant::now() >= until {
                    return Err(settings.unavailable("other clients change the key all the time"));
                }
            }
        })
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(self.link.ping())
    }
}

impl LocalStore for CassandraSource {
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> LocalFuture<'a, Result<Vec<Option<StoredValue>>, SourceError>> {
        self.request(async move |settings, session| {
            let reads = keys.iter().map(|key| read_live(settings, &session, key));
            let found = futures_util::future::try_join_all(reads).await?;
            Ok(found.into_iter().map(|(entry, _)| entry).collect())
        })
    }
    /// Each change is a write of its own: some may be made and others not, which is `Lost`.
    fn apply(&self, changes: Vec<(Bytes, Option<StoredValue>)>) -> LocalFuture<'_, Result<(), SourceError>> {
        self.request(async move |settings, session| {
            let writes = changes.iter().map(|(key, to)| write_row(settings, &session, key, to.as_ref()));
            let mut written = futures_util::future::join_all(writes).await;
            let made = written.iter().filter(|write| write.is_ok()).count();
            let is_lost = |write: &Result<(), SourceError>| matches!(write, Err(SourceError::Lost(_)));
            let first = written.iter().position(is_lost).or_else(|| written.iter().position(Result::is_err));
            match first.map(|at| written.swap_remove(at)) {
                Some(Err(error)) if made > 0 => {
                    Err(settings.lost(format!("{made} of {} changes were made: {error}", changes.len())))
                }
                Some(failed) => failed,
                None => Ok(()),
            }
        })
    }
    fn scan(&self, scan: Scan) -> LocalFuture<'_, Result<Page, SourceError>> {
        self.request(async move |settings, session| token_scan::page(settings, &session, scan).await)
    }
    fn count(&self) -> LocalFuture<'_, Result<u64, SourceError>> {
        self.request(async move |settings, session| token_scan::count(settings, &session).await)
    }
    fn is_ordered(&self) -> bool {
        false
    }
    fn pick(&self, seed: u64) -> Option<LocalFuture<'_, Result<Option<Bytes>, SourceError>>> {
        Some(self.request(async move |settings, session| token_scan::pick(settings, &session, seed).await))
    }
    fn clear(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        self.request(async move |settings, session| {
            if session.transactions.is_none() {
                let table = &settings.url.table;
                return Err(settings.refused(format!("the table {table} is not Larder's own, so it is not emptied")));
            }
            let cleared = session.session.execute_unpaged(&session.truncate, ()).await;
            cleared.map(drop).map_err(|error| settings.write_error(&error))
        })
    }
    fn patience(&self, slow: bool) -> Duration {
        self.link.settings.limits.patience(slow)
    }
    fn shared(&self) -> Option<&dyn SharedStore> {
        Some(self)
    }
}

impl SharedStore for CassandraSource {
    fn read<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<(Option<StoredValue>, Revision), SourceError>> {
        self.request(async move |settings, session| {
            // Without versions, a later change could not tell whether the entry is still the same.
            transactions(settings, &session)?;
            read_live(settings, &session, key).await
        })
    }
    fn change_if<'a>(
        &'a self,
        key: &'a [u8],
        to: Option<&'a StoredValue>,
        revision: Revision,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        self.request(async move |settings, session| write_row_if(settings, &session, key, to, revision).await)
    }
}
