//! Marks of the file, its checksum, and what can be wrong with it.
use crc::{CRC_64_REDIS, Crc, Table};
use std::io;

/// What every file begins with.
pub(super) use crate::magic::RDB as MAGIC;
pub(super) const EXPIRES_MS: u8 = 0xfc;
pub(super) const DATABASE: u8 = 0xfe;
pub(super) const END: u8 = 0xff;
pub(super) const STRING: u8 = 0;

pub(super) type Sums = Crc<u64, Table<16>>;
pub(super) static SUMS: Sums = Sums::new(&CRC_64_REDIS);

/// Why an RDB file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RdbError {
    /// The input cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is no RDB file, or one of an unknown version.
    #[error("{0}")]
    Foreign(String),
    /// The bytes are not what Redis writes.
    #[error("damaged RDB file: byte {at}: {what}")]
    Damaged {
        /// Bytes read until then.
        at: u64,
        /// In what way.
        what: &'static str,
    },
}
