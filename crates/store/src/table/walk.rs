//! Walking through a table, and checking that it is one throughout.
use super::{
    error::TableError,
    format::{BLOCK, Part},
    frames::Decoder,
    index::Hash,
    open::Table,
};
use std::borrow::Cow;

/// How far a walk has come: a part, and how many of its entries were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The part.
    pub part: usize,
    /// Its next entry.
    pub entry: usize,
}

impl Table {
    /// Parts that positions count.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The part whose hashes begin as `hash` does.
    pub fn part_of(&self, hash: u64) -> usize {
        Hash { high: hash, low: 0 }.part(self.header.part_bits)
    }
    /// The least hash of a part.
    pub fn first_hash(&self, part: usize) -> u64 {
        // Past the last part there is none; a walk that is there has ended.
        (part as u64).checked_shl(64 - self.header.part_bits).unwrap_or(0)
    }
    /// Where the entry with this number, counted from 0, is.
    pub fn position(&self, number: u64) -> Position {
        let mut left = number;
        for (part, about) in self.parts.iter().enumerate() {
            match left.checked_sub(about.entries.into()) {
                None => return Position { part, entry: left as usize },
                Some(beyond) => left = beyond,
            }
        }
        Position { part: self.parts.len(), entry: 0 }
    }
    /// The seed of the hashes.
    pub fn seed(&self) -> u64 {
        self.header.seed
    }

    /// All entries from a position on, in the order of the file. After an error comes nothing.
    pub fn entries(&self, from: Position) -> Entries<'_> {
        Entries { table: self, at: from, failed: false, decoder: Decoder::default() }
    }

    /// Checks everything: every chunk's checksum, every block's length, every value's, and that
    /// every key is found where it is.
    ///
    /// # Errors
    /// [`TableError::Damaged`] names the first place at fault.
    pub fn verify(&self) -> Result<(), TableError> {
        self.verify_with(&mut |_| {})
    }

    /// The same; `progress` is told how many entries have been checked.
    ///
    /// # Errors
    /// As [`verify`](Table::verify).
    pub fn verify_with(&self, progress: &mut dyn FnMut(u64)) -> Result<(), TableError> {
        self.check_all()?;
        let mut checked = 0;
        let (mut keys, mut values) = (0, 0);
        let mut decoder = Decoder::default();
        for (number, part) in self.parts.iter().enumerate() {
            let damaged =
                |section, at: usize, what: String| Err(TableError::damaged(section, at as u64, what).of(self.path()));
            for block in 0..part.blocks() {
                progress(checked);
                checked += BLOCK.min(part.entries as usize - block * BLOCK) as u64;
                let (places, lengths) = self.checking(|table| table.block_ends(part, block))?;
                if places != lengths {
                    return damaged("block", lengths, format!("block {block} of part {number} ends at byte {places}"));
                }
                for entry in block * BLOCK..(block * BLOCK + BLOCK).min(part.entries as usize) {
                    let (key, stored) = self.checking(|table| table.entry(part, entry))?;
                    let value = self.value(&stored, &mut decoder)?;
                    (keys, values) = (keys + key.len() as u64, values + value.len() as u64);
                    if self.checking(|table| table.slot(key))? != Some((number, entry)) {
                        return damaged(
                            "index",
                            part.begin as usize,
                            format!("the key of entry {entry} of part {number} is not found by it"),
                        );
                    }
                }
            }
        }
        match (keys, values) == self.raw_bytes() {
            true => Ok(()),
            false => Err(TableError::damaged("header", 0, "the sizes of keys and values are not those of the entries")
                .of(self.path())),
        }
    }
}

/// An iterator over entries.
#[derive(Debug)]
pub struct Entries<'t> {
    table: &'t Table,
    at: Position,
    failed: bool,
    decoder: Decoder,
}

impl Entries<'_> {
    /// From where to go on.
    pub fn position(&self) -> Position {
        self.at
    }
    fn part(&mut self) -> Option<Part> {
        loop {
            let part = *self.table.parts.get(self.at.part)?;
            if self.at.entry < part.entries as usize {
                return Some(part);
            }
            self.at = Position { part: self.at.part + 1, entry: 0 };
        }
    }
}

impl<'t> Iterator for Entries<'t> {
    type Item = Result<(&'t [u8], Cow<'t, [u8]>), TableError>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let part = self.part()?;
        let (table, at) = (self.table, self.at.entry);
        let found = table
            .checking(|table| table.entry(&part, at))
            .and_then(|(key, stored)| Ok((key, table.value(&stored, &mut self.decoder)?)));
        self.at.entry += 1;
        self.failed = found.is_err();
        Some(found)
    }
}
