//! The first bytes of each kind of file: a reader that is given another kind says which it is.

pub(crate) const TABLE: [u8; 8] = *b"\x89LTAB\r\n\x1a";
pub(crate) const SNAPSHOT: [u8; 8] = *b"\x89LSNP\r\n\x1a";
pub(crate) const BACKUP: &[u8] = b"larder backup\n";
/// Of Redis's dumps; digits of the version follow.
pub(crate) const RDB: &[u8; 5] = b"REDIS";
