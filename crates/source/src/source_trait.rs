//! The contract between `read` and a source: fetches, writes, and which optional interfaces a
//! source has.
use super::{
    fetch::Fetch, fill_policy::FillPolicy, local_future::LocalFuture, local_store::LocalStore,
    redis_server_trait::RedisServer, source_error::SourceError, table::table_map_reads::TableSource,
    value_stream::ValueStream,
};
use larder_engine::Millis;
use std::future::ready;

/// One core's connection to a source. Not `Send`: each worker opens its own.
///
/// Contract: `fetch` never blocks. It finishes every fetch within `source-timeout`, whatever
/// happens, and batches fetches where the source can. A write returns only when the source has
/// accepted or refused it.
pub trait Source {
    /// Takes over a batch of fetches and finishes each with the source's answer.
    fn fetch(&self, batch: &mut Vec<Fetch>);
    /// What a source that never accepts writes is, for the error: `a table`. It then leaves out
    /// `put`, `delete` and `expire`.
    fn read_only_kind(&self) -> &'static str {
        "of a kind"
    }
    /// The value of a key as it comes, for one client, if the source can do that: for values larger
    /// than `max-value`, which a fetch refuses. `policy` has the deadline, which is that of the
    /// head.
    fn stream<'a>(
        &'a self,
        _key: &'a [u8],
        _policy: &FillPolicy,
    ) -> Option<LocalFuture<'a, Result<Option<ValueStream>, SourceError>>> {
        None
    }
    /// Stores a value; true if it replaced one.
    fn put<'a>(
        &'a self,
        _key: &'a [u8],
        _value: &'a [u8],
        _expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Err(SourceError::ReadOnly(self.read_only_kind()))))
    }
    /// Deletes a key; true if it existed.
    fn delete<'a>(&'a self, _key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Err(SourceError::ReadOnly(self.read_only_kind()))))
    }
    /// Changes the expiry of a key (`None`: never); true if the key exists.
    fn expire<'a>(&'a self, _key: &'a [u8], _expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Err(SourceError::ReadOnly(self.read_only_kind()))))
    }
    /// Whether single values can be written to a source that is neither a Redis nor a store on this
    /// machine.
    fn takes_values(&self) -> bool {
        false
    }
    /// Whether a read after a write gives the bytes that were written, so that they can be kept as
    /// a copy.
    fn returns_what_is_written(&self) -> bool {
        true
    }
    /// Checks that the source answers (for readiness).
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>>;
    /// The source as a Redis server, for commands that are relayed verbatim.
    fn as_redis(&self) -> Option<&dyn RedisServer> {
        None
    }
    /// The source as a store on this machine, for scans and changes of several keys.
    fn as_local(&self) -> Option<&dyn LocalStore> {
        None
    }
    /// Where reads look first.
    fn reads(&self) -> Reads<'_> {
        Reads::Through
    }
    /// `false` for `none:`, where a miss means that the key is absent and no fetch starts.
    fn reads_through(&self) -> bool {
        !matches!(self.reads(), Reads::Tier)
    }
}

/// Where reads look.
#[derive(Clone, Copy)]
pub enum Reads<'s> {
    /// In the memory tier only.
    Tier,
    /// In the memory tier; a miss is fetched.
    Through,
    /// In the table's memory map. A key that the map cannot answer without waiting for the disk is
    /// fetched.
    Table(&'s TableSource),
}
