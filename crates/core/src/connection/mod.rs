//! The connection loop of protocols whose clients send commands over TCP: read, process, write,
//! wait. What the bytes mean is a [`Protocol`]'s.
//!
//! An unpipelined hit costs one read and one write: the write is tried as soon as the reply is
//! there, and a read that did not fill its buffer tells the runtime to wait for the socket instead
//! of asking it again.
//!
//! Reading goes on while reads wait for the source, so a pipeline's misses overlap; it stops while
//! too much is due to the client or too many reads wait ([`Flow::Full`]). So a client that does not
//! read its replies stops itself.
mod command_input;
mod connection_loop;
mod protocol;
mod socket_io;

pub use command_input::{BufferPool, CommandInput};
pub use connection_loop::serve;
pub use protocol::{ByteCounters, Flow, Protocol};
