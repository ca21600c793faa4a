//! Commands on an upstream Redis: sent unchanged, the reply passed on unchanged.
mod effects;
pub(super) mod executor;
pub(super) mod pipeline;
mod single;
mod transaction;
