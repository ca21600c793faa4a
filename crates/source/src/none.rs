//! `none:`: no source behind the memory tier, which is then the store itself.
use super::{
    fetch::Fetch,
    local_future::LocalFuture,
    source_error::SourceError,
    source_health::SourceHealth,
    source_setup::SourceSetup,
    source_trait::{Source, SourceKind},
};
use larder_engine::Millis;
use std::{future::ready, rc::Rc, sync::Arc};

pub(super) fn setup() -> SourceSetup {
    SourceSetup::of(Arc::new(SourceHealth::always_up()), |_, _| Rc::new(NoneSource))
}

/// The source that has no entries and accepts every write. Reads never ask it.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoneSource;

impl Source for NoneSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Memory
    }
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
}
