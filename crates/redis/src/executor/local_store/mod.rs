//! Commands on a local store.
//!
//! ```text
//! commands ─► lock their keys ─► load their entries ─► run on a scratch tier ─► changes ─► store, all or nothing ─► memory tier ─► unlock, reply
//!             (read::KeyGuard)   (copies, else store)  (the table's functions)             (LocalStore::apply)
//! ```
//! Plain SETs need no entries and no scratch tier (`prepared`).
//!
//! A command's function is therefore the same with and without a source. Commands of one client run
//! together and make one change of the store if they come in one pipeline, arrive while earlier
//! ones are still running, or belong to one transaction. SCAN and the other keyspace commands
//! (`commands/keyspace.rs`) read the store itself.
//!
//! On a store that other programs change as well, each command but a plain SET runs alone
//! (`shared_commands`): what it changes demands the revision that was loaded, and it runs again if
//! another client was faster.
//!
//! Invariants:
//! - No command is answered before the store has taken its change, as durably as the store
//!   promises.
//! - If the store refuses, none of the commands that ran together has changed anything, and all of
//!   them answer the error.
//! - EXEC runs in parts if it has commands on the keyspace. The replies before a failed part stand.
//!   The commands after it do not run and answer the same error.
pub(super) mod pipeline;
mod prepared;
mod scratch;
mod shared_commands;
pub(super) mod store_executor;
