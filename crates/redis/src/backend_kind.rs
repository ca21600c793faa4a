//! The kind of backend that runs commands on data. It follows from the group's source.
use larder_core::read::Group;

/// A kind of backend. Each has an [`Executor`](super::executor::executor_trait::Executor).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    /// The memory tier has all entries.
    Memory,
    /// The memory tiers of all nodes together have all entries, each key in that of its owner.
    SharedStore,
    /// A Redis server has the entries. The memory tier has copies.
    Upstream,
    /// A store on this machine has the entries. The memory tier has copies.
    LocalStore,
    /// The source has values and nothing else: GET and MGET, and SET, MSET and DEL if it takes
    /// writes.
    ValueSource,
}
impl Backend {
    /// The backend of a group.
    pub(super) fn of(group: &Group) -> Backend {
        match &*group.source {
            _ if group.is_store() && group.peers.is_some() => Backend::SharedStore,
            source if source.as_redis().is_some() => Backend::Upstream,
            source if source.as_local().is_some() => Backend::LocalStore,
            source if source.reads_through() => Backend::ValueSource,
            _ => Backend::Memory,
        }
    }
}
