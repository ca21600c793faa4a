//! What carries out commands on data: it follows from the source of the group.
use crate::source::Source;

/// A kind of backend. Each has an [`Executor`](super::executor::contract::Executor).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    /// The memory tier, which has all there is.
    Memory,
    /// A Redis server, of which the memory tier has copies.
    Upstream,
    /// A store on this machine, of which the memory tier has copies.
    LocalStore,
    /// A source that is only read from: GET and MGET.
    ReadOnly,
}
impl Backend {
    /// That of a group with this source.
    pub(super) fn of(source: &dyn Source) -> Backend {
        match source {
            source if source.as_redis().is_some() => Backend::Upstream,
            source if source.as_local().is_some() => Backend::LocalStore,
            source if source.reads_through() => Backend::ReadOnly,
            _ => Backend::Memory,
        }
    }
}
