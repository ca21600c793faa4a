//! Protocols without I/O: `parse(bytes)` and `write(reply)`.
//!
//! ```text
//! client's bytes ─► resp::Parser ─► Args (borrow from the read buffer) ─► the caller runs the command ─► resp::Reply ─► Output
//! memcached client's bytes ─► memcached::Parser ─► Request (borrows from the read buffer) ─► the caller writes lines ─► Output
//! upstream's bytes ─► resp::Scanner (finds the end of a reply) ─► resp::view (reads it)
//! ```
//!
//! Invariants:
//! - Nothing here reads a clock or a socket.
//! - A length that a peer sends is compared with a limit before memory is allocated for it.
//! - Nothing here recurses on the nesting of a peer's input.
#![warn(missing_docs)]
pub mod glob;
pub mod http;
pub mod hyperloglog;
pub mod memcached;
pub mod output;
pub mod percent;
pub mod proxy_header;
pub mod resp;
