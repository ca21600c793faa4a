//! Chooses the executor: one line for each backend.
use super::{
    contract::Executor, local_store::exec::LocalStoreExecutor, memory::MemoryExecutor, read_only::ReadOnlyExecutor,
    upstream::executor::UpstreamExecutor,
};
use crate::redis::backend::Backend;

/// The executor of a backend.
pub(in crate::redis) fn executor(backend: Backend) -> &'static dyn Executor {
    match backend {
        Backend::Memory => &MemoryExecutor,
        Backend::Upstream => &UpstreamExecutor,
        Backend::LocalStore => &LocalStoreExecutor,
        Backend::ReadOnly => &ReadOnlyExecutor,
    }
}
