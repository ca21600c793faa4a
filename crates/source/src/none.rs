//! `none:`: no source behind the memory tier, which is then the store itself.
use super::{
    fetch::Fetch,
    invalidation::InvalidationScope,
    local_future::LocalFuture,
    source_error::SourceError,
    source_factory::SourceFactory,
    source_health::SourceHealth,
    source_trait::{Reads, Source},
};
use larder_engine::Millis;
use std::{future::ready, rc::Rc, sync::Arc};

/// What all cores share: the health of a source that cannot fail.
pub(super) struct NoneSetup(Arc<SourceHealth>);
impl Default for NoneSetup {
    fn default() -> NoneSetup {
        NoneSetup(Arc::new(SourceHealth::always_up()))
    }
}
impl SourceFactory for NoneSetup {
    fn health(&self) -> &Arc<SourceHealth> {
        &self.0
    }
    fn open(&self, _scope: Option<InvalidationScope>, _keeps_replies: bool) -> Rc<dyn Source> {
        Rc::new(NoneSource)
    }
}

/// The source that has no entries and accepts every write. Reads never ask it
/// ([`Source::reads_through`] is false).
#[derive(Debug, Clone, Copy, Default)]
pub struct NoneSource;

impl Source for NoneSource {
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        let now = larder_store::clock::now();
        for fetch in batch.drain(..) {
            fetch.finish(Ok(None), now);
        }
    }
    fn put<'a>(
        &'a self,
        _key: &'a [u8],
        _value: &'a [u8],
        _expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Ok(false)))
    }
    fn delete<'a>(&'a self, _key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Ok(false)))
    }
    fn expire<'a>(&'a self, _key: &'a [u8], _expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Ok(false)))
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(ready(Ok(())))
    }
    fn reads(&self) -> Reads<'_> {
        Reads::Tier
    }
}
