//! How the database announces changes: its replication stream, or triggers and NOTIFY.
//!
//! ```text
//! change_stream.rs   one for the process and database: connects again and again
//! session.rs         one connection: announces keys, watches its lag
//! watches.rs         which change announces which keys, and what must be set for it
//! announced.rs       which transactions changed a key, and whether a fetch has seen them
//! snapshot.rs        what a statement has seen
//! pgoutput.rs        decodes the stream
//! wire.rs            the connection
//! triggers.sql       for `changes=notify`
//! ```
mod announced;
mod change_stream;
mod pgoutput;
mod session;
pub(super) mod snapshot;
mod watches;
mod wire;

pub(super) use announced::Vouching;
pub(super) use change_stream::GroupChanges;
pub(super) use session::wrong_watches;
pub use watches::triggers;
