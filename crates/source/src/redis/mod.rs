//! `redis://`, `rediss://`, `unix://`: a Redis or Valkey server (or anything that speaks its
//! protocol, such as another Larder).
//!
//! This is the miss path, so a miss costs no task, no timer, no channel and no boxed future of its
//! own:
//!
//! ```text
//! fetch(batch) ─┐                         ┌─ connection task of this core ────────────────────────────────┐
//! put, delete ──┼─► queue of connection ─►│ encode all queued requests ─► one write ─► Redis              │
//! relay ────────┘   (one wake per turn)   │ replies, in order ◄─ read ◄─┘    │                             │
//!                                         │   └─► Fetch::finish / result     └─ one timer for all deadlines │
//!                                         └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! - Fetches that are queued together are sent as one batch of `GET k`, `PTTL k`. A value and its
//!   expiry must be of one moment (`pipeline`). Where the server announces changes, an announcement
//!   says that they are not. Elsewhere the batch is a transaction.
//! - Requests queue while a connection is being made. They fail at once while the source is known
//!   to be down (`connection`).
//! - A deadline that passes with requests in flight ends the connection: replies come in order, so
//!   a late reply would be taken for the next. Fetches in flight are sent once more on the next
//!   connection. Writes are not.
//! - Larder's user at the server needs `+ping +get +pttl` to read (and `+multi +exec` for
//!   consistent expiries), and `+set +del +pexpire +persist +exists` for Larder's own writes.
//! - With an invalidation scope, connections that fetch speak RESP3 and have the server announce
//!   changes (`CLIENT TRACKING`). Writes and relayed commands then use another connection without
//!   tracking, in RESP2, opened at first use: their replies go to clients unchanged.
//! - Relayed RESP3 commands use a connection of their own, opened at first use. Slow commands use
//!   one more.
//! - With several servers, `sentinel` finds the master, and `cluster` has a source for each node.
mod announcing_connections;
pub(crate) mod cluster;
mod connection;
mod connection_settings;
mod dedicated_connection;
mod large_commands;
mod pipeline;
mod queued_request;
mod redis_setup;
mod redis_source;
mod reply_affinity;
mod reply_errors;
mod sentinel;
mod sentinel_master;
mod upstream_handshake;
mod upstream_password;
mod upstream_transport;
mod write_commands;

pub(super) use redis_setup::setup;
