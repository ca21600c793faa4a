//! Commands on a source that keeps its entries on this machine.
//!
//! ```text
//! commands ─► hold their keys ─► load what they look at ─► run on a scratch tier ─► what changed ─► store, all or nothing ─► memory tier ─► let go, reply
//!             (read::KeyGuard)       (copies, else the store)  (the table's functions)                  (LocalStore::apply)
//! ```
//!
//! So a command's function is the same with and without a source. The commands of one client that come in one pipeline, or
//! while those before them are under way, and those of a transaction, go this way together: one change of the store for all of them. SCAN and its like (`commands/keyspace.rs`) ask the
//! store itself.
//!
//! Invariants:
//! - Nothing is answered before the store has taken it, as durably as it promises.
//! - If the store refuses, none of the commands that went together has changed anything, and all of them answer the error. EXEC
//!   goes in parts if commands on the keyspace are in it: what was answered before the part that fails stands, and what comes
//!   after it is not begun and answers the same error.
pub(super) mod exec;
pub(super) mod pipeline;
mod scratch;
