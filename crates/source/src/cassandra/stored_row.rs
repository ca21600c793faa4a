//! How an entry is stored in a row: the key, a short head before the value, and the version.
use bytes::{BufMut, Bytes, BytesMut};
use larder_engine::Millis;
use larder_store::{StoredValue, ValueKind};
use std::borrow::Cow;

/// The first byte of a value, without its flags. No UTF-8 text begins with it.
const MARK: u8 = 0xF8;
const EXPIRES: u8 = 1;
const DOCUMENT: u8 = 2;
/// Four bytes with the flags of a memcached client follow.
const FLAGS: u8 = 4;
/// The longest key that Cassandra takes.
pub(super) const LONGEST_KEY: usize = 65_535;
/// Cassandra refuses lifetimes that end after 2038-01-19, and those over 20 years.
const LAST_SECOND: u64 = i32::MAX as u64 - 86_400;

/// The key as it is in the table. Cassandra has no empty key: a key of NUL bytes alone gets one more.
pub(super) fn table_key(key: &[u8]) -> Cow<'_, [u8]> {
    match key.iter().all(|byte| *byte == 0) {
        true => Cow::Owned(vec![0; key.len() + 1]),
        false => Cow::Borrowed(key),
    }
}

/// The key of a row.
pub(super) fn key_of_row(key: &[u8]) -> &[u8] {
    if key.iter().all(|byte| *byte == 0) { &key[..key.len().saturating_sub(1)] } else { key }
}

/// The value as it is in the table.
pub(super) fn encode(entry: &StoredValue) -> Bytes {
    let mut head = MARK;
    if entry.expiry.is_some() {
        head |= EXPIRES;
    }
    head |= match entry.kind {
        ValueKind::String => 0,
        ValueKind::Document => DOCUMENT,
        ValueKind::Flagged(_) => FLAGS,
    };
    let mut row = BytesMut::with_capacity(13 + entry.value.len());
    row.put_u8(head);
    if let Some(at) = entry.expiry {
        row.put_u64(at);
    }
    if let ValueKind::Flagged(flags) = entry.kind {
        row.put_u32(flags);
    }
    row.put_slice(&entry.value);
    row.freeze()
}

/// The entry of a row; `None`: another program wrote the value.
pub(super) fn decode(mut value: Bytes) -> Option<StoredValue> {
    let head = *value.first()?;
    if head & !(EXPIRES | DOCUMENT | FLAGS) != MARK {
        return None;
    }
    let _ = value.split_to(1);
    let expiry = match head & EXPIRES {
        0 => None,
        _ if value.len() < 8 => return None,
        _ => Some(Millis::from_be_bytes(*value.split_to(8).first_chunk()?)),
    };
    let kind = match head & (DOCUMENT | FLAGS) {
        0 => ValueKind::String,
        DOCUMENT => ValueKind::Document,
        FLAGS if value.len() >= 4 => ValueKind::Flagged(u32::from_be_bytes(*value.split_to(4).first_chunk()?)),
        _ => return None,
    };
    Some(StoredValue { value, expiry, kind })
}

/// The seconds of `USING TTL`, rounded up; 0: Cassandra keeps the row, and only Larder knows when it
/// expires.
pub(super) fn lifetime(expiry: Option<Millis>, now: Millis) -> i32 {
    let Some(at) = expiry.filter(|at| at.div_ceil(1000) <= LAST_SECOND) else { return 0 };
    i32::try_from(at.saturating_sub(now).div_ceil(1000)).unwrap_or(0).max(1)
}

/// A version that no other write has. Its lowest bit tells documents, so that a scan need not read
/// values.
pub(super) fn new_version(kind: ValueKind) -> i64 {
    (fastrand::i64(1..i64::MAX) & !1) | i64::from(kind == ValueKind::Document)
}

/// The kind of the entry with this version.
pub(super) fn kind_of_version(version: Option<i64>) -> ValueKind {
    if version.unwrap_or(0) & 1 == 1 { ValueKind::Document } else { ValueKind::String }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(value: Vec<u8>, expiry: Option<u64>, flags: u32, which in 0..3) {
            let kind = [ValueKind::String, ValueKind::Document, ValueKind::Flagged(flags)][which as usize];
            let entry = StoredValue { value: value.into(), expiry, kind };
            prop_assert_eq!(decode(encode(&entry)), Some(entry));
            let of_version = kind_of_version(Some(new_version(kind)));
            prop_assert_eq!(of_version == ValueKind::Document, kind == ValueKind::Document);
        }
        #[test]
        fn any_bytes_are_a_value_or_none(value: Vec<u8>) {
            if let Some(entry) = decode(value.clone().into()) {
                prop_assert_eq!(encode(&entry), value);
            }
        }
        #[test]
        fn each_key_has_a_row_of_its_own(key: Vec<u8>) {
            let row = table_key(&key);
            prop_assert!(!row.is_empty());
            prop_assert_eq!(key_of_row(&row), &key[..]);
        }
    }

    #[test]
    fn keys_of_nul_bytes_differ() {
        let rows: Vec<_> = [&b""[..], b"\0", b"\0\0"].iter().map(|key| table_key(key).into_owned()).collect();
        assert_eq!(rows, [vec![0], vec![0, 0], vec![0, 0, 0]]);
        assert!(rows.iter().zip([&b""[..], b"\0", b"\0\0"]).all(|(row, key)| key_of_row(row) == key));
    }

    #[test]
    fn lifetimes_are_rounded_up() {
        let now = 1_000_000;
        for (expiry, seconds) in [
            (None, 0),
            (Some(now + 1), 1),
            (Some(now + 1000), 1),
            (Some(now + 1001), 2),
            (Some(now - 5), 1),
            (Some(u64::MAX), 0),
            (Some((LAST_SECOND + 1) * 1000), 0),
        ] {
            assert_eq!(lifetime(expiry, now), seconds, "{expiry:?}");
        }
    }
}
