//! One connection to a Redis server, and the task that owns it: queue, deadlines, reconnects.
//!
//! ```text
//!           ┌───────── lost: unanswered fetches are sent again ────────┐
//!           ▼                                                          │
//!   ( connecting: requests queue ) ── success ──► ( connected: requests are sent )
//!           │ failure: all queued requests fail
//!           ▼
//!   ( down: requests fail at once; retries, 50 ms to 2 s apart ) ── success ──► connected
//! ```
//!
//! When one connection of a source succeeds, all others retry at once: a client whose read works
//! again can also write.
mod connect_attempt;
mod connection_io;
mod reconnect;
mod reconnect_backoff;
mod request_queue;
mod upstream_connection;

pub(super) use upstream_connection::UpstreamConnection;
