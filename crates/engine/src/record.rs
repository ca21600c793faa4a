//! How an entry lies in the log.
//!
//! ```text
//!  meta 4 | version 4 | expiry 6 (if any) | word 4 (if any) | key | value | attributes (if any)        small entries
//!  meta 4 | version 4 | expiry 6 (if any) | word 4 (if any) | slot 4                                   large ones
//!
//!  meta:  bits 0-2 policy state · 3 expiry · 4 word · 5 large · 6 absent · 7 dead · 8-17 key length
//!         18-31 length of attributes and value
//!  word:  what attributes there are (`attributes`); absent and with a word: hidden, and the word is its kind (`derived`)
//! ```
//!
//! The attributes come last: most reads look at key and value alone, and wait for as few cache
//! lines as those of a record without. Integers are little-endian; nothing is padded. The expiry is
//! in milliseconds since the Unix epoch, up to the year 6429. Its highest bit says that it is the
//! end of the entry's freshness (`staleness`): the entry is kept longer.

use crate::{attributes, time::Millis};

const EXPIRY: u32 = 1 << 3;
const WORD: u32 = 1 << 4;
const LARGE: u32 = 1 << 5;
const ABSENT: u32 = 1 << 6;
const DEAD: u32 = 1 << 7;
const KEY_SHIFT: u32 = 8;
const VALUE_SHIFT: u32 = 18;

/// Longest key inside a segment.
pub(crate) const MAX_KEY: usize = (1 << 10) - 1;
/// Longest value inside a segment, attributes included.
pub(crate) const MAX_VALUE: usize = (1 << 14) - 1;
/// Latest expiry that an entry can have, in the year 6429. A copy that is given a later one gets
/// this: it is fetched again then. Callers refuse a later lifetime of an entry that is no copy.
pub const MAX_EXPIRY: Millis = (1 << 47) - 1;
/// Of the expiry's 48 bits: it is the end of freshness.
const SOFT: Millis = 1 << 47;

pub(crate) const FIXED: usize = 8;
const EXPIRY_BYTES: usize = 6;
const WORD_BYTES: usize = 4;
/// Bytes of a large entry's slot number.
const LARGE_SLOT: usize = 4;

/// A record's first four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta(u32);

impl Meta {
    pub(crate) fn read(record: &[u8]) -> Meta {
        Meta(u32_at(record, 0))
    }

    pub(crate) fn write(self, record: &mut [u8]) {
        record[..4].copy_from_slice(&self.0.to_le_bytes());
    }

    pub(crate) fn policy(self) -> u8 {
        (self.0 & 7) as u8
    }

    pub(crate) fn with_policy(self, state: u8) -> Meta {
        Meta(self.0 & !7 | u32::from(state & 7))
    }

    pub(crate) fn has_expiry(self) -> bool {
        self.0 & EXPIRY != 0
    }

    pub(crate) fn is_large(self) -> bool {
        self.0 & LARGE != 0
    }

    pub(crate) fn is_absent(self) -> bool {
        self.0 & ABSENT != 0
    }

    /// No entry as callers see them, nor a remembered absence: see [`crate::derived`].
    pub(crate) fn is_hidden(self) -> bool {
        self.0 & (ABSENT | WORD) == ABSENT | WORD
    }

    #[inline]
    pub(crate) fn has_attributes(self) -> bool {
        self.0 & (ABSENT | WORD) == WORD
    }

    /// It may have an end or tags, so more than the meta word says whether it may be served.
    #[inline]
    pub(crate) fn may_be_over(self) -> bool {
        self.0 & (EXPIRY | WORD) != 0
    }

    pub(crate) fn is_dead(self) -> bool {
        self.0 & DEAD != 0
    }

    pub(crate) fn dead(self) -> Meta {
        Meta(self.0 | DEAD)
    }

    fn key_len(self) -> usize {
        (self.0 >> KEY_SHIFT) as usize & MAX_KEY
    }

    /// Attributes included.
    fn value_len(self) -> usize {
        (self.0 >> VALUE_SHIFT) as usize
    }

    /// Where the key (or the large entry's slot) begins.
    pub(crate) fn body_at(self) -> usize {
        const AT: [u8; 4] = {
            let (expiry, word) = (EXPIRY_BYTES as u8, WORD_BYTES as u8);
            [0, expiry, word, expiry + word]
        };
        FIXED + usize::from(AT[((self.0 / EXPIRY) & 3) as usize])
    }

    /// The record's length.
    pub(crate) fn len(self) -> usize {
        self.body_at() + if self.is_large() { LARGE_SLOT } else { self.key_len() + self.value_len() }
    }
}

/// What a record is made of; [`Parts::append_to`] encodes it, the free functions below read it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) version: u32,
    pub(crate) end: Option<End>,
    /// 0: none.
    pub(crate) word: u32,
    pub(crate) absent: bool,
    pub(crate) policy: u8,
    pub(crate) body: Body<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Body<'a> {
    Small { key: &'a [u8], attributes: &'a [u8], value: &'a [u8] },
    Large { slot: u32 },
}

impl Parts<'_> {
    pub(crate) fn meta(&self) -> Meta {
        let mut meta = u32::from(self.policy & 7);
        if self.end.is_some() {
            meta |= EXPIRY;
        }
        if self.word != 0 {
            meta |= WORD;
        }
        if self.absent {
            meta |= ABSENT;
        }
        match self.body {
            Body::Small { key, attributes, value } => {
                let rest = attributes.len() + value.len();
                debug_assert!(key.len() <= MAX_KEY && rest <= MAX_VALUE);
                meta |= (key.len() as u32) << KEY_SHIFT | (rest as u32) << VALUE_SHIFT;
            }
            Body::Large { .. } => meta |= LARGE,
        }
        Meta(meta)
    }

    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.meta().0.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        if let Some(end) = self.end {
            out.extend_from_slice(&end.bytes());
        }
        if self.word != 0 {
            out.extend_from_slice(&self.word.to_le_bytes());
        }
        match self.body {
            Body::Small { key, attributes, value } => {
                out.extend_from_slice(key);
                out.extend_from_slice(value);
                out.extend_from_slice(attributes);
            }
            Body::Large { slot } => out.extend_from_slice(&slot.to_le_bytes()),
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn version(record: &[u8]) -> u32 {
    u32_at(record, 4)
}

pub(crate) fn set_version(record: &mut [u8], version: u32) {
    record[4..FIXED].copy_from_slice(&version.to_le_bytes());
}

pub(crate) fn expiry(record: &[u8], meta: Meta) -> Option<Millis> {
    meta.has_expiry().then(|| {
        let mut bytes = [0; 8];
        bytes[..EXPIRY_BYTES].copy_from_slice(&record[FIXED..FIXED + EXPIRY_BYTES]);
        Millis::from_le_bytes(bytes) & MAX_EXPIRY
    })
}

/// Whether the record has an expiry that is the end of its freshness.
pub(crate) fn is_soft(record: &[u8], meta: Meta) -> bool {
    meta.has_expiry() && record[FIXED + EXPIRY_BYTES - 1] & 0x80 != 0
}

/// The end of a record, as [`expiry`] and [`is_soft`] read it.
pub(crate) fn end(record: &[u8], meta: Meta) -> Option<End> {
    expiry(record, meta).map(|at| End { at, is_soft: is_soft(record, meta) })
}

/// When an entry expires, or stops being fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The moment.
    pub at: Millis,
    /// The entry stops being fresh, but is kept.
    pub is_soft: bool,
}
impl End {
    fn bytes(self) -> [u8; EXPIRY_BYTES] {
        let word = self.at.min(MAX_EXPIRY) | if self.is_soft { SOFT } else { 0 };
        *word.to_le_bytes().first_chunk().expect("six of eight bytes")
    }
}

/// The record must have room for an expiry.
pub(crate) fn set_end(record: &mut [u8], end: End) {
    record[FIXED..FIXED + EXPIRY_BYTES].copy_from_slice(&end.bytes());
}

/// 0: none.
pub(crate) fn word(record: &[u8], meta: Meta) -> u32 {
    if meta.0 & WORD == 0 { 0 } else { u32_at(record, meta.body_at() - WORD_BYTES) }
}

#[inline]
pub(crate) fn body(record: &[u8], meta: Meta) -> Body<'_> {
    let at = meta.body_at();
    // One test for what is most common.
    if meta.0 & (LARGE | WORD) == 0 {
        let (key, rest) = record[at..].split_at(meta.key_len());
        return Body::Small { key, attributes: &[], value: &rest[..meta.value_len()] };
    }
    if meta.is_large() {
        return Body::Large { slot: u32_at(record, at) };
    }
    let (key, rest) = record[at..].split_at(meta.key_len());
    let rest = &rest[..meta.value_len()];
    if !meta.has_attributes() {
        return Body::Small { key, attributes: &[], value: rest };
    }
    let (value, attributes) = rest.split_at(rest.len() - attributes::length(u32_at(record, at - WORD_BYTES)));
    Body::Small { key, attributes, value }
}

/// Writes a small record of the same shape over another: all but the meta word, which is theirs.
pub(crate) fn overwrite(record: &mut [u8], meta: Meta, parts: &Parts<'_>) {
    set_version(record, parts.version);
    if let Some(end) = parts.end {
        set_end(record, end);
    }
    let body_at = meta.body_at();
    if parts.word != 0 {
        record[body_at - WORD_BYTES..body_at].copy_from_slice(&parts.word.to_le_bytes());
    }
    if let Body::Small { key, attributes, value } = parts.body {
        let value_at = body_at + key.len();
        let at = value_at + value.len();
        record[value_at..at].copy_from_slice(value);
        record[at..at + attributes.len()].copy_from_slice(attributes);
    }
}
