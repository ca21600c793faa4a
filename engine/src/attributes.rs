//! What an entry carries besides key and value: tags, and metadata of the caller's.
//!
//! ```text
//!   word:  bits 0-23 length of the attributes · 24-31 number of tags        in the record's head (`record`)
//!   attributes:  tag id 4, as often as there are tags | metadata            between key and value
//! ```

use crate::entry::Entry;

const ID: usize = 4;
const COUNT_SHIFT: u32 = 24;
const LENGTH: u32 = (1 << COUNT_SHIFT) - 1;

/// What an entry is to carry besides key and value. An entry without takes no room for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// Names that the entry can be cleared by, together with others.
    pub tags: &'a [&'a [u8]],
    /// Bytes that the engine keeps and does not look at.
    pub metadata: &'a [u8],
}

impl Attributes<'_> {
    /// Longest attributes: four bytes for each tag, and the metadata. An entry with longer ones does not fit.
    pub const MAX: usize = 1 << 20;

    /// Nothing.
    pub const NONE: Attributes<'static> = Attributes { tags: &[], metadata: &[] };

    pub(crate) fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.metadata.is_empty()
    }

    /// Bytes that they take in an entry.
    pub(crate) fn len(&self) -> usize {
        self.tags.len() * ID + self.metadata.len()
    }
}

/// Attributes as they lie in an entry, or the kind of a hidden record ([`crate::derived`]), which has none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodedAttributes<'a> {
    pub(crate) word: u32,
    pub(crate) bytes: &'a [u8],
}

impl<'a> EncodedAttributes<'a> {
    pub(crate) const NONE: EncodedAttributes<'static> = EncodedAttributes { word: 0, bytes: &[] };

    /// Writes the metadata into a buffer that is empty.
    pub(crate) fn of(attributes: Attributes<'_>, buffer: &'a mut Vec<u8>) -> EncodedAttributes<'a> {
        buffer.extend_from_slice(attributes.metadata);
        EncodedAttributes { word: buffer.len() as u32, bytes: buffer }
    }

    /// Copies what an entry has into a buffer that is empty.
    pub(crate) fn copy(entry: &Entry<'_>, buffer: &'a mut Vec<u8>) -> EncodedAttributes<'a> {
        buffer.extend_from_slice(entry.attributes());
        EncodedAttributes { word: entry.word(), bytes: buffer }
    }

    pub(crate) fn hidden(kind: u32) -> EncodedAttributes<'a> {
        EncodedAttributes { word: kind, bytes: &[] }
    }
}

/// Length of the attributes.
pub(crate) fn length(word: u32) -> usize {
    (word & LENGTH) as usize
}

/// The metadata among the attributes.
pub(crate) fn metadata(word: u32, bytes: &[u8]) -> &[u8] {
    &bytes[(word >> COUNT_SHIFT) as usize * ID..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Change, Config, Expiry, Value, Write};

    fn with(metadata: &[u8]) -> Attributes<'_> {
        Attributes { metadata, ..Attributes::NONE }
    }

    #[test]
    fn a_plain_entry_takes_no_room_for_attributes_and_others_take_what_they_have() {
        let cache = Cache::new(Config { shards: Some(1), ..Config::default() });
        let key = cache.key(b"key");
        let footprint = |attributes| {
            let write = Write { attributes, ..Write::new(b"value") };
            cache.tier().set(key, write, 0).expect("it fits");
            cache.tier().peek(key, 0, |entry| entry.footprint())
        };
        assert_eq!(footprint(Attributes::NONE), Some(8 + 3 + 5 + 8));
        assert_eq!(footprint(with(b"metadata")), Some(8 + 4 + 3 + 8 + 5 + 8));
    }

    #[test]
    fn a_record_of_the_same_shape_is_overwritten_with_its_attributes() {
        let cache = Cache::new(Config { shards: Some(1), ..Config::default() });
        let key = cache.key(b"key");
        // The same length together, then apart.
        for (metadata, value) in [("one", "value"), ("two", "other"), ("longer", "va"), ("s", "shorter")] {
            let write = Write { attributes: with(metadata.as_bytes()), ..Write::new(value.as_bytes()) };
            cache.tier().set(key, write, 0).expect("it fits");
            let both = |entry: crate::Entry<'_>| (entry.metadata().to_vec(), entry.value.to_bytes());
            assert_eq!(cache.tier().get(key, 0, both), Some((metadata.into(), value.into())));
        }
    }

    #[test]
    fn the_value_of_a_large_entry_leaves_and_grows_without_its_attributes() {
        let cache = Cache::new(Config { shards: Some(1), ..Config::default() });
        let key = cache.key(b"key");
        for len in [20_000, 200_000] {
            let value = vec![7; len];
            cache.tier().set(key, Write { attributes: with(b"metadata"), ..Write::new(&value) }, 0).expect("it fits");
            let shared = cache.tier().get(key, 0, |entry| match entry.value {
                Value::Large(large) => large.share(),
                Value::Inline(_) => panic!("it is large"),
            });
            assert_eq!(shared.as_deref(), Some(&value[..]));
            for change in [Change::Append(b"end"), Change::Splice(0, b"begin"), Change::Expire(Expiry::At(9))] {
                cache.tier().update(key, 0, |_, _| (change, ())).expect("it fits");
            }
            let grown = [b"begin", &value[5..], b"end"].concat();
            let read = |entry: crate::Entry<'_>| {
                assert_eq!((entry.metadata(), entry.expiry()), (&b"metadata"[..], Some(9)));
                assert_eq!(entry.value.as_bytes(), grown);
            };
            assert_eq!(cache.tier().get(key, 0, read), Some(()));
            assert_eq!(shared.as_deref(), Some(&value[..]), "the reader keeps what it read");
        }
    }

    #[test]
    fn attributes_over_the_limit_do_not_fit() {
        let cache = Cache::new(Config::default());
        let metadata = vec![0; Attributes::MAX + 1];
        for (len, fits) in [(Attributes::MAX, true), (Attributes::MAX + 1, false)] {
            let write = Write { attributes: with(&metadata[..len]), ..Write::new(b"value") };
            assert_eq!(cache.tier().set(cache.key(b"key"), write, 0).is_ok(), fits);
        }
    }
}
