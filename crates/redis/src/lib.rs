//! The Redis commands: the table (name, arity, flags, key positions, functions), and how one
//! command runs.
//!
//! ```text
//! Args ─► begin: find, arity, access, MULTI? ─► its function, by kind ─┬─ connection and server: answered at once
//!                                                                      ├─ GET, MGET: through the group; misses ─► PendingRead
//!                                                                      └─ entries: the executor of the backend
//!                                                                            ├─ answered under the tier's locks, or from a copy
//!                                                                            ├─ joins a ClientPipeline, with the client's other commands
//!                                                                            └─ Flow::Alone ─► run
//! ```
//!
//! Invariants:
//! - A command that answers with an error has changed nothing and written nothing else.
//! - The commands of one client take effect in the order in which the client sent them.
//! - The table says what is special about a command (flags, functions). No code compares names.
//!
//! To add a command, add a row to [`command_table`] and a function to one of the files of
//! `commands`.
mod auth;
mod begin_command;
mod cached_replies;
mod command;
mod command_access;
mod command_context;
mod command_counts;
mod command_handlers;
mod command_lookup;
mod command_outcome;
mod command_queue;
mod command_rights;
mod command_spans;
mod command_table;
mod command_times;
mod commands;
pub mod connection;
mod emulated_cluster;
mod executor;
mod foreign_protocol;
mod forwarded_commands;
mod forwarded_writes;
mod key_prefetch;
mod limited_commands;
pub mod lone_gets;
mod long_double;
mod monitored_commands;
mod paused_commands;
mod pending_read;
pub mod plain_gets;
mod plain_sets;
mod push_messages;
mod reply_room;
mod session;
mod slow_commands;
mod subscribed_topics;
#[cfg(test)]
mod tests;
mod tracked_reads;
mod tracking_client;
mod transaction;
mod transaction_steps;
mod upstream;
mod value_comparison;
mod waiting_replies;

pub use begin_command::{begin, refuse, run};
pub use command::{Command, Flags, Keys, Leaves};
pub use command_access::CommandAccess;
pub use command_lookup::{COMMANDS, FoundCommand, find, find_for, subcommands};
pub use command_outcome::Flow;
pub use command_rights::catalog;
pub use commands::client::last_command;
pub use commands::maintenance::tells_to_move;
pub use executor::{NodeRefusal, pipeline::ClientPipeline, run_for_node};
pub use limited_commands::enter;
pub use paused_commands::waits as waits_for_pause;
pub use pending_read::PendingRead;
pub use session::{Outstanding, Session};
pub use upstream::{
    login::check_login,
    rights::{keep_asking as keep_asking_for_rights, learn_all as learn_rights, learn_one as learn_rights_of},
};
