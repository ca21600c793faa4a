//! `none:`: nothing behind the memory tier, which is then the store itself.
use super::{LocalFuture, Reads, Source, SourceError};
use crate::source::Fetch;
use larder_engine::Millis;

/// The source that has nothing and takes every write. Reads never ask it ([`Source::reads_through`] is false).
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
        Box::pin(std::future::ready(Ok(false)))
    }
    fn delete<'a>(&'a self, _key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
    fn expire<'a>(&'a self, _key: &'a [u8], _expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn reads(&self) -> Reads<'_> {
        Reads::Tier
    }
}
