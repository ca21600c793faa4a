//! What memcached clients say about a value besides its bytes: their flags, a version of their own,
//! and whether the value is stale. An entry keeps it in its metadata
//! ([`CopyMetadata`](super::CopyMetadata)); an entry without it takes no room for it.
//!
//! ```text
//! field 16:  flags 4 | state 1 | version 8        little-endian; zeros at the end are left out
//! ```
use super::copy_metadata::{CLIENT_MARK, CopyMetadataView};
use larder_engine::Attributes;
use std::ops::Deref;

const STALE: u8 = 1;
const WON: u8 = 2;
const HEAD: usize = 3;
const WITH_FLAGS: usize = 4;
const WITH_STATE: usize = 5;
const WHOLE: usize = 13;

/// What memcached clients say about a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientMark {
    /// The flags that the client gave it.
    pub flags: u32,
    /// A client has marked it as stale (`md` with `I`).
    pub is_stale: bool,
    /// A client was told that it is the one who makes the value again (`W`).
    pub is_won: bool,
    /// The version that a client gave it (`E`).
    pub version: Option<u64>,
}

/// The metadata of an entry that has nothing but a mark.
#[derive(Debug, Clone, Copy)]
pub struct EncodedMark {
    bytes: [u8; HEAD + WHOLE],
    length: usize,
}

impl ClientMark {
    /// A mark with these flags and nothing else.
    pub fn of_flags(flags: u32) -> ClientMark {
        ClientMark { flags, ..ClientMark::default() }
    }

    /// The mark in the metadata of an entry.
    #[inline]
    pub fn read(metadata: &[u8]) -> ClientMark {
        match metadata {
            [] => ClientMark::default(),
            [CLIENT_MARK, length, 0, field @ ..] if usize::from(*length) == field.len() => ClientMark::decode(field),
            _ => CopyMetadataView::read(metadata).client,
        }
    }

    pub(super) fn decode(field: &[u8]) -> ClientMark {
        let flags = field.first_chunk().map_or(0, |flags| u32::from_le_bytes(*flags));
        let state = field.get(WITH_FLAGS).copied().unwrap_or(0);
        let version = field.get(WITH_STATE..).and_then(<[u8]>::first_chunk).map(|version| u64::from_le_bytes(*version));
        ClientMark { flags, is_stale: state & STALE != 0, is_won: state & WON != 0, version }
    }

    /// The bytes that an entry keeps.
    #[inline]
    pub fn encode(self) -> EncodedMark {
        let state = if self.is_stale { STALE } else { 0 } | if self.is_won { WON } else { 0 };
        let field = match (self.version, state, self.flags) {
            (Some(_), _, _) => WHOLE,
            (None, 0, 0) => return EncodedMark { bytes: [0; HEAD + WHOLE], length: 0 },
            (None, 0, _) => WITH_FLAGS,
            (None, _, _) => WITH_STATE,
        };
        let mut bytes = [0; HEAD + WHOLE];
        (bytes[0], bytes[1]) = (CLIENT_MARK, field as u8);
        bytes[HEAD..HEAD + WITH_FLAGS].copy_from_slice(&self.flags.to_le_bytes());
        bytes[HEAD + WITH_FLAGS] = state;
        bytes[HEAD + WITH_STATE..].copy_from_slice(&self.version.unwrap_or(0).to_le_bytes());
        EncodedMark { bytes, length: HEAD + field }
    }
}

impl EncodedMark {
    /// The attributes of an entry that has nothing else.
    #[inline]
    pub fn attributes(&self) -> Attributes<'_> {
        Attributes { tags: &[], metadata: self }
    }
}

impl Deref for EncodedMark {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CopyMetadata;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            flags in any::<u32>(),
            (is_stale, is_won) in any::<(bool, bool)>(),
            version in any::<Option<u64>>(),
        ) {
            let mark = ClientMark { flags, is_stale, is_won, version };
            prop_assert_eq!(ClientMark::read(&mark.encode()), mark);
            let among_others = CopyMetadata { client: mark, etag: Some((*b"\"e\"").into()), ..CopyMetadata::default() };
            prop_assert_eq!(ClientMark::read(&among_others.encode()), mark);
        }
        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            ClientMark::read(&bytes);
        }
    }

    #[test]
    fn a_value_without_flags_takes_no_room() {
        assert!(ClientMark::default().encode().is_empty());
    }
}
