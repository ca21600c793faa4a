//! What keeps entries on this machine's disks.
pub mod table;
