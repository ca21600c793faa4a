//! Writes the entries of memory tiers to a file while they are in use.
//!
//! The tiers are walked some entries at a time. Under a shard's lock entries are encoded to a
//! buffer, a large value only by reference; compression, checksums and the file come after the
//! lock. So each entry is written as it was at some moment between begin and end (docs/decisions/
//! 0043-each-entry-at-a-moment-of-its-own.md).
use super::{
    entry::SavedEntry,
    error::SnapshotError,
    format::{GroupTotals, Header, SnapshotCompression},
    write::SnapshotWriter,
};
use crate::{atomic_files, clock};
use bytes::Bytes;
use larder_engine::{Cache, Entry, PolicyState, Value};
use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

/// Bytes of entries that are encoded under one lock, about.
const STEP: u64 = 8 << 10;
/// Entries that are, at least and at most.
const STEP_ENTRIES: std::ops::RangeInclusive<u64> = 4..=32;
/// Bytes after which what was written is synced, so that the last sync finds little to do.
const SYNC: u64 = 32 << 20;

/// How far a save is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SaveProgress {
    /// Entries written.
    pub entries: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// What a save wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// In the order of the groups given.
    pub groups: Vec<GroupTotals>,
    /// Bytes of the file.
    pub bytes: u64,
}

impl Saved {
    /// Entries of all groups.
    pub fn entries(&self) -> u64 {
        self.groups.iter().map(|group| group.entries).sum()
    }
}

/// A group to be saved.
#[derive(Debug, Clone, Copy)]
pub struct SavedGroup<'g> {
    /// Its name.
    pub name: &'g str,
    /// Its memory tier.
    pub cache: &'g Cache,
    /// Also entries that the loss of the source made out of date: a restore asks the source again.
    pub with_stale: bool,
}
impl<'g> From<(&'g str, &'g Cache)> for SavedGroup<'g> {
    fn from((name, cache): (&'g str, &'g Cache)) -> SavedGroup<'g> {
        SavedGroup { name, cache, with_stale: false }
    }
}

/// Writes these groups to a file, which takes the place of the one before when it is whole and
/// synced. That one stays as `kept`, if such a name is given. `step` is called between two steps,
/// with no lock held: it may wait, and an error ends the save. Then, and after any other error, the
/// file is as before.
///
/// # Errors
/// The file cannot be written, or `step`'s own.
pub fn save(
    path: &Path,
    kept: Option<&Path>,
    groups: &[SavedGroup<'_>],
    compression: SnapshotCompression,
    step: &mut dyn FnMut(SaveProgress) -> io::Result<()>,
) -> Result<Saved, SnapshotError> {
    let mut saved = None;
    let write = |file: &mut File| {
        saved = Some(save_to(SyncedFile { file, unsynced: 0 }, groups, compression, step)?);
        Ok(())
    };
    let written = match kept {
        Some(kept) => atomic_files::write_keeping_with(path, kept, write),
        None => atomic_files::write_with(path, write),
    };
    written.map_err(|error| SnapshotError::io(path, error))?;
    Ok(saved.expect("it was written"))
}

/// As [`save`], to anything that takes bytes.
///
/// # Errors
/// What the output says, or `step`'s own.
pub fn save_to(
    out: impl Write,
    groups: &[SavedGroup<'_>],
    compression: SnapshotCompression,
    step: &mut dyn FnMut(SaveProgress) -> io::Result<()>,
) -> io::Result<Saved> {
    let names = groups.iter().map(|group| group.name.to_owned()).collect();
    let header = Header { created: clock::wall(), compression, groups: names };
    let mut writer = SnapshotWriter::new(out, &header)?;
    for (place, group) in groups.iter().enumerate() {
        writer.begin_group(place)?;
        save_group(&mut writer, group, step)?;
    }
    let (_, groups, bytes) = writer.finish()?;
    Ok(Saved { groups, bytes })
}

/// Copied under locks, not written yet.
#[derive(Default)]
struct Staged {
    /// Small entries, encoded.
    bytes: Vec<u8>,
    entries: u32,
    /// Heads of large entries, and their values.
    large: Vec<(Vec<u8>, Bytes)>,
}

fn save_group<W: Write>(
    writer: &mut SnapshotWriter<W>,
    group: &SavedGroup<'_>,
    step: &mut dyn FnMut(SaveProgress) -> io::Result<()>,
) -> io::Result<()> {
    let SavedGroup { cache, with_stale, .. } = *group;
    let stats = cache.stats();
    let each = stats.live_bytes.checked_div(stats.entries).unwrap_or(0).max(1);
    let count = (STEP / each).clamp(*STEP_ENTRIES.start(), *STEP_ENTRIES.end()) as usize;
    let mut staged = Staged::default();
    let mut cursor = 0;
    loop {
        let mut stage = |entry: Entry<'_>, policy: PolicyState| {
            let saved = SavedEntry::of(&entry, policy);
            if let Value::Large(value) = entry.value {
                let mut head = Vec::new();
                saved.encode_head(&mut head);
                staged.large.push((head, value.share()));
            } else {
                saved.encode(&mut staged.bytes);
                staged.entries += 1;
            }
        };
        let (mut tier, now) = (cache.tier(), clock::now());
        cursor = match with_stale {
            true => tier.export_held(cursor, count, now, &mut stage),
            false => tier.export(cursor, count, now, &mut stage),
        };
        drop(tier);
        if staged.entries > 0 {
            writer.push_encoded(&staged.bytes, b"", staged.entries)?;
            staged.bytes.clear();
            staged.entries = 0;
        }
        for (head, value) in staged.large.drain(..) {
            writer.push_encoded(&head, &value, 1)?;
        }
        let entries = writer.totals().iter().map(|group| group.entries).sum();
        step(SaveProgress { entries, bytes: writer.written() })?;
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// Syncs now and then.
struct SyncedFile<'f> {
    file: &'f mut File,
    unsynced: u64,
}
impl Write for SyncedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written as u64;
        if self.unsynced >= SYNC {
            self.unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
