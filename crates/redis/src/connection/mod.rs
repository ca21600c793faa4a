//! A connection of the Redis protocol. The loop that reads and writes is
//! [`larder_core::connection`].
mod client_connection;
mod refused_commands;
mod request_session;

pub use client_connection::{ClientConnection, serve};
pub use larder_core::connection::{BufferPool, CommandInput, Protocol};
pub use request_session::{RequestClient, RequestSession};
