//! The HTTP routes: native, compatibility and admin.
//!
//! ```text
//!              first bytes                  plain GETs of fast routes                 anything else, with the bytes already read
//! TcpStream ─────────────► fast_path: recognise ──────► answered from inside ──┐  ┌─► general_path: hyper (HTTP/1.1, HTTP/2) ─► router ─► key_routes, mget …
//!                              ▲                        the engine's lookup     │  │                                                    │
//!                              └────────── one write per batch ◄───────────────┘  └── from then on ◄───────────────────────────────────┘
//! ```
//!
//! Invariants:
//! - The fast path answers only what the general path would answer with the same bytes.
//!   `read_responses` and `compat/read_routes` word both, and a test compares them.
//! - A hit on the fast path allocates nothing: input and output buffers belong to the worker, not
//!   to the connection.
//! - Every wait for a client ends: for a head after `header-timeout`, for the next request or for
//!   room in the client's window after `idle-timeout`, for a request's body by its size
//!   (`request_body`).
//! - No route reads the clock twice or trusts a length before comparing it with its setting.
mod admin;
mod compat;
mod connection;
mod console;
mod fast_path;
mod item_api;
mod keys;
mod messages;
mod nodes;
mod observe;
mod routing;
#[cfg(test)]
mod tests;

pub use connection::{connection_context::ListenerRole, serve_connection, worker_state::HttpWorkerState};
