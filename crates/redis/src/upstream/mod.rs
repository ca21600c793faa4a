//! A client's side of an upstream Redis: its dedicated connections, its state there, how commands
//! are sent and replies passed on.
pub(crate) mod blocking;
pub(crate) mod client_state;
mod dedicated;
pub(crate) mod login;
pub(crate) mod replies;
pub(crate) mod requests;
pub(crate) mod rights;
pub(crate) mod tracking_redirect;
