//! A client's side of an upstream Redis: its dedicated connections, its state there, how commands
//! are sent and replies passed on.
pub(in crate::redis) mod blocking;
pub(in crate::redis) mod client_state;
mod dedicated;
pub(in crate::redis) mod login;
pub(in crate::redis) mod replies;
pub(in crate::redis) mod requests;
pub(in crate::redis) mod rights;
pub(in crate::redis) mod tracking_redirect;
pub(in crate::redis) mod user;
