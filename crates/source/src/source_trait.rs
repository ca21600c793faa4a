//! The contract between `read` and a source: its kind, fetches and writes.
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
    /// What the source is; asked on each read. Always the same, or a store where it trades places with
    /// its mirror: ask again once the key is locked.
    fn kind(&self) -> SourceKind<'_>;
    /// Takes over a batch of fetches and finishes each with the source's answer.
    fn fetch(&self, batch: &mut Vec<Fetch>);
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
        Box::pin(ready(Err(self.kind().read_only())))
    }
    /// Deletes a key; true if it existed.
    fn delete<'a>(&'a self, _key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Err(self.kind().read_only())))
    }
    /// Changes the expiry of a key (`None`: never); true if the key exists.
    fn expire<'a>(&'a self, _key: &'a [u8], _expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(ready(Err(self.kind().read_only())))
    }
    /// Checks that the source answers (for readiness).
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>>;
}

/// What a source is. The group and the doors match on it to decide where reads look, which
/// commands there are, and what a write leaves in the memory tier.
#[derive(Clone, Copy)]
pub enum SourceKind<'s> {
    /// There is no source: the memory tier has all entries. A miss means that the key is absent,
    /// and no fetch starts.
    Memory,
    /// A Redis server. Commands are relayed to it verbatim.
    Redis(&'s dyn RedisServer),
    /// A store, which also scans and changes several keys at once: on this machine, or shared with
    /// other programs ([`LocalStore::shared`]).
    Store(&'s dyn LocalStore),
    /// A table on this machine, which takes no writes. Reads look in its memory map instead of
    /// the memory tier, and fetch a key that the map cannot answer without waiting for the disk.
    Table(&'s TableSource),
    /// A server of single values.
    Values(ValueWrites),
}

/// Which writes a server of single values takes.
#[derive(Clone, Copy)]
pub enum ValueWrites {
    /// None. It leaves out `put`, `delete` and `expire`. The text names the source in the error:
    /// `an HTTP API`.
    Refused(&'static str),
    /// PUT and DELETE. A read gives the bytes that were written, so they are kept as a copy.
    Unchanged,
    /// PUT and DELETE. A read may give other bytes than those that were written.
    Changed,
}

impl SourceKind<'_> {
    /// The error of a write to a source that takes none.
    pub(super) fn read_only(self) -> SourceError {
        SourceError::ReadOnly(match self {
            SourceKind::Values(ValueWrites::Refused(name)) => name,
            SourceKind::Table(_) => "a table",
            _ => "of a kind",
        })
    }
}

impl dyn Source + '_ {
    /// The Redis server, if the source is one.
    pub fn as_redis(&self) -> Option<&dyn RedisServer> {
        match self.kind() {
            SourceKind::Redis(server) => Some(server),
            _ => None,
        }
    }
    /// The store or table, if the source is on this machine.
    pub fn as_local(&self) -> Option<&dyn LocalStore> {
        match self.kind() {
            SourceKind::Store(store) => Some(store),
            SourceKind::Table(table) => Some(table),
            _ => None,
        }
    }
    /// Whether a miss is fetched.
    pub fn reads_through(&self) -> bool {
        !matches!(self.kind(), SourceKind::Memory)
    }
}
