//! Commands on an upstream Redis: sent as they came, the reply passed on as it came.
mod effects;
pub(super) mod executor;
pub(super) mod pipeline;
mod single;
mod transaction;
