//! Chooses the executor: one line for each backend.
use super::{
    executor_trait::Executor, local_store::store_executor::LocalStoreExecutor, memory::MemoryExecutor,
    shared_store::SharedStoreExecutor, upstream::upstream_executor::UpstreamExecutor,
    value_source::ValueSourceExecutor,
};
use crate::backend_kind::Backend;

/// The executor of a backend.
pub(crate) fn executor(backend: Backend) -> &'static dyn Executor {
    match backend {
        Backend::Memory => &MemoryExecutor,
        Backend::SharedStore => &SharedStoreExecutor,
        Backend::Upstream => &UpstreamExecutor,
        Backend::LocalStore => &LocalStoreExecutor,
        Backend::ValueSource => &ValueSourceExecutor,
    }
}
