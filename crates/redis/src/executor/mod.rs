//! What runs commands on data: one file or folder for each kind of backend.
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
use crate::{
    command_context::CommandContext,
    command_outcome::{Done, Flow, Later},
    session::Backend,
    transaction,
    waiting_replies::Waits,
};

mod local_store;
pub(super) mod memory;
pub(super) mod pipeline;
mod run_for_node;
mod shared_store;
mod tier_commands;
mod upstream;
mod value_source;

use self::{local_store::store_executor, upstream::upstream_executor};
pub use run_for_node::{NodeRefusal, run_for_node};

/// Begins a command on entries, and ends it if it need not wait. GET and MGET do not begin here: they
/// read through the group, with any backend.
#[inline]
pub(super) fn begin(call: &mut CommandContext<'_>, waits: &mut Waits<'_>) -> Done {
    match call.session.backend {
        Backend::Memory => memory::begin(call),
        Backend::SharedStore => shared_store::begin(call),
        Backend::Upstream => upstream_executor::begin(call, waits),
        Backend::LocalStore => store_executor::begin(call, waits),
        Backend::ValueSource => value_source::begin(call),
    }
}

/// MULTI. An upstream's table must be known, because it says which commands cannot be queued.
pub(super) fn multi(call: &mut CommandContext<'_>) -> Done {
    let waits = call.session.backend == Backend::Upstream && call.known_commands().is_none();
    Ok(if waits { Flow::Alone(call.command) } else { transaction::begin(call) })
}

/// WATCH, outside of MULTI.
pub(super) fn watch(call: &mut CommandContext<'_>) -> Done {
    match call.session.backend {
        Backend::Memory => memory::watch(call),
        Backend::SharedStore => Err(shared_store::NO_WATCH),
        Backend::ValueSource => Err(value_source::READS_ONLY),
        Backend::Upstream | Backend::LocalStore => Ok(Flow::Alone(call.command)),
    }
}

/// EXEC, when all commands are queued.
pub(super) fn exec(call: &mut CommandContext<'_>) -> Done {
    match call.session.backend {
        Backend::Memory => memory::exec(call),
        Backend::ValueSource => value_source::exec(call),
        Backend::SharedStore | Backend::Upstream | Backend::LocalStore => Ok(Flow::Alone(call.command)),
    }
}

/// Runs a command on data, EXEC, WATCH or MULTI for which a function above returned [`Flow::Alone`].
pub(super) fn run<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    match call.session.backend {
        Backend::Memory => Box::pin(memory::run(call)),
        Backend::SharedStore => Box::pin(shared_store::run(call)),
        Backend::Upstream => Box::pin(upstream_executor::run(call)),
        Backend::LocalStore => Box::pin(store_executor::run(call)),
        Backend::ValueSource => value_source::run(call),
    }
}
