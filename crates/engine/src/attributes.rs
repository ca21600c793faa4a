//! What an entry carries besides key and value: tags, and metadata of the caller's.
//!
//! ```text
//!   word:  bits 0-23 length of the attributes · 24-31 number of tags        in the record's head (`record`)
//!   attributes:  tag id 4, as often as there are tags | metadata            after the value
//! ```

use crate::tag_table::TagTable;

const ID: usize = 4;
/// Bytes that a tag of one entry takes besides its name, roughly.
const TAG: usize = ID + 64;
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
    /// Most tags of an entry. One with more does not fit.
    pub const MAX_TAGS: usize = 128;
    /// Longest tag. An entry with a longer one does not fit.
    pub const MAX_TAG: usize = 1024;
    /// Longest metadata. An entry with longer ones does not fit.
    pub const MAX_METADATA: usize = 1 << 20;

    /// Nothing.
    pub const NONE: Attributes<'static> = Attributes { tags: &[], metadata: &[] };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.metadata.is_empty()
    }

    /// Bytes that they take, at most; `None` if they are over a limit.
    #[inline]
    pub(crate) fn room(&self) -> Option<usize> {
        if self.is_empty() { Some(0) } else { self.room_of_some() }
    }

    #[cold]
    fn room_of_some(&self) -> Option<usize> {
        let within = self.tags.len() <= Self::MAX_TAGS
            && self.tags.iter().all(|tag| tag.len() <= Self::MAX_TAG)
            && self.metadata.len() <= Self::MAX_METADATA;
        within.then(|| self.tags.iter().map(|tag| tag.len() + TAG).sum::<usize>() + self.metadata.len())
    }
}

/// Attributes as they lie in an entry, or the kind of a hidden record ([`crate::derived`]), which
/// has none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EncodedAttributes<'a> {
    pub(crate) word: u32,
    pub(crate) bytes: &'a [u8],
}

impl<'a> EncodedAttributes<'a> {
    pub(crate) const NONE: EncodedAttributes<'static> = EncodedAttributes { word: 0, bytes: &[] };

    /// Writes attributes into a buffer that is empty, and counts their tags as carried. `held`:
    /// tags that the entry has already.
    pub(crate) fn of(
        attributes: Attributes<'_>,
        held: impl Iterator<Item = u32>,
        tags: &mut TagTable,
        hash: impl Fn(&[u8]) -> u64,
        buffer: &'a mut Vec<u8>,
    ) -> EncodedAttributes<'a> {
        let has = |buffer: &Vec<u8>, id: u32| buffer.chunks_exact(ID).any(|other| *other == id.to_le_bytes());
        held.for_each(|id| buffer.extend_from_slice(&id.to_le_bytes()));
        tags.retain(ids_in(buffer));
        for name in attributes.tags {
            let id = tags.intern(hash(name), name);
            if has(buffer, id) {
                tags.release([id].into_iter());
            } else {
                buffer.extend_from_slice(&id.to_le_bytes());
            }
        }
        let count = buffer.len() / ID;
        buffer.extend_from_slice(attributes.metadata);
        EncodedAttributes { word: (count as u32) << COUNT_SHIFT | buffer.len() as u32, bytes: buffer }
    }

    pub(crate) fn hidden(kind: u32) -> EncodedAttributes<'a> {
        EncodedAttributes { word: kind, bytes: &[] }
    }
}

fn ids_in(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(ID).map(|id| u32::from_le_bytes(id.try_into().expect("four bytes")))
}

/// Number of tags.
#[inline]
pub(crate) fn count(word: u32) -> usize {
    (word >> COUNT_SHIFT) as usize
}

/// The tags among the attributes.
#[inline]
pub(crate) fn ids(word: u32, bytes: &[u8]) -> impl Iterator<Item = u32> {
    ids_in(&bytes[..count(word) * ID])
}

/// Length of the attributes.
pub(crate) fn length(word: u32) -> usize {
    (word & LENGTH) as usize
}

/// The metadata among the attributes.
pub(crate) fn metadata(word: u32, bytes: &[u8]) -> &[u8] {
    &bytes[count(word) * ID..]
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
            for change in [
                Change::Append(b"end"),
                Change::Splice(0, b"begin"),
                Change::Part(2, 2, None),
                Change::Expire(Expiry::At(9)),
            ] {
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
        let (long, names) = (vec![0; Attributes::MAX_METADATA + 1], [&[7; Attributes::MAX_TAG + 1][..]; 129]);
        let tag = names[0];
        let fits = |tags: &[&[u8]], metadata: &[u8]| {
            let write = Write { attributes: Attributes { tags, metadata }, ..Write::new(b"value") };
            cache.tier().set(cache.key(b"key"), write, 0).is_ok()
        };
        assert!(fits(&[], &long[1..]) && !fits(&[], &long));
        assert!(fits(&[&tag[1..]], b"") && !fits(&[tag], b""));
        assert!(fits(&[&b"t"[..]; Attributes::MAX_TAGS], b"") && !fits(&[&b"t"[..]; Attributes::MAX_TAGS + 1], b""));
    }
}
