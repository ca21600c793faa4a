//! The connection loop of the Redis protocol: read, process, write, wait.
//!
//! An unpipelined hit costs one read and one write: the write is tried as soon as the reply is
//! there, and a read that did not fill its buffer tells the runtime to wait for the socket instead
//! of asking it again.
//!
//! Reading goes on while reads wait for the source, so a pipeline's misses overlap; it stops while
//! too much is due to the client or too many reads wait ([`Flow::Full`](crate::Flow)). So a client that does not
//! read its replies stops itself.
mod client_connection;
mod command_input;
mod connection_loop;
mod refused_commands;
mod socket_io;

pub use client_connection::ClientConnection;
pub use command_input::{BufferPool, CommandInput};
pub use connection_loop::serve;
