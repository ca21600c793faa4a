//! What a file is that does not begin like a table: often the text that the table should be built
//! from, or another of Larder's files.
use crate::magic::{BACKUP, RDB, SNAPSHOT, TABLE, is_gcache_dump};
use std::path::Path;

/// What a file is instead of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignFile {
    /// It has no bytes.
    Empty,
    /// Text, which a table can be built from.
    Text,
    /// A snapshot of the memory tier.
    Snapshot,
    /// A backup of a disk store.
    Backup,
    /// A dump of Redis.
    Rdb,
    /// A dump of GCache.
    Gcache,
    /// A file of another database.
    Other(&'static str),
    /// Compressed with this program.
    Compressed(&'static str),
    /// Text in UTF-16, as some Windows programs write it.
    Utf16,
    /// A table, where it is not one that is wanted.
    Table,
    /// Anything else.
    Unknown,
}

/// Bytes from which text is told from other files.
const LOOK: usize = 4096;

impl ForeignFile {
    /// By the first bytes of the file.
    pub(super) fn of(bytes: &[u8]) -> ForeignFile {
        let begin = &bytes[..bytes.len().min(LOOK)];
        if begin.is_empty() {
            return ForeignFile::Empty;
        }
        let known = [
            (&SNAPSHOT[..], ForeignFile::Snapshot),
            (BACKUP, ForeignFile::Backup),
            (RDB, ForeignFile::Rdb),
            (b"*2\r\n$6\r\nSELECT\r\n", ForeignFile::Other("an append-only file of Redis")),
            (b"SQLite format 3\0", ForeignFile::Other("a database of SQLite")),
            (b"PGDMP", ForeignFile::Other("an archive of pg_dump")),
            (b"\x1f\x8b", ForeignFile::Compressed("gzip")),
            (b"\x28\xb5\x2f\xfd", ForeignFile::Compressed("zstd")),
            (b"\xfd7zXZ\0", ForeignFile::Compressed("xz")),
            (b"\x04\x22\x4d\x18", ForeignFile::Compressed("lz4")),
            (b"\xff\xfe", ForeignFile::Utf16),
            (b"\xfe\xff", ForeignFile::Utf16),
            (&TABLE, ForeignFile::Table),
        ];
        let found = known.into_iter().find(|(magic, _)| begin.starts_with(magic));
        match found {
            Some((_, file)) => file,
            // Its beginning may look like text.
            None if is_gcache_dump(begin) => ForeignFile::Gcache,
            None if is_text(begin) => ForeignFile::Text,
            None => ForeignFile::Unknown,
        }
    }

    /// What it is, and what to type.
    pub(super) fn advice(self, path: &Path) -> String {
        let file = path.display();
        match self {
            ForeignFile::Empty => "it is empty".to_owned(),
            ForeignFile::Text => {
                format!("it is text; build a table from it with `larder table build {file} -o {file}.ltab`")
            }
            ForeignFile::Snapshot => format!("it is a snapshot; check it with `larder snapshot verify {file}`"),
            ForeignFile::Backup => {
                format!("it is a backup of a disk store; restore it with `larder store restore {file} DIR`")
            }
            ForeignFile::Rdb => {
                format!("it is a dump of Redis; convert it with `larder snapshot convert {file} FILE`")
            }
            ForeignFile::Gcache => {
                format!("it is a dump of GCache; convert it with `larder snapshot convert {file} FILE`")
            }
            ForeignFile::Other(what) => {
                format!("it is {what}, which Larder does not read; export text, CSV or JSON lines")
            }
            ForeignFile::Compressed(program) => {
                format!("it is compressed; decompress it with `{program} -dk {file}` and build a table from that")
            }
            ForeignFile::Utf16 => {
                format!(
                    "it is text in UTF-16; `iconv -f UTF-16 -t UTF-8 {file}` makes UTF-8 of it, of which a table can be built"
                )
            }
            ForeignFile::Table => format!("it is a table; name it FILE.ltab, or say --format table with {file}"),
            ForeignFile::Unknown => "it does not begin like one".to_owned(),
        }
    }

    /// Why entries cannot be read from it line by line, and what to type; `None`: they can.
    pub(super) fn is_no_input(self, path: &Path) -> Option<String> {
        match self {
            ForeignFile::Empty | ForeignFile::Text | ForeignFile::Unknown => None,
            other => Some(other.advice(path)),
        }
    }
}

/// Whether these first bytes of a file are text: no control characters except for those of lines, and
/// UTF-8, of which the last character may be cut off.
fn is_text(begin: &[u8]) -> bool {
    let is_utf8 = std::str::from_utf8(begin).map_or_else(|error| error.error_len().is_none(), |_| true);
    is_utf8 && !begin.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
}
