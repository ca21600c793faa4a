//! The kind of backend that runs commands on data. It follows from the group's source.
use crate::source::Source;

/// A kind of backend. Each has an [`Executor`](super::executor::executor_trait::Executor).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    /// The memory tier has all entries.
    Memory,
    /// A Redis server has the entries. The memory tier has copies.
    Upstream,
    /// A store on this machine has the entries. The memory tier has copies.
    LocalStore,
    /// The source has values and nothing else: GET and MGET, and SET, MSET and DEL if it takes writes.
    ValueSource,
}
impl Backend {
    /// The backend of a group with this source.
    pub(super) fn of(source: &dyn Source) -> Backend {
        match source {
            source if source.as_redis().is_some() => Backend::Upstream,
            source if source.as_local().is_some() => Backend::LocalStore,
            source if source.reads_through() => Backend::ValueSource,
            _ => Backend::Memory,
        }
    }
}
