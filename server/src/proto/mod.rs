//! Protocols without I/O: `parse(bytes)` and `write(reply)`.
pub mod output;
pub mod resp;
