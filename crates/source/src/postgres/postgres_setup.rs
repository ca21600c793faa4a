//! From the URL of a database to its source.
use super::{
    connect::{Purpose, connect},
    postgres_settings::PostgresSettings,
};
use crate::{
    fetch::Fetch, invalidation::InvalidationScope, local_future::LocalFuture, source_error::SourceError,
    source_factory::SourceFactory, source_health::SourceHealth, source_limits::SourceLimits, source_trait::Source,
};
use larder_base::buffers::Buffers;
use larder_config::PostgresUrl;
use larder_store::clock;
use std::{rc::Rc, sync::Arc};

/// The shared part of the source.
pub(crate) struct PostgresSetup(Arc<PostgresSettings>);
impl PostgresSetup {
    /// Reads the files that the URL names.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub(crate) fn new(
        url: &PostgresUrl,
        limits: SourceLimits,
        health: SourceHealth,
        buffers: Arc<Buffers>,
    ) -> Result<PostgresSetup, String> {
        Ok(PostgresSetup(Arc::new(PostgresSettings::new(url, limits, health, buffers)?)))
    }
}
impl SourceFactory for PostgresSetup {
    fn health(&self) -> &Arc<SourceHealth> {
        &self.0.health
    }
    fn open(&self, _scope: Option<InvalidationScope>, _keeps_replies: bool) -> Rc<dyn Source> {
        Rc::new(PostgresSource(self.0.clone()))
    }
}

/// One core's handle.
struct PostgresSource(Arc<PostgresSettings>);
impl Source for PostgresSource {
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        for fetch in batch.drain(..) {
            fetch.finish(Err(self.0.unavailable("rows cannot be read yet")), clock::now());
        }
    }
    fn read_only_kind(&self) -> &'static str {
        "a database"
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(async {
            let opened = connect(&self.0, Purpose::Read).await.map_err(|why| self.0.unavailable(why))?;
            drop(opened);
            Ok(())
        })
    }
}
