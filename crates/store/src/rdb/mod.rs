//! RDB files of Redis: their strings are read and written, values of other types are skipped and
//! named. A single string also as DUMP returns it. <https://github.com/redis/redis/blob/7.0/src/rdb.h>, <https://rdb.fnordig.de/file_format.html>
//!
//! ```text
//!   REDIS0011 | FA name value … | FE database | FB sizes | FC milliseconds 8 | type 1 | key | value | … | FF | CRC-64 8
//! ```
//!
//! Invariants:
//! - A length is compared with its limit before memory is had for it; memory grows with the bytes
//!   that the file has.
//! - Any bytes are an answer, never a panic. An item is given before the checksum is compared,
//!   which comes last: a writer of the items keeps them apart until [`RdbReader::next`] has given
//!   `None`.
mod dump;
mod format;
mod input;
mod lzf;
mod read;
mod skip;
mod write;

pub use dump::{DumpError, Dumped, dump, read_dump};
pub use format::RdbError;
pub use read::{RdbItem, RdbReader};
pub use write::RdbWriter;
