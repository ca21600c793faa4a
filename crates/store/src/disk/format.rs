//! How an entry's value is written: one byte that says how, the expiry if there is one, the value.
//!
//! ```text
//!  0x10  value                      a string that never expires
//!  0x11  expiry (8, LE, ms)  value  absent from that moment on (milliseconds since the Unix epoch)
//!  0x12, 0x13                       the same for a JSON document
//!  0x14 to 0x17                     the same four under a key with one zero byte more than its name
//!  0x18, 0x19, 0x1c, 0x1d           a string with the flags of a memcached client (4, LE) before its value
//! ```
//! The high half of the first byte is the version of this format. Anything else is damage, or a
//! later Larder's. A Larder that is older than documents takes a document for damage, and says so
//! where it reads one.
use crate::{StoredValue, ValueKind, clock};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use larder_engine::Millis;
use std::borrow::Cow;

/// Longest key that the store takes, bytes: fjall keeps a key's length in 16 bits.
pub const MAX_KEY: usize = u16::MAX as usize;

/// Whether the store takes a key of this length.
pub(super) fn fits(key: &[u8]) -> bool {
    key.len() <= MAX_KEY - usize::from(is_lengthened(key))
}

/// fjall takes no empty key. So a key of zero bytes alone, which the empty one is too, is stored
/// with one more. All other keys are stored as they are, and the order of keys stays.
#[inline]
pub(super) fn is_lengthened(key: &[u8]) -> bool {
    key.iter().all(|byte| *byte == 0)
}

/// The key as fjall has it.
#[inline]
pub(super) fn stored_key(key: &[u8]) -> Cow<'_, [u8]> {
    match is_lengthened(key) {
        true => Cow::Owned(vec![0; key.len() + 1]),
        false => Cow::Borrowed(key),
    }
}

/// A write as fjall has it: the key, and the value that says whether the key was lengthened.
pub(super) fn stored_write((key, value): (Bytes, Option<Bytes>)) -> (Bytes, Option<Bytes>) {
    match stored_key(&key) {
        Cow::Borrowed(_) => (key, value),
        Cow::Owned(longer) => (longer.into(), value.map(|value| lengthened_value(&value))),
    }
}
fn lengthened_value(value: &[u8]) -> Bytes {
    let mut value = BytesMut::from(value);
    if let Some(first) = value.first_mut() {
        *first |= LENGTHENED;
    }
    value.freeze()
}

/// Whether a Larder that took no empty key has stored this entry, under its name as it is.
pub(super) fn lacks_lengthening(key: &[u8], stored: &[u8]) -> bool {
    is_lengthened(key) && stored.first().is_some_and(|first| first & LENGTHENED == 0)
}

/// Like [`stored_key`] for a key that is owned.
pub(super) fn owned_stored_key(key: Bytes) -> Bytes {
    match stored_key(&key) {
        Cow::Owned(longer) => longer.into(),
        Cow::Borrowed(_) => key,
    }
}

/// The key of an entry that fjall has under this one.
pub(super) fn key_of(mut stored: Bytes) -> Bytes {
    if is_lengthened(&stored) {
        stored.advance(1);
    }
    stored
}

const PLAIN: u8 = 0x10;
/// Added to `PLAIN`: an expiry follows.
const EXPIRING: u8 = 1;
/// Added to `PLAIN`: the value is a document.
const DOCUMENT: u8 = 2;
/// Added to `PLAIN`: the flags of a memcached client follow.
const FLAGGED: u8 = 8;

/// Added to `PLAIN`: the key has one zero byte more than its name.
const LENGTHENED: u8 = 4;

/// Memory for keys and entries on their way into a memtable, many to an allocation. A memtable is
/// freed by a thread of its own; with an allocation for each of them, that one and those who
/// allocate would wait for each other half a million times.
#[derive(Debug, Default)]
pub(super) struct EntryEncoder(BytesMut);

/// An allocation; what would take a good part of one gets its own.
const CHUNK: usize = 64 << 10;
const LARGE: usize = CHUNK / 8;

impl EntryEncoder {
    pub(super) fn key(&mut self, key: &[u8]) -> Bytes {
        self.write(key.len(), |out| out.put_slice(key))
    }
    /// An entry as it is stored.
    pub(super) fn entry(&mut self, stored: &StoredValue) -> Bytes {
        let kind = match stored.kind {
            ValueKind::String => PLAIN,
            ValueKind::Document => PLAIN | DOCUMENT,
            ValueKind::Flagged(_) => PLAIN | FLAGGED,
        };
        self.write(1 + 8 + 4 + stored.value.len(), |out| {
            match stored.expiry {
                None => out.put_u8(kind),
                Some(at) => {
                    out.put_u8(kind | EXPIRING);
                    out.put_u64_le(clock::to_wall(at));
                }
            }
            if let ValueKind::Flagged(flags) = stored.kind {
                out.put_u32_le(flags);
            }
            out.put_slice(&stored.value);
        })
    }
    fn write(&mut self, bytes: usize, write: impl FnOnce(&mut BytesMut)) -> Bytes {
        if bytes > LARGE {
            let mut own = BytesMut::with_capacity(bytes);
            write(&mut own);
            return own.freeze();
        }
        if self.0.capacity() < bytes {
            self.0 = BytesMut::with_capacity(CHUNK);
        }
        write(&mut self.0);
        self.0.split().freeze()
    }
}

/// The value; `None`: this was not written by an [`EntryEncoder`].
pub(super) fn decode(mut stored: Bytes) -> Option<StoredValue> {
    let expiry = expiry(&stored)?;
    let first = stored[0];
    stored.advance(if expiry.is_some() { 9 } else { 1 });
    let kind = match first & (DOCUMENT | FLAGGED) {
        0 => ValueKind::String,
        DOCUMENT => ValueKind::Document,
        _ => ValueKind::Flagged(stored.try_get_u32_le().ok()?),
    };
    Some(StoredValue { value: stored, expiry, kind })
}

/// When it expires; the outer `None`: this was not written by an [`EntryEncoder`].
pub(super) fn expiry(stored: &[u8]) -> Option<Option<Millis>> {
    let (first, rest) = stored.split_first()?;
    let kind = first & (DOCUMENT | FLAGGED);
    let (expiry, rest) = match first & !(DOCUMENT | FLAGGED | LENGTHENED) {
        PLAIN => (None, rest),
        first if first == PLAIN | EXPIRING => {
            let (at, rest) = rest.split_first_chunk()?;
            (Some(clock::of_wall(Millis::from_le_bytes(*at))), rest)
        }
        _ => return None,
    };
    let is_whole = match kind {
        0 | DOCUMENT => true,
        FLAGGED => rest.len() >= 4,
        _ => false,
    };
    is_whole.then_some(expiry)
}

/// Is it there at `now`? What cannot be read counts as there, so that a reader finds it.
pub(super) fn is_live(stored: &[u8], now: Millis) -> bool {
    !matches!(expiry(stored), Some(Some(at)) if at <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(value: &[u8], expiry: Option<Millis>) -> Bytes {
        EntryEncoder::default().entry(&StoredValue::string(value.to_vec(), expiry))
    }

    #[test]
    fn the_bytes_are_as_documented() {
        assert_eq!(&encode(b"v", None)[..], b"\x10v");
        assert_eq!(&encode(b"v", Some(0x0102))[..], b"\x11\x02\x01\0\0\0\0\0\0v");
        let document = |expiry| StoredValue { value: "v".into(), expiry, kind: ValueKind::Document };
        assert_eq!(&EntryEncoder::default().entry(&document(None))[..], b"\x12v");
        assert_eq!(&EntryEncoder::default().entry(&document(Some(0x0102)))[..], b"\x13\x02\x01\0\0\0\0\0\0v");
        let flagged = |expiry| StoredValue { value: "v".into(), expiry, kind: ValueKind::Flagged(0x0304) };
        assert_eq!(&EntryEncoder::default().entry(&flagged(None))[..], b"\x18\x04\x03\0\0v");
        assert_eq!(&EntryEncoder::default().entry(&flagged(Some(1)))[..], b"\x19\x01\0\0\0\0\0\0\0\x04\x03\0\0v");
        for damaged in [&b"\x1a\0\0\0\0v"[..], b"\x1b\0\0\0\0\0\0\0\0\0\0\0\0v"] {
            assert_eq!(decode(Bytes::copy_from_slice(damaged)), None, "{damaged:?}");
        }
        for damaged in [&b""[..], b"\x00", b"\x18v", b"\x20v", b"\x11\0\0\0\0\0\0\0", b"\x13\0\0\0\0\0\0\0"] {
            assert_eq!(decode(Bytes::copy_from_slice(damaged)), None, "{damaged:?}");
            assert!(is_live(damaged, Millis::MAX));
        }
        assert!(is_live(&encode(b"", Some(5)), 4) && !is_live(&encode(b"", Some(5)), 5));
    }

    #[test]
    fn the_empty_key_has_a_name_and_the_order_stays() {
        assert_eq!(&*stored_key(b""), b"\0");
        assert_eq!(&*stored_key(b"\0"), b"\0\0");
        assert_eq!(&*stored_key(b"\0a"), b"\0a");
        assert!(fits(b"") && fits(&[1; MAX_KEY]) && fits(&[0; MAX_KEY - 1]));
        assert!(!fits(&[0; MAX_KEY]) && !fits(&[1; MAX_KEY + 1]));
    }

    proptest! {
        #[test]
        fn stored_keys_keep_their_order_and_read_back(a in "[\0\x01a]{0,4}", b in "[\0\x01a]{0,4}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let (of_a, of_b) = (stored_key(a), stored_key(b));
            prop_assert!(!of_a.is_empty());
            prop_assert_eq!(of_a.cmp(&of_b), a.cmp(b));
            prop_assert_eq!(&*key_of(Bytes::copy_from_slice(&of_a)), a);
            prop_assert_eq!(owned_stored_key(Bytes::copy_from_slice(a)), &*of_a);
        }

        #[test]
        fn what_is_written_reads_back(value: Vec<u8>, expiry: Option<u64>, is_document: bool, flags: u32) {
            let kind = match (is_document, flags) {
                (true, _) => ValueKind::Document,
                (false, 0) => ValueKind::String,
                (false, flags) => ValueKind::Flagged(flags),
            };
            let stored = StoredValue { value: value.into(), expiry, kind };
            prop_assert_eq!(decode(EntryEncoder::default().entry(&stored)), Some(stored));
        }

        #[test]
        fn what_shares_memory_stays_apart(values in prop::collection::vec((0..2 * LARGE, any::<u8>(), any::<Option<u64>>()), 0..100)) {
            let values: Vec<_> = values.into_iter().map(|(length, byte, expiry)| (vec![byte; length], expiry)).collect();
            let mut encoder = EntryEncoder::default();
            let written: Vec<_> = values.iter().map(|(value, expiry)| (encoder.key(value), encoder.entry(&StoredValue::string(value.clone(), *expiry)))).collect();
            for ((value, expiry), (key, entry)) in values.into_iter().zip(written) {
                prop_assert_eq!(&key[..], &value[..]);
                prop_assert_eq!(decode(entry), Some(StoredValue::string(value, expiry)));
            }
        }
    }
}
