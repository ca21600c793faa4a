//! How an entry lies in the log.
//!
//! ```text
//!  meta 3 or 4 | version 4 | expiry 6 (if any) | word 4 (if any) | key | value | attributes (if any)   small entries
//!  meta 3      | version 4 | expiry 6 (if any) | word 4 (if any) | slot 4                              large ones
//!
//!  meta:  bits 0-2 policy state · 3 expiry · 4 word · 5 wide · 6 absent · 7 dead
//!         not wide: 8-15 key length (0: a large entry) · 16-23 length of attributes and value
//!         wide:     8-17 key length                    · 18-31 length of attributes and value
//!  word:  what attributes there are (`attributes`); absent and with a word: hidden, and the word is its kind (`derived`)
//! ```
//!
//! Most entries have lengths of one byte each, so they need no fourth byte. An entry with an empty
//! key is large, whatever its size.
//!
//! The attributes come last: most reads look at key and value alone, and wait for as few cache
//! lines as those of a record without. Integers are little-endian; nothing is padded. The expiry is
//! in milliseconds since the Unix epoch, up to the year 6429. Its highest bit says that it is the
//! end of the entry's freshness (`staleness`): the entry is kept longer.

use crate::{attributes, time::Millis};

const EXPIRY: u32 = 1 << 3;
const WORD: u32 = 1 << 4;
const WIDE: u32 = 1 << WIDE_SHIFT;
const WIDE_SHIFT: u32 = 5;
const ABSENT: u32 = 1 << 6;
const DEAD: u32 = 1 << 7;
const KEY_SHIFT: u32 = 8;
const VALUE_SHIFT: u32 = 16;
/// Longest key and longest value, attributes included, of a record that is not wide.
const NARROW: usize = u8::MAX as usize;
/// Bits that lengths have in a wide record beyond those in another: of keys, and of values.
const WIDER: (u32, u32) = (2, 6);
/// All bits of a key's length in a record that is not wide.
const NARROW_KEY: u32 = (NARROW as u32) << KEY_SHIFT;

/// Longest key inside a segment.
pub(crate) const MAX_KEY: usize = (1 << (8 + WIDER.0)) - 1;
/// Longest value inside a segment, attributes included.
pub(crate) const MAX_VALUE: usize = (1 << (8 + WIDER.1)) - 1;
/// Latest expiry that can be stored; later ones are brought down to it.
pub(crate) const MAX_EXPIRY: Millis = (1 << 47) - 1;
/// Of the expiry's 48 bits: it is the end of freshness.
const SOFT: Millis = 1 << 47;

/// Bytes of meta and version in a record that is not wide; a wide one has one more.
pub(crate) const FIXED: usize = META_BYTES + VERSION_BYTES;
const META_BYTES: usize = 3;
const VERSION_BYTES: usize = 4;
const EXPIRY_BYTES: usize = 6;
const WORD_BYTES: usize = 4;
/// Bytes of a large entry's slot number.
const LARGE_SLOT: usize = 4;

/// A record's first three bytes, or four if it is wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta(u32);

impl Meta {
    #[inline]
    pub(crate) fn read(record: &[u8]) -> Meta {
        // Every record has four bytes. The fourth may belong to its version.
        let bytes = u32_at(record, 0);
        let is_wide = bytes >> WIDE_SHIFT & 1;
        Meta(bytes & (u32::MAX >> 8 | 0u32.wrapping_sub(is_wide)))
    }

    /// Writes what may change while the lengths stay: policy state and whether it is dead.
    pub(crate) fn write(self, record: &mut [u8]) {
        record[0] = self.0 as u8;
    }

    /// 1 if the record is wide.
    fn wide(self) -> u32 {
        self.0 >> WIDE_SHIFT & 1
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
        self.0 & (WIDE | NARROW_KEY) == 0
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

    /// It may have an end or tags, so more than the meta says whether it may be served.
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

    #[inline]
    fn key_len(self) -> usize {
        let bits = 8 + WIDER.0 * self.wide();
        (self.0 >> KEY_SHIFT & !(u32::MAX << bits)) as usize
    }

    /// Attributes included.
    #[inline]
    fn value_len(self) -> usize {
        (self.0 >> (VALUE_SHIFT + WIDER.0 * self.wide())) as usize
    }

    /// Where the version begins.
    fn version_at(self) -> usize {
        META_BYTES + self.wide() as usize
    }

    /// Where the key (or the large entry's slot) begins.
    #[inline]
    pub(crate) fn body_at(self) -> usize {
        // By the three bits of expiry, word and wide.
        const AT: [u8; 8] = {
            let (fixed, expiry, word) = (FIXED as u8, EXPIRY_BYTES as u8, WORD_BYTES as u8);
            let narrow = [fixed, fixed + expiry, fixed + word, fixed + expiry + word];
            [narrow[0], narrow[1], narrow[2], narrow[3], narrow[0] + 1, narrow[1] + 1, narrow[2] + 1, narrow[3] + 1]
        };
        usize::from(AT[((self.0 / EXPIRY) & 7) as usize])
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
                debug_assert!(is_small(key.len(), rest));
                let is_wide = key.len() > NARROW || rest > NARROW;
                let value_shift = VALUE_SHIFT + if is_wide { WIDER.0 } else { 0 };
                meta |= (key.len() as u32) << KEY_SHIFT | (rest as u32) << value_shift;
                meta |= u32::from(is_wide) << WIDE_SHIFT;
            }
            Body::Large { .. } => {}
        }
        Meta(meta)
    }

    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        let meta = self.meta();
        let fixed = u64::from(meta.0) | u64::from(self.version) << (8 * meta.version_at());
        out.extend_from_slice(&fixed.to_le_bytes()[..FIXED + meta.wide() as usize]);
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

/// Whether an entry with key and value (attributes included) of these lengths can lie in a segment.
pub(crate) fn is_small(key: usize, value: usize) -> bool {
    (1..=MAX_KEY).contains(&key) && value <= MAX_VALUE
}

pub(crate) fn version(record: &[u8]) -> u32 {
    u32_at(record, Meta::read(record).version_at())
}

pub(crate) fn set_version(record: &mut [u8], version: u32) {
    let at = Meta::read(record).version_at();
    record[at..at + VERSION_BYTES].copy_from_slice(&version.to_le_bytes());
}

/// Where the expiry begins, if there is one.
fn expiry_at(meta: Meta) -> usize {
    meta.version_at() + VERSION_BYTES
}

pub(crate) fn expiry(record: &[u8], meta: Meta) -> Option<Millis> {
    meta.has_expiry().then(|| {
        let mut bytes = [0; 8];
        let at = expiry_at(meta);
        bytes[..EXPIRY_BYTES].copy_from_slice(&record[at..at + EXPIRY_BYTES]);
        Millis::from_le_bytes(bytes) & MAX_EXPIRY
    })
}

/// Whether the record has an expiry that is the end of its freshness.
pub(crate) fn is_soft(record: &[u8], meta: Meta) -> bool {
    meta.has_expiry() && record[expiry_at(meta) + EXPIRY_BYTES - 1] & 0x80 != 0
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
    let at = expiry_at(Meta::read(record));
    record[at..at + EXPIRY_BYTES].copy_from_slice(&end.bytes());
}

/// 0: none.
pub(crate) fn word(record: &[u8], meta: Meta) -> u32 {
    if meta.0 & WORD == 0 { 0 } else { u32_at(record, meta.body_at() - WORD_BYTES) }
}

#[inline]
pub(crate) fn body(record: &[u8], meta: Meta) -> Body<'_> {
    let at = meta.body_at();
    // One test for what is most common.
    if meta.0 & WORD == 0 && !meta.is_large() {
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

/// Writes a small record of the same shape over another: all but the meta, which is theirs.
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

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [usize; 6] = [1, 2, 255, 256, 512, MAX_KEY];
    const VALUES: [usize; 7] = [0, 1, 251, 252, 255, 256, MAX_VALUE - 4];

    /// A record at the start of a segment, and another byte after it.
    fn written(parts: &Parts<'_>) -> Vec<u8> {
        let mut record = Vec::new();
        parts.append_to(&mut record);
        assert_eq!(record.len(), parts.meta().len());
        record.push(0xff);
        record
    }

    #[test]
    fn records_of_all_lengths_are_read_as_they_were_written() {
        let (key, value) = (vec![b'k'; MAX_KEY], vec![b'v'; MAX_VALUE]);
        let ends = [None, Some(End { at: 1_800_000_000_000, is_soft: true })];
        // A word of one tag.
        for (key_len, value_len, end, word) in KEYS.into_iter().flat_map(|k| {
            VALUES.into_iter().flat_map(move |v| ends.into_iter().flat_map(move |e| [0, 1].map(|word| (k, v, e, word))))
        }) {
            let attributes: &[u8] = if word == 0 { &[] } else { &[1, 2, 3, 4] };
            let word = if word == 0 { 0 } else { one_tag() };
            let body = Body::Small { key: &key[..key_len], attributes, value: &value[..value_len] };
            let parts = Parts { version: 0xfedc_ba98, end, word, absent: false, policy: 5, body };
            let mut record = written(&parts);
            let meta = Meta::read(&record);
            assert_eq!(meta, parts.meta());
            let is_wide = key_len > 255 || value_len + attributes.len() > 255;
            let optional = end.map_or(0, |_| EXPIRY_BYTES) + if word == 0 { 0 } else { WORD_BYTES };
            assert_eq!(meta.body_at(), 7 + usize::from(is_wide) + optional);
            assert!(!meta.is_large() && !meta.is_absent() && !meta.is_dead() && meta.policy() == 5);
            let check = |record: &[u8], version: u32, expected: Option<End>| {
                let meta = Meta::read(record);
                assert_eq!(
                    (self::version(record), super::end(record, meta), self::word(record, meta)),
                    (version, expected, word)
                );
                let Body::Small { key: k, attributes: a, value: v } = super::body(record, meta) else {
                    panic!("small")
                };
                assert_eq!((k.len(), a, v.len()), (key_len, attributes, value_len));
                assert!(k.iter().all(|b| *b == b'k') && v.iter().all(|b| *b == b'v'));
            };
            check(&record, 0xfedc_ba98, end);
            set_version(&mut record, 7);
            meta.dead().with_policy(2).write(&mut record);
            let later = end.map(|end| End { at: end.at + 1, is_soft: false });
            if let Some(later) = later {
                set_end(&mut record, later);
            }
            check(&record, 7, later);
            assert!(Meta::read(&record).is_dead() && Meta::read(&record).policy() == 2);
        }
    }

    fn one_tag() -> u32 {
        let mut tags = crate::tag_table::TagTable::default();
        let mut buffer = Vec::new();
        let tagged = crate::Attributes { tags: &[b"t"], ..crate::Attributes::NONE };
        attributes::EncodedAttributes::of(tagged, std::iter::empty(), &mut tags, |_| 1, &mut buffer).word
    }

    #[test]
    fn a_large_entry_is_told_by_its_missing_key() {
        for end in [None, Some(End { at: 1, is_soft: false })] {
            let parts =
                Parts { version: 1, end, word: 0, absent: false, policy: 0, body: Body::Large { slot: 0x1234_5678 } };
            let record = written(&parts);
            let meta = Meta::read(&record);
            assert!(meta.is_large());
            assert!(matches!(body(&record, meta), Body::Large { slot: 0x1234_5678 }));
        }
        assert!(!is_small(0, 1) && is_small(1, 0) && is_small(MAX_KEY, MAX_VALUE));
        assert!(!is_small(MAX_KEY + 1, 0) && !is_small(1, MAX_VALUE + 1));
    }
}
