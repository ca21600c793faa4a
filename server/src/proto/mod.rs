//! Protocols without I/O: `parse(bytes)` and `write(reply)`.
pub mod http;
pub mod output;
pub mod resp;
