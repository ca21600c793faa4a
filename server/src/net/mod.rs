//! Sockets, the connection loop, buffers, limits and drain.
pub mod clients;
pub mod drain;
pub mod throttle;
