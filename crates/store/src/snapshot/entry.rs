//! One entry as bytes: in the blocks of a snapshot, and in the stream from a primary to its
//! replicas.
//!
//! ```text
//!   head 1 | key length | value length | end 6 (if any) | tags (if any) | metadata (if any) | key | value
//!
//!   head:      bits 0-2 the policy's access count and flag · 3 end · 4 the end is that of the freshness · 5 tags · 6 metadata · 7 main queue
//!   lengths:   LEB128, at most 5 bytes
//!   end:       milliseconds since the Unix epoch, little-endian
//!   tags:      number 1 | for each: length, bytes
//!   metadata:  length, bytes
//! ```
//!
//! The value comes last, so that a large one can follow its head by reference. Everything that is
//! read is compared with its limit and with the bytes that are there before it is used; nothing is
//! allocated for a length that a stranger wrote. Entries are not sealed: blocks and frames have
//! checksums.
use crate::{
    clock,
    table::{MAX_KEY, MAX_VALUE},
};
use larder_engine::{Attributes, End, Entry, Millis, PolicyState, RestoredEntry};
use smallvec::SmallVec;

const FREQUENCY: u8 = 7;
const END: u8 = 1 << 3;
const SOFT: u8 = 1 << 4;
const TAGS: u8 = 1 << 5;
const METADATA: u8 = 1 << 6;
const MAIN: u8 = 1 << 7;
const END_BYTES: usize = 6;
/// Bytes of the longest length.
const LENGTH: usize = 5;

/// The most bytes that [`SavedEntry::encode_head`] writes.
pub const MAX_HEAD: usize = 1
    + 2 * LENGTH
    + END_BYTES
    + 1
    + Attributes::MAX_TAGS * (LENGTH + Attributes::MAX_TAG)
    + LENGTH
    + Attributes::MAX_METADATA
    + MAX_KEY;
/// The most bytes of an entry.
pub const MAX_ENTRY: usize = MAX_HEAD + MAX_VALUE;

/// An entry outside of the memory tier. Its parts lie in the bytes that it was decoded from, or in
/// the tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedEntry<'a> {
    /// 1 byte to 64 KiB.
    pub key: &'a [u8],
    /// At most 512 MiB.
    pub value: &'a [u8],
    /// When it ends; `None`: never.
    pub end: Option<End>,
    /// What the engine's user keeps with it.
    pub metadata: &'a [u8],
    /// Its tags.
    pub tags: SmallVec<[&'a [u8]; 4]>,
    /// What the eviction policy knows of it.
    pub policy: PolicyState,
}

/// Why bytes are no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the entry does. More of them may make it one.
    #[error("the entry is cut off")]
    Truncated,
    /// No bytes after these make them an entry.
    #[error("{0}")]
    Invalid(&'static str),
}

impl<'a> SavedEntry<'a> {
    /// An entry of the memory tier, under its shard's lock.
    pub fn of(entry: &Entry<'a>, policy: PolicyState) -> SavedEntry<'a> {
        SavedEntry {
            key: entry.key,
            value: entry.value.as_bytes(),
            end: entry.end(),
            metadata: entry.metadata(),
            tags: entry.tags().collect(),
            policy,
        }
    }

    /// Tells its value from others: see [`digest`].
    pub fn digest(&self) -> u64 {
        digest(self.value)
    }

    /// Calls with the entry as the memory tier takes it back.
    pub fn restored(&self) -> RestoredEntry<'_> {
        RestoredEntry {
            value: self.value,
            end: self.end,
            attributes: Attributes { tags: &self.tags, metadata: self.metadata },
            policy: self.policy,
        }
    }

    /// Appends the whole entry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_head(out);
        out.extend_from_slice(self.value);
    }

    /// Appends everything but the value, which is to follow.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        let mut head = self.policy.frequency & FREQUENCY;
        for (has, bit) in [
            (self.end.is_some(), END),
            (self.end.is_some_and(|end| end.is_soft), SOFT),
            (!self.tags.is_empty(), TAGS),
            (!self.metadata.is_empty(), METADATA),
            (self.policy.is_main, MAIN),
        ] {
            head |= if has { bit } else { 0 };
        }
        out.push(head);
        put_length(self.key.len(), out);
        put_length(self.value.len(), out);
        if let Some(end) = self.end {
            out.extend_from_slice(&clock::to_wall(end.at).to_le_bytes()[..END_BYTES]);
        }
        if !self.tags.is_empty() {
            // The engine has no entry with more than 128.
            out.push(self.tags.len() as u8);
            for tag in &self.tags {
                put_length(tag.len(), out);
                out.extend_from_slice(tag);
            }
        }
        if !self.metadata.is_empty() {
            put_length(self.metadata.len(), out);
            out.extend_from_slice(self.metadata);
        }
        out.extend_from_slice(self.key);
    }

    /// The entry that `bytes` begin with, and how many of them it takes.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(bytes: &'a [u8]) -> Result<(SavedEntry<'a>, usize), DecodeError> {
        let mut rest = Rest(bytes);
        let head = rest.take(1)?[0];
        let key_len = rest.length(MAX_KEY, "a key of more than 64 KiB")?;
        let value_len = rest.length(MAX_VALUE, "a value of more than 512 MiB")?;
        let mut end = None;
        if head & END != 0 {
            let mut at = [0; size_of::<Millis>()];
            at[..END_BYTES].copy_from_slice(rest.take(END_BYTES)?);
            end = Some(End { at: clock::of_wall(Millis::from_le_bytes(at)), is_soft: head & SOFT != 0 });
        } else if head & SOFT != 0 {
            return Err(DecodeError::Invalid("an end of freshness without an end"));
        }
        let mut tags = SmallVec::new();
        if head & TAGS != 0 {
            let count = rest.take(1)?[0];
            if count == 0 || usize::from(count) > Attributes::MAX_TAGS {
                return Err(DecodeError::Invalid("a number of tags that is not 1 to 128"));
            }
            for _ in 0..count {
                let len = rest.length(Attributes::MAX_TAG, "a tag of more than 1 KiB")?;
                tags.push(rest.take(len)?);
            }
        }
        let mut metadata = &[][..];
        if head & METADATA != 0 {
            let len = rest.length(Attributes::MAX_METADATA, "metadata of more than 1 MiB")?;
            metadata = rest.take(len)?;
        }
        let key = rest.take(key_len)?;
        let value = rest.take(value_len)?;
        let policy = PolicyState { frequency: head & FREQUENCY, is_main: head & MAIN != 0 };
        Ok((SavedEntry { key, value, end, metadata, tags, policy }, bytes.len() - rest.0.len()))
    }
}

/// Two values that differ have one digest once in 2^64.
pub fn digest(value: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(value)
}

fn put_length(len: usize, out: &mut Vec<u8>) {
    let mut left = len;
    while left > 0x7f {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Bytes that are still to be read.
struct Rest<'a>(&'a [u8]);
impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn length(&mut self, most: usize, excess: &'static str) -> Result<usize, DecodeError> {
        let mut len = 0;
        for place in 0..LENGTH {
            let byte = self.take(1)?[0];
            len |= usize::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return if len > most { Err(DecodeError::Invalid(excess)) } else { Ok(len) };
            }
        }
        Err(DecodeError::Invalid("a length of more than 5 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, option, prelude::*};

    #[derive(Debug, Clone)]
    struct Owned {
        key: Vec<u8>,
        value: Vec<u8>,
        end: Option<(Millis, bool)>,
        metadata: Vec<u8>,
        tags: Vec<Vec<u8>>,
        frequency: u8,
        is_main: bool,
    }
    impl Owned {
        fn entry(&self) -> SavedEntry<'_> {
            SavedEntry {
                key: &self.key,
                value: &self.value,
                end: self.end.map(|(at, is_soft)| End { at, is_soft }),
                metadata: &self.metadata,
                tags: self.tags.iter().map(Vec::as_slice).collect(),
                policy: PolicyState { frequency: self.frequency, is_main: self.is_main },
            }
        }
    }

    fn owned() -> impl Strategy<Value = Owned> {
        let bytes = |least: usize| prop_oneof![vec(any::<u8>(), least..20), vec(any::<u8>(), least..300)];
        let end = option::of((0..1_u64 << 47, any::<bool>()));
        (bytes(1), bytes(0), end, bytes(0), vec(bytes(0), 0..6), 0..8_u8, any::<bool>()).prop_map(
            |(key, value, end, metadata, tags, frequency, is_main)| Owned {
                key,
                value,
                end,
                metadata,
                tags,
                frequency,
                is_main,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(entries in vec(owned(), 1..5)) {
            let mut bytes = Vec::new();
            entries.iter().for_each(|owned| owned.entry().encode(&mut bytes));
            let mut rest = &bytes[..];
            for owned in &entries {
                let (entry, used) = SavedEntry::decode(rest).expect("it was encoded");
                prop_assert_eq!(entry, owned.entry());
                rest = &rest[used..];
            }
            prop_assert_eq!(rest.len(), 0);
        }

        #[test]
        fn what_is_cut_off_is_said_to_be(owned in owned(), part in 0.0..1.0_f64) {
            let mut bytes = Vec::new();
            owned.entry().encode(&mut bytes);
            bytes.truncate((bytes.len() as f64 * part) as usize);
            prop_assert_eq!(SavedEntry::decode(&bytes), Err(DecodeError::Truncated));
        }

        /// Any bytes give an answer, and an entry that encodes to as many bytes or fewer.
        #[test]
        fn any_bytes_can_be_read(bytes in vec(any::<u8>(), 0..100)) {
            if let Ok((entry, used)) = SavedEntry::decode(&bytes) {
                let mut again = Vec::new();
                entry.encode(&mut again);
                prop_assert!(again.len() <= used && used <= bytes.len());
            }
        }
    }

    #[test]
    fn lengths_over_their_limits_are_refused_before_their_bytes_are_there() {
        let refused = |bytes: &[u8]| matches!(SavedEntry::decode(bytes), Err(DecodeError::Invalid(_)));
        assert!(refused(&[0, 0x81, 0x80, 0x04]), "64 KiB and a byte");
        assert!(refused(&[0, 1, 0x81, 0x80, 0x80, 0x80, 0x02]), "512 MiB and a byte");
        assert!(refused(&[0, 0xff, 0xff, 0xff, 0xff, 0xff]), "a length without an end");
        assert!(refused(&[SOFT, 1, 1]), "soft, but without an end");
        assert!(refused(&[TAGS, 1, 1, 0]) && refused(&[TAGS, 1, 1, 129]), "the number of tags");
        assert!(refused(&[TAGS, 1, 1, 1, 0x81, 0x08]), "a tag of 1 KiB and a byte");
        assert!(refused(&[METADATA, 1, 1, 0x81, 0x80, 0x40]), "metadata of 1 MiB and a byte");
    }
}
