//! The executors: one for each kind of backend, all with the same interface
//! ([`executor_trait::Executor`]).
//!
//! ```text
//!               begin                       pipeline                          EXEC, WATCH
//! memory        under the tier's locks      none: everything is answered      under the locks of all keys
//! shared_store  by the key's owner: here, or   none                              run by the owner, if all keys
//!               in one hop at another node                                       have the same; no WATCH
//! upstream      a copy in the tier, else    commands of one client in one     sent as one MULTI … EXEC; WATCH on the
//!               a forwarded command         write, their replies in one read  dedicated connection
//! local_store   a copy in the tier, else    run on a scratch tier; their      the same, in parts around commands on
//!               a command on the store      changes are one store write       the keyspace
//! value_source  a copy in the tier; SET, MSET  none                           refused
//!               and DEL where it takes values
//! ```
//!
//! Invariants:
//! - A command's function gets a tier under locks that cover all its keys, and never takes locks
//!   itself.
//! - With a source, every write goes to the source first. The memory tier has copies only.
//! - One place decides what an answer does to the memory tier: `upstream/effects.rs` for an
//!   upstream Redis, `Group::commit` for a store.
use crate::session::Backend;

pub(super) mod executor_trait;
mod local_store;
pub(super) mod memory;
pub(super) mod pipeline;
mod run_for_node;
mod shared_store;
mod tier_commands;
mod upstream;
mod value_source;

use self::{
    executor_trait::Executor, local_store::store_executor::LocalStoreExecutor, memory::MemoryExecutor,
    shared_store::SharedStoreExecutor, upstream::upstream_executor::UpstreamExecutor,
    value_source::ValueSourceExecutor,
};
pub use run_for_node::{NodeRefusal, run_for_node};

pub(crate) fn executor(backend: Backend) -> &'static dyn Executor {
    match backend {
        Backend::Memory => &MemoryExecutor,
        Backend::SharedStore => &SharedStoreExecutor,
        Backend::Upstream => &UpstreamExecutor,
        Backend::LocalStore => &LocalStoreExecutor,
        Backend::ValueSource => &ValueSourceExecutor,
    }
}
