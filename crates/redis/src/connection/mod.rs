//! A connection of the Redis protocol. The loop that reads and writes is
//! [`larder_core::connection`].
mod client_connection;
mod refused_commands;

pub use client_connection::{ClientConnection, serve};
pub use larder_core::connection::{BufferPool, CommandInput, Protocol};
