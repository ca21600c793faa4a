//! Commands on an upstream Redis: sent unchanged, the reply passed on unchanged.
mod effects;
pub(super) mod pipeline;
mod single_command;
mod transaction;
pub(super) mod upstream_executor;
