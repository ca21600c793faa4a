//! From the URL of a database to its source.
use super::{
    connect::{Purpose, connect},
    postgres_settings::PostgresSettings,
};
use crate::{
    fetch::Fetch,
    local_future::LocalFuture,
    source_error::SourceError,
    source_health::SourceHealth,
    source_limits::SourceLimits,
    source_setup::SourceSetup,
    source_trait::{Source, SourceKind, ValueWrites},
};
use larder_base::buffers::Buffers;
use larder_config::PostgresUrl;
use larder_store::clock;
use std::{rc::Rc, sync::Arc};

/// Reads the files that the URL names.
///
/// # Errors
/// A text that names the file or host at fault.
pub(crate) fn setup(
    url: &PostgresUrl,
    limits: SourceLimits,
    health: SourceHealth,
    buffers: Arc<Buffers>,
) -> Result<SourceSetup, String> {
    let settings = Arc::new(PostgresSettings::new(url, limits, health, buffers)?);
    Ok(SourceSetup::of(settings.health.clone(), move |_, _| Rc::new(PostgresSource(settings.clone()))))
}

/// One core's handle.
struct PostgresSource(Arc<PostgresSettings>);
impl Source for PostgresSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Values(ValueWrites::Refused("a database"))
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        for fetch in batch.drain(..) {
            fetch.finish(Err(self.0.unavailable("rows cannot be read yet")), clock::now());
        }
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(async {
            let opened = connect(&self.0, Purpose::Read).await.map_err(|why| self.0.unavailable(why))?;
            drop(opened);
            Ok(())
        })
    }
}
