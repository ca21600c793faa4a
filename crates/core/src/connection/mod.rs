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

/// Commands processed before the worker's other connections get their turn.
pub const TURN: usize = 1024;
/// Commands between two looks at the line in front of the core.
pub const JUDGED: usize = 32;
/// Unsent bytes above which no more commands of a client are processed (backpressure). One reply
/// may exceed it. Large values are referenced, not copied, so they add only references.
pub const MAX_DUE: usize = 1 << 20;

pub use command_input::{BufferPool, CommandInput};
pub use connection_loop::serve;
pub use protocol::{ByteCounters, Flow, Protocol};
