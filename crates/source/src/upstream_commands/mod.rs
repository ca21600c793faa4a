//! The upstream's command table: which commands a Redis server has, where their keys are, whether
//! they may be forwarded, whether their replies may be cached, and how a cluster spreads them.
//!
//! `upstream_command_table` reads the server's reply to `COMMAND`. The other files add what the
//! reply does not say.
mod cacheable_replies;
pub(super) mod cluster_policies;
mod forward_rules;
pub(super) mod framed_replies;
mod key_specs;
pub(super) mod reply_fields;
mod upstream_command_table;

pub use forward_rules::ForwardRule;
pub use upstream_command_table::{BusyFor, KnownKeys, UpstreamCommand, UpstreamCommands};
