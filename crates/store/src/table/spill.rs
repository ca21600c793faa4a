//! Records on their way into a table, apart by their hashes: in memory as long as they fit, then in
//! a file.
use super::{error::TableError, index::Hash};
use crate::atomic_files::Temporary;
use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    ops::Range,
    os::unix::fs::FileExt as _,
    path::Path,
};

/// Binary logarithm of the number of partitions.
pub(super) const PARTITION_BITS: u32 = 10;
/// Length that stands for the removal of a key.
const REMOVAL: u32 = u32::MAX;

/// A change to the table that is being made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    /// The line of the input; 0: of the table that it is based on.
    pub(super) line: u64,
    pub(super) key: &'a [u8],
    /// `None`: the key is removed.
    pub(super) value: Option<&'a [u8]>,
}

/// Bytes before a record's key.
const HEAD: usize = 16;

impl Record<'_> {
    /// The record at a place, and where the next is.
    pub(super) fn read(bytes: &[u8], at: usize) -> (Record<'_>, usize) {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let line = u64::from(number(at)) | u64::from(number(at + 4)) << 32;
        let (key_len, len) = (number(at + 8) as usize, number(at + 12));
        let key_at = at + HEAD;
        let value_at = key_at + key_len;
        let end = value_at + if len == REMOVAL { 0 } else { len as usize };
        let value = (len != REMOVAL).then(|| &bytes[value_at..end]);
        (Record { line, key: &bytes[key_at..value_at], value }, end)
    }

    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.line.to_le_bytes());
        to.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        to.extend_from_slice(&self.value.map_or(REMOVAL, |value| value.len() as u32).to_le_bytes());
        to.extend_from_slice(self.key);
        to.extend_from_slice(self.value.unwrap_or_default());
    }
}

#[derive(Debug, Default)]
struct Partition {
    /// What came last.
    buffer: Vec<u8>,
    /// Where what came before is in the file, in order.
    spilled: Vec<Range<u64>>,
}

/// Records by the first bits of their hashes, in each partition in the order in which they came.
pub(super) struct Spill<'p> {
    partitions: Vec<Partition>,
    /// Bytes of the buffers.
    used: usize,
    budget: usize,
    /// The table that is being made: the file lies beside it.
    beside: &'p Path,
    file: Option<(File, Temporary)>,
    written: u64,
    records: u64,
}

impl<'p> Spill<'p> {
    pub(super) fn new(budget: usize, beside: &'p Path) -> Spill<'p> {
        let partitions = (0..1 << PARTITION_BITS).map(|_| Partition::default()).collect();
        Spill { partitions, used: 0, budget, beside, file: None, written: 0, records: 0 }
    }
    pub(super) fn records(&self) -> u64 {
        self.records
    }
    /// Bytes that went to the file.
    pub(super) fn spilled(&self) -> u64 {
        self.written
    }

    pub(super) fn push(&mut self, hash: Hash, record: Record<'_>) -> Result<(), TableError> {
        let buffer = &mut self.partitions[hash.part(PARTITION_BITS)].buffer;
        let before = buffer.capacity();
        record.write(buffer);
        self.used += buffer.capacity() - before;
        self.records += 1;
        if self.used > self.budget { self.flush() } else { Ok(()) }
    }

    /// The last record has come: what is spilled is spilled whole, so that all of the budget is
    /// free.
    pub(super) fn end(&mut self) -> Result<(), TableError> {
        if self.file.is_some() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), TableError> {
        let (file, temporary) = match &mut self.file {
            Some(file) => file,
            none => {
                let temporary = Temporary::beside(self.beside).map_err(|error| TableError::io(self.beside, error))?;
                let file = OpenOptions::new().read(true).write(true).create_new(true).open(&temporary.0);
                none.insert((file.map_err(|error| TableError::io(&temporary.0, error))?, temporary))
            }
        };
        for partition in &mut self.partitions {
            let buffer = std::mem::take(&mut partition.buffer);
            file.write_all(&buffer).map_err(|error| TableError::io(&temporary.0, error))?;
            let end = self.written + buffer.len() as u64;
            partition.spilled.push(self.written..end);
            self.written = end;
        }
        self.used = 0;
        Ok(())
    }

    /// Takes the records of some partitions out: pieces of whole records, in the order in which
    /// they came to each partition.
    pub(super) fn take(&mut self, partitions: Range<usize>) -> Result<Vec<Vec<u8>>, TableError> {
        let mut pieces = Vec::new();
        for partition in &mut self.partitions[partitions] {
            if let Some((file, temporary)) = &self.file {
                let len: u64 = partition.spilled.iter().map(|range| range.end - range.start).sum();
                let mut piece = vec![0; len as usize];
                let mut at = 0;
                for range in partition.spilled.drain(..) {
                    let len = (range.end - range.start) as usize;
                    let read = file.read_exact_at(&mut piece[at..at + len], range.start);
                    read.map_err(|error| TableError::io(&temporary.0, error))?;
                    at += len;
                }
                pieces.push(piece);
            }
            pieces.push(std::mem::take(&mut partition.buffer));
        }
        Ok(pieces)
    }
}
