//! Protocols without I/O: `parse(bytes)` and `write(reply)`.
//!
//! ```text
//! bytes read ─► resp::Parser ─► Args (borrow from the read buffer) ─► dispatch ─► resp::Reply ─► Output ─► bytes written
//! upstream's bytes ─► resp::Scanner (where does a reply end?) ─► resp::view (what is in it?)
//! ```
//!
//! Invariants: nothing here reads a clock or a socket; no length that a peer names is allocated before it was checked
//! against a limit; nothing here recurses on a peer's nesting.
pub mod glob;
pub mod http;
pub mod output;
pub mod percent;
pub mod resp;
