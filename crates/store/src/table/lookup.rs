//! Looking keys up in a table.
use super::{
    chunks::Stop,
    error::TableError,
    format::{BLOCK, MOVED, u32_at},
    frames::{Decoder, StoredFrame},
    index::Hash,
    open::Table,
};
use bytes::Bytes;
use std::{borrow::Cow, ops::Range, sync::Arc};

/// A frame that has more is not decompressed where nothing may take long.
const AT_ONCE: usize = 64 << 10;

/// What can be said of a key without reading the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now<'t> {
    /// It has this value.
    Found(&'t [u8]),
    /// There is no such key.
    Absent,
    /// Nothing: chunks are needed that are not checked yet, or much must be decompressed. Ask
    /// [`Table::get`], on a thread that may wait.
    Unknown,
}

impl Table {
    /// The value of a key. Checks what has not been checked before, which may read the file.
    ///
    /// # Errors
    /// [`TableError::Damaged`]: what is needed for an answer is.
    pub fn get(&self, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>, TableError> {
        let Some(stored) = self.checking(|table| table.find(key))? else { return Ok(None) };
        if let Some(value) = stored.plain() {
            return Ok(Some(Cow::Borrowed(value)));
        }
        let mut decoder = self.decoders.lock().pop().unwrap_or_default();
        let value = self.value(&stored, &mut decoder);
        self.decoders.lock().push(decoder);
        value.map(Some)
    }

    /// Like `get`, as far as it is known without reading the file or decompressing much. Pages that
    /// the system took back since are an exception.
    #[inline]
    pub fn get_now<'t>(&'t self, key: &[u8], decoder: &'t mut Decoder) -> Now<'t> {
        match self.find(key) {
            Ok(Some(stored)) => match (stored.plain(), &self.frames) {
                (Some(value), _) => Now::Found(value),
                (None, Some(frames)) if stored.raw <= AT_ONCE => {
                    decoder.decode(frames, &stored).map_or(Now::Unknown, Now::Found)
                }
                _ => Now::Unknown,
            },
            Ok(None) => Now::Absent,
            Err(_) => Now::Unknown,
        }
    }

    /// A value of this table, or any part of it, by reference; copied if it was decompressed.
    pub fn share(self: &Arc<Self>, value: &[u8]) -> Bytes {
        match self.body.range_of(value) {
            Some(range) => Bytes::from_owner(Shared { table: self.clone(), range }),
            None => Bytes::copy_from_slice(value),
        }
    }

    /// Has the processor fetch what a lookup of the key will look at, so that several wait for
    /// memory together and not one after the other.
    pub fn prefetch(&self, key: &[u8]) {
        let Ok(Some((number, entry))) = self.slot(key) else { return };
        let part = &self.parts[number];
        if let Ok((begin, end)) = self.block(part, entry / BLOCK) {
            self.body.prefetch(begin);
            self.prefetch_entry(part, entry, begin, end);
        }
    }

    /// Looks, and checks what turns out not to have been checked, until there is an answer.
    pub(super) fn checking<'t, T>(&'t self, look: impl Fn(&'t Table) -> Result<T, Stop>) -> Result<T, TableError> {
        loop {
            match look(self) {
                Ok(found) => return Ok(found),
                Err(Stop::Unchecked(range)) => self.body.check(range)?,
                Err(Stop::Damaged(error)) => return Err(error),
            }
        }
    }

    /// A value that was found, with a decoder that reads from no other table.
    pub(super) fn value<'t>(
        &self,
        stored: &StoredFrame<'t>,
        decoder: &mut Decoder,
    ) -> Result<Cow<'t, [u8]>, TableError> {
        match (stored.plain(), &self.frames) {
            (Some(value), _) => Ok(Cow::Borrowed(value)),
            (None, Some(frames)) => decoder.owned(frames, stored),
            (None, None) => Err("a value is beyond its place"),
        }
        .map_err(|what| TableError::damaged("frame", stored.at as u64, what).of(self.path()))
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Result<Option<StoredFrame<'_>>, Stop> {
        let (number, entry) = match self.slot(key)? {
            Some(found) => found,
            None => return Ok(None),
        };
        let (found, stored) = self.entry(&self.parts[number], entry)?;
        Ok((found == key).then_some(stored))
    }

    /// The part and entry that have the key if the table has it.
    #[inline]
    pub(super) fn slot(&self, key: &[u8]) -> Result<Option<(usize, usize)>, Stop> {
        let hash = Hash::of(key, self.header.seed);
        let number = hash.part(self.header.part_bits);
        let part = &self.parts[number];
        if part.entries == 0 {
            return Ok(None);
        }
        let pilot_at = part.begin as usize + hash.bucket(self.header.part_bits, part.buckets);
        let pilot = self.body.bytes(pilot_at..pilot_at + 1)?[0];
        let slot = hash.slot(pilot.into(), part.seed, part.slots);
        let entries = part.entries as usize;
        if slot < entries {
            return Ok(Some((number, slot)));
        }
        let moved_at = part.moved_at() + MOVED * (slot - entries);
        let moved = u32_at(self.body.bytes(moved_at..moved_at + MOVED)?, 0) as usize;
        match moved < entries {
            true => Ok(Some((number, moved))),
            false => Err(self.body.stop("moved slots", moved_at, "a slot is beyond the entries")),
        }
    }
}

/// A part of a table's map, which it keeps open.
struct Shared {
    table: Arc<Table>,
    range: Range<usize>,
}
impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.table.body.given_out(self.range.clone())
    }
}
