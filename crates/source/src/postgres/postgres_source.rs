//! One core's handle on a database, as a [`Source`].
use super::{
    changes::GroupChanges,
    fetch_rows::fetch_all,
    postgres_settings::PostgresSettings,
    session_pool::{Connections, SessionPool},
    write_rows,
};
use crate::{
    fetch::Fetch,
    fetch_gate::FetchGate,
    local_future::LocalFuture,
    source_error::SourceError,
    source_trait::{Source, SourceKind, ValueWrites},
};
use larder_config::PostgresQuery;
use larder_engine::Millis;
use std::{rc::Rc, sync::Arc};
use tokio::task::JoinHandle;

/// One core's handle.
pub(super) struct PostgresSource {
    gate: FetchGate,
    pool: Rc<SessionPool>,
    watch: JoinHandle<()>,
}
impl PostgresSource {
    pub(super) fn new(
        settings: Arc<PostgresSettings>,
        changes: Arc<GroupChanges>,
        connections: Arc<Connections>,
    ) -> PostgresSource {
        let pool = Rc::new(SessionPool::new(settings, changes, connections));
        let watch = tokio::task::spawn_local(SessionPool::watch(Rc::downgrade(&pool)));
        let me = Rc::downgrade(&pool);
        let send = move |batch: &mut Vec<Fetch>| me.upgrade().iter().for_each(|pool| fetch_all(pool, batch));
        PostgresSource { gate: FetchGate::new(pool.settings.health.clone(), send), watch, pool }
    }
    /// Faults to order strike writes, too.
    fn write<'a, F: Future<Output = Result<bool, SourceError>> + 'a>(
        &'a self,
        write: impl FnOnce() -> F,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        if let SourceKind::Values(ValueWrites::Refused(_)) = self.kind() {
            return Box::pin(std::future::ready(Err(self.kind().read_only())));
        }
        self.pool.settings.health.with_faults(1, || Box::pin(write()))
    }
}
impl Drop for PostgresSource {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Source for PostgresSource {
    fn kind(&self) -> SourceKind<'_> {
        let options = &self.pool.settings.url.options;
        let writes = |query: &PostgresQuery| query.upsert.is_some() || query.delete.is_some();
        SourceKind::Values(match options.takes_writes || options.queries.iter().any(writes) {
            true => ValueWrites::Changed,
            false => ValueWrites::Refused("a database without `source-writes`, `upsert` or `delete`"),
        })
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
        self.write(move || async move {
            match expiry {
                Some(_) => Err(self.pool.settings.refused("a row has no lifetime")),
                None => write_rows::put(&self.pool, key, value).await,
            }
        })
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        self.write(move || write_rows::delete(&self.pool, key))
    }
    fn expire<'a>(&'a self, _key: &'a [u8], _expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        self.write(move || async move { Err(self.pool.settings.refused("a row has no lifetime")) })
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(async {
            let session = self.pool.reader().await?;
            session.ping().await.map_err(|error| self.pool.settings.error(&error))
        })
    }
}
