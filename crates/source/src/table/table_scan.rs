//! Scans of a table, page by page.
use super::{table_map_reads::stored_value, table_reload::ServedTable};
use crate::local_store::{Page, Scan, is_within};
use bytes::Bytes;
use larder_store::table::{Position, Table, TableError};
use std::{borrow::Cow, ops::Bound};

/// Entries that one page reads.
const PAGE: usize = 10_000;

/// One page of entries, in the order of the file. Its cursor names the table and the position. In
/// another table the scan continues at the start of the part with the same hashes: no key is
/// skipped, some may come twice.
pub(super) fn page(served: &ServedTable, scan: &Scan) -> Result<Page, TableError> {
    let ServedTable { table, generation, .. } = served;
    let end = if scan.reverse { &scan.start } else { &scan.end };
    let begin = if scan.reverse { &scan.end } else { &scan.start };
    let cursor = match begin {
        Bound::Excluded(cursor) => Cursor::read(cursor),
        _ => None,
    };
    let mut entries = table.entries(cursor.map_or(Position::default(), |cursor| cursor.position(table, *generation)));
    // A cursor is not a key, so only the other bound limits the keys.
    let begin = if cursor.is_some() { &Bound::Unbounded } else { begin };
    let (low, high) = if scan.reverse { (end, begin) } else { (begin, end) };
    let mut page = Page::default();
    let mut bytes = 0;
    for _ in 0..PAGE {
        if page.entries.len() >= scan.limit || bytes >= scan.max_bytes {
            break;
        }
        let Some(entry) = entries.next() else { return Ok(page) };
        let (key, value) = entry?;
        if is_within(low, high, key) {
            let value = if scan.keys_only { Cow::default() } else { value };
            bytes += key.len() + value.len();
            page.entries.push((Bytes::copy_from_slice(key), stored_value(table, value)));
        }
    }
    page.next = Some(Cursor::of(table, *generation, entries.position()).write());
    Ok(page)
}

/// The position of a scan, encoded in the place of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    generation: u64,
    seed: u64,
    /// The first hash of the part.
    hash: u64,
    entry: u64,
}
impl Cursor {
    /// Clients do not make up keys that begin like this.
    const MARK: &'static [u8] = b"\0ltab\xff";

    fn of(table: &Table, generation: u64, at: Position) -> Cursor {
        Cursor { generation, seed: table.seed(), hash: table.first_hash(at.part), entry: at.entry as u64 }
    }
    fn write(self) -> Bytes {
        let mut bytes = Cursor::MARK.to_vec();
        for number in [self.generation, self.seed, self.hash, self.entry] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.into()
    }
    fn read(bytes: &[u8]) -> Option<Cursor> {
        let (numbers, []) = bytes.strip_prefix(Cursor::MARK)?.as_chunks::<8>() else { return None };
        let &[generation, seed, hash, entry] = numbers else { return None };
        let [generation, seed, hash, entry] = [generation, seed, hash, entry].map(u64::from_le_bytes);
        Some(Cursor { generation, seed, hash, entry })
    }
    fn position(self, table: &Table, generation: u64) -> Position {
        match (self.generation == generation, self.seed == table.seed()) {
            (true, _) => Position { part: table.part_of(self.hash), entry: self.entry as usize },
            (false, true) => Position { part: table.part_of(self.hash), entry: 0 },
            // The other table orders its hashes differently.
            (false, false) => Position::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cursors_read_back_and_keys_are_none(generation: u64, seed: u64, hash: u64, entry: u64, key: Vec<u8>) {
            let cursor = Cursor { generation, seed, hash, entry };
            prop_assert_eq!(Cursor::read(&cursor.write()), Some(cursor));
            prop_assert_eq!(Cursor::read(&key), None);
        }
    }
}
