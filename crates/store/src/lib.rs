//! What is kept on this machine's disk: the durable store, tables, and snapshots of the memory
//! tier. Knows no protocol.
#![warn(missing_docs)]
pub mod atomic_files;
pub mod clock;
pub mod disk;
mod magic;
pub mod rdb;
pub mod snapshot;
mod stored_value;
pub mod table;

pub use stored_value::{StoredValue, ValueKind};
