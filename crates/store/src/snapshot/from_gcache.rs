//! Snapshots from dumps of GCache: JSON documents with their ends.
use super::{
    convert::{Conversion, ConvertError, Converted, write_file},
    entry::SavedEntry,
    error::SnapshotError,
    format::Header,
    gcache_dump,
    write::SnapshotWriter,
};
use crate::{
    clock, magic,
    table::{MAX_KEY, MAX_VALUE},
};
use larder_engine::{End, Millis, PolicyState};
use smallvec::SmallVec;
use std::{
    fs::{self, File},
    io::{self, BufWriter, Read as _},
    path::Path,
};

/// How a snapshot keeps a JSON document.
#[derive(Debug, Clone, Copy)]
pub struct DocumentForm {
    /// The text as it is kept; `None`: it is not JSON.
    pub compact: fn(&[u8]) -> Option<Vec<u8>>,
    /// The metadata of its entry.
    pub metadata: &'static [u8],
}

/// Whether a file begins like a dump of GCache.
///
/// # Errors
/// It cannot be read.
pub fn is_gcache_dump(path: &Path) -> Result<bool, SnapshotError> {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(magic::GCACHE_BEGIN as u64).read_to_end(&mut begin));
    read.map_err(|error| SnapshotError::io(path, error))?;
    Ok(magic::is_gcache_dump(&begin))
}

/// Writes the items of a dump to the group of database 0 in a snapshot. What has expired is not
/// written.
///
/// # Errors
/// A file cannot be read or written, is damaged, or has what would be left out. Then `to` is as
/// before.
pub fn from_gcache(
    from: &Path,
    to: &Path,
    conversion: &Conversion<'_>,
    form: &DocumentForm,
) -> Result<Converted, ConvertError> {
    let dump = fs::read(from).map_err(|error| SnapshotError::io(from, error))?;
    // All of it is read before anything is written.
    gcache_dump::visit_items(&dump, &mut |_| ()).map_err(|at| ConvertError::Dump { path: from.into(), at })?;
    let group = conversion.groups.iter().find(|(database, _)| *database == 0).map(|(_, group)| group.clone());
    let groups = vec![group.unwrap_or_else(|| "default".to_owned())];
    let header = Header { created: clock::wall(), compression: conversion.compression, groups };
    write_file(to, conversion, |file| {
        let mut writer = SnapshotWriter::new(BufWriter::new(file), &header)?;
        let mut converted = Converted::default();
        let now = clock::now();
        writer.begin_group(0)?;
        let mut written = Ok(());
        let mut write = |(key, value, end): gcache_dump::DumpItem<'_>| {
            // Nanoseconds in 64 bits end in the year 2262.
            let end = end.map(|end| (end / 1_000_000).max(0) as Millis);
            if end.is_some_and(|at| at <= now) {
                converted.expired += 1;
                return Ok(());
            }
            let has_usual_length = !key.is_empty() && key.len() <= MAX_KEY && value.len() <= MAX_VALUE;
            let value = match has_usual_length.then(|| (form.compact)(value)).flatten() {
                _ if !has_usual_length => {
                    converted.leave_out("of a length that Larder does not take".to_owned());
                    return Ok(());
                }
                None => {
                    converted.leave_out("whose value is not JSON".to_owned());
                    return Ok(());
                }
                Some(value) => value,
            };
            let end = end.map(|at| End { at, is_soft: false });
            let (value, metadata, policy) = (&value[..], form.metadata, PolicyState::default());
            writer.push(&SavedEntry { key, value, end, metadata, tags: SmallVec::new(), policy })?;
            converted.entries += 1;
            io::Result::Ok(())
        };
        let _ = gcache_dump::visit_items(&dump, &mut |item| {
            if written.is_ok() {
                written = write(item);
            }
        });
        written?;
        writer.finish()?;
        Ok(converted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Scrutiny, SnapshotCompression, SnapshotReader};

    #[test]
    fn items_become_documents_that_end_when_they_did() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("cache.dump"), dir.path().join("snapshot"));
        fs::write(&from, gcache_dump::tests::DUMP).expect("a file");
        assert!(is_gcache_dump(&from).expect("a file"));
        let groups = [(0, "data".to_owned())];
        let compression = SnapshotCompression::None;
        let conversion = Conversion { groups: &groups, skips_others: false, compression, is_document: |_| false };
        let compact = |text: &[u8]| Some(text.iter().filter(|byte| **byte != b' ').copied().collect());
        let form = DocumentForm { compact, metadata: b"document" };
        let converted = from_gcache(&from, &to, &conversion, &form).expect("a dump");
        assert_eq!((converted.entries, converted.expired), (1, 1));
        let mut reader = SnapshotReader::open(&to).expect("a snapshot");
        assert_eq!(reader.header().groups, ["data"]);
        let block = reader.next_block(Scrutiny::Entries).expect("it is sound").expect("a block");
        let entries: Vec<_> = block.entries().collect();
        let end = Some(End { at: 4_102_444_800_000, is_soft: false });
        assert_eq!((entries[0].key, entries[0].value, entries[0].end), (&b"a"[..], &b"{\"n\":[1,2]}"[..], end));
        assert_eq!((entries.len(), entries[0].metadata), (1, &b"document"[..]));
        // What is not JSON is left out only if that is wanted, and a damaged dump makes no snapshot.
        let form = DocumentForm { compact: |_| None, ..form };
        assert!(matches!(from_gcache(&from, &to, &conversion, &form), Err(ConvertError::LeftOut(_))));
        fs::write(&from, &gcache_dump::tests::DUMP[..200]).expect("a file");
        let error = from_gcache(&from, &to, &conversion, &form).expect_err("it is cut off").to_string();
        assert!(error.contains("cache.dump: byte ") && error.ends_with("is not what GCache writes"), "{error}");
    }
}
