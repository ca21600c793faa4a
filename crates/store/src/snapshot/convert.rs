//! Snapshots from and to RDB files of Redis: strings with their ends. A database of Redis is a
//! group of Larder.
use super::{
    entry::SavedEntry,
    error::SnapshotError,
    format::{Header, SnapshotCompression},
    read::{Scrutiny, SnapshotReader},
    write::SnapshotWriter,
};
use crate::{
    atomic_files, clock,
    magic::RDB,
    rdb::{RdbError, RdbItem, RdbReader, RdbWriter},
    table::{MAX_KEY, MAX_VALUE},
};
use larder_engine::{End, MAX_EXPIRY, Millis, PolicyState};
use smallvec::SmallVec;
use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io::{self, BufWriter, Read as _, Write as _},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_128;

/// What is converted.
#[derive(Debug, Clone, Copy)]
pub struct Conversion<'c> {
    /// Databases and their groups, one to one.
    pub groups: &'c [(u64, String)],
    /// Writes a file also if keys are left out.
    pub skips_others: bool,
    /// Of a snapshot that is written.
    pub compression: SnapshotCompression,
    /// Of a snapshot that is read: whether its entry is a document, by its metadata.
    pub is_document: fn(&[u8]) -> bool,
}

/// What a conversion did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Converted {
    /// Entries written.
    pub entries: u64,
    /// Entries that had expired.
    pub expired: u64,
    /// Keys that were left out, by the reason: `of type list`.
    pub left_out: BTreeMap<String, u64>,
    /// Entries that were written without something that an RDB file has no place for, by what it
    /// is: `tags`.
    pub reduced: BTreeMap<&'static str, u64>,
    /// Of an RDB file that was read: whether it had a checksum.
    pub had_sum: bool,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The snapshot cannot be read, or one of the files not be read or written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The RDB file cannot be read.
    #[error("{}: {error}", path.display())]
    Rdb {
        /// Which.
        path: PathBuf,
        /// Why.
        error: RdbError,
    },
    /// The dump of GCache cannot be read.
    #[error("{}: byte {at}: is not what GCache writes", path.display())]
    Dump {
        /// Which.
        path: PathBuf,
        /// Where.
        at: usize,
    },
    /// A snapshot has no group of this name.
    #[error("{}: has no group `{group}`", path.display())]
    NoGroup {
        /// The snapshot.
        path: PathBuf,
        /// The group.
        group: String,
    },
    /// Keys would be left out.
    #[error("keys would be left out")]
    LeftOut(Converted),
}

/// Whether a file begins like one of Redis's.
///
/// # Errors
/// It cannot be read.
pub fn is_rdb(path: &Path) -> Result<bool, SnapshotError> {
    let mut begin = Vec::new();
    let file = File::open(path).map_err(|error| SnapshotError::io(path, error))?;
    file.take(RDB.len() as u64).read_to_end(&mut begin).map_err(|error| SnapshotError::io(path, error))?;
    Ok(begin == RDB)
}

/// Writes the strings of an RDB file to a snapshot. What has expired is not written.
///
/// # Errors
/// A file cannot be read or written, is damaged, or has what would be left out. Then `to` is as
/// before.
pub fn from_rdb(from: &Path, to: &Path, conversion: &Conversion<'_>) -> Result<Converted, ConvertError> {
    let of_rdb = |error| ConvertError::Rdb { path: from.into(), error };
    let input = File::open(from).map_err(|error| SnapshotError::io(from, error))?;
    let mut reader = RdbReader::new(input, MAX_KEY, MAX_VALUE).map_err(of_rdb)?;
    let groups = conversion.groups.iter().map(|(_, group)| group.clone()).collect();
    let header = Header { created: clock::wall(), compression: conversion.compression, groups };
    write_file(to, conversion, |file| {
        let mut writer = SnapshotWriter::new(BufWriter::new(file), &header)?;
        let mut converted = Converted::default();
        let mut current = None;
        let now = clock::now() as i64;
        while let Some(item) = reader.next().map_err(of_rdb).map_err(io::Error::other)? {
            let (RdbItem::String { database, .. } | RdbItem::Other { database, .. }) = item;
            let Some(place) = conversion.groups.iter().position(|(of, _)| *of == database) else {
                converted.leave_out(format!("in database {database}"));
                continue;
            };
            let (key, value, expiry) = match item {
                RdbItem::String { key, value, expiry, .. } => (key, value, expiry),
                RdbItem::Other { kind, .. } => {
                    converted.leave_out(format!("of type {kind}"));
                    continue;
                }
            };
            if expiry.is_some_and(|at| at <= now) {
                converted.expired += 1;
                continue;
            }
            if expiry.is_some_and(|at| at > MAX_EXPIRY as i64) {
                converted.leave_out("with an expiry after the year 6429".to_owned());
                continue;
            }
            if current.replace(place) != Some(place) {
                writer.begin_group(place)?;
            }
            let end = expiry.map(|at| End { at: at as Millis, is_soft: false });
            let policy = PolicyState::default();
            writer.push(&SavedEntry { key, value, end, metadata: b"", tags: SmallVec::new(), policy })?;
            converted.entries += 1;
        }
        converted.had_sum = reader.has_sum();
        writer.finish()?;
        Ok(converted)
    })
}

/// Writes the entries of a snapshot to an RDB file. What has expired is not written, and of an
/// entry that the snapshot has twice, one.
///
/// # Errors
/// As [`from_rdb`].
pub fn to_rdb(from: &Path, to: &Path, conversion: &Conversion<'_>) -> Result<Converted, ConvertError> {
    let mut reader = SnapshotReader::open(from)?;
    let names = reader.header().groups.clone();
    if let Some((_, group)) = conversion.groups.iter().find(|(_, group)| !names.contains(group)) {
        return Err(ConvertError::NoGroup { path: from.into(), group: group.clone() });
    }
    write_file(to, conversion, |file| {
        let mut writer = RdbWriter::new(BufWriter::new(file))?;
        let mut converted = Converted::default();
        let mut written = HashSet::new();
        let now = clock::now();
        let of_snapshot = |error: SnapshotError| io::Error::other(ConvertError::from(error.of_file(from)));
        while let Some(block) = reader.next_block(Scrutiny::Entries).map_err(of_snapshot)? {
            let name = &names[block.group];
            let Some((database, _)) = conversion.groups.iter().find(|(_, group)| group == name) else {
                *converted.left_out.entry(format!("in group {name}")).or_default() += u64::from(block.entries);
                continue;
            };
            for entry in block.entries() {
                if entry.end.is_some_and(|end| end.at <= now) {
                    converted.expired += 1;
                } else if written.insert((*database, xxh3_128(entry.key))) {
                    converted.note_what_is_lost(&entry, conversion.is_document);
                    writer.push(*database, entry.key, entry.value, entry.end.map(|end| end.at))?;
                    converted.entries += 1;
                }
            }
        }
        writer.finish()?.flush()?;
        Ok(converted)
    })
}

impl Converted {
    pub(super) fn leave_out(&mut self, reason: String) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    fn note_what_is_lost(&mut self, entry: &SavedEntry<'_>, is_document: fn(&[u8]) -> bool) {
        let is_document = is_document(entry.metadata);
        for (is_lost, what) in [
            (is_document, "the type of a document"),
            (!is_document && !entry.metadata.is_empty(), "content type and validators"),
            (!entry.tags.is_empty(), "tags"),
            (entry.end.is_some_and(|end| end.is_soft), "the time that it may be served stale"),
        ] {
            if is_lost {
                *self.reduced.entry(what).or_default() += 1;
            }
        }
    }
}

/// Writes `to`, or leaves it as it is if that fails or if there are keys that must not be left out.
pub(super) fn write_file(
    to: &Path,
    conversion: &Conversion<'_>,
    write: impl FnOnce(&mut File) -> io::Result<Converted>,
) -> Result<Converted, ConvertError> {
    let mut result = None;
    let written = atomic_files::write_with(to, |file| {
        let converted = write(file)?;
        if !converted.left_out.is_empty() && !conversion.skips_others {
            return Err(io::Error::other(ConvertError::LeftOut(converted)));
        }
        result = Some(converted);
        Ok(())
    });
    match written {
        Ok(()) => Ok(result.expect("it was written")),
        Err(error) => Err(error.downcast().unwrap_or_else(|error| SnapshotError::io(to, error).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot may have an entry as it was before and after a write; Redis refuses a file that
    /// has a key twice.
    #[test]
    fn an_entry_that_is_there_twice_is_written_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("snapshot"), dir.path().join("dump.rdb"));
        let groups = ["default".to_owned(), "other".to_owned()];
        let header = Header { created: 1, compression: SnapshotCompression::None, groups: groups.to_vec() };
        let mut writer = SnapshotWriter::new(File::create(&from).expect("a file"), &header).expect("a header");
        for (group, value) in [(0, b"before"), (1, b"other!"), (0, b"after!")] {
            writer.begin_group(group).expect("a group");
            let policy = PolicyState::default();
            let (key, metadata) = (b"key", b"");
            let entry = SavedEntry { key, value, end: None, metadata, tags: SmallVec::new(), policy };
            writer.push(&entry).expect("an entry");
        }
        writer.finish().expect("a file");
        let groups = [(0, groups[0].clone()), (7, groups[1].clone())];
        let compression = SnapshotCompression::None;
        let conversion = Conversion { groups: &groups, skips_others: false, compression, is_document: |_| false };
        assert_eq!(to_rdb(&from, &to, &conversion).expect("it is sound").entries, 2);
        let mut reader = RdbReader::new(File::open(&to).expect("a file"), MAX_KEY, MAX_VALUE).expect("a header");
        let mut found = Vec::new();
        while let Some(item) = reader.next().expect("it is sound") {
            let RdbItem::String { database, value, .. } = item else { panic!("{item:?}") };
            found.push((database, value.to_vec()));
        }
        assert_eq!(found, [(0, b"before".to_vec()), (7, b"other!".to_vec())]);
    }
}
