//! The first bytes of each kind of file: a reader that is given another kind says which it is.

pub(crate) const TABLE: [u8; 8] = *b"\x89LTAB\r\n\x1a";
pub(crate) const SNAPSHOT: [u8; 8] = *b"\x89LSNP\r\n\x1a";
pub(crate) const BACKUP: &[u8] = b"larder backup\n";
/// Of Redis's dumps; digits of the version follow.
pub(crate) const RDB: &[u8; 5] = b"REDIS";

/// Names of types that the definitions at the beginning of a dump of GCache have.
const GCACHE_TYPES: [&[u8]; 3] = [b"StorageDump", b"ShardDump", b"KeyExpiration"];
/// Bytes at the beginning in which they are.
pub(crate) const GCACHE_BEGIN: usize = 512;

/// Whether a file that begins like this is a dump of GCache.
pub(crate) fn is_gcache_dump(begin: &[u8]) -> bool {
    let begin = &begin[..begin.len().min(GCACHE_BEGIN)];
    GCACHE_TYPES.iter().all(|name| begin.windows(name.len()).any(|found| found == *name))
}
