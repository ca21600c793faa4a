//! What is kept on this machine's disk: the durable store, and tables. Knows keys, values and expiries; no protocol, no memory tier.
mod atomic_files;
pub mod clock;
pub mod disk;
pub mod table;
