//! Values that say whose they are: a reader can tell a wrong reply (another key's value, a torn or
//! altered one) from a right one, and an old one from a new one, without any record of what was
//! written.
//!
//! `key|sequence|padding|checksum`, all of it printable ASCII that JSON needs not escape; the
//! checksum covers what precedes it.
use anyhow::{Context, ensure};
use std::hash::BuildHasher;

/// Digits of the checksum.
const CHECK: usize = 16;

/// Shortest stamp for a key of this length.
pub(crate) fn min_size(key_size: usize) -> usize {
    key_size + 1 + 20 + 1 + 1 + CHECK
}

/// Replaces `out` by the value of `key` with this sequence number, `size` bytes long (or
/// [`min_size`], if that is more). `key` must be printable ASCII without `|`, `"` and backslash.
pub(crate) fn write(key: &[u8], sequence: u64, size: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(key);
    out.extend_from_slice(format!("|{sequence}|").as_bytes());
    // The padding differs between sequences, so that a mixture of two values cannot pass.
    let letter = b'a' + (sequence % 26) as u8;
    let end = size.max(min_size(key.len())) - 1 - CHECK;
    out.resize(end.max(out.len()), letter);
    out.push(b'|');
    let check = checksum(&out[..out.len() - 1]);
    out.extend_from_slice(format!("{check:016x}").as_bytes());
}

/// The sequence number of a value read for `key`.
///
/// # Errors
/// If it is not a value that [`write()`] made for this key.
pub(crate) fn read(key: &[u8], value: &[u8]) -> anyhow::Result<u64> {
    let shown = || String::from_utf8_lossy(&value[..value.len().min(120)]).into_owned();
    let rest = value
        .strip_prefix(key)
        .and_then(|rest| rest.strip_prefix(b"|"))
        .with_context(|| format!("belongs to another key: {}", shown()))?;
    let (body, check) = value.split_at_checked(value.len().saturating_sub(CHECK)).context("is too short")?;
    let intact = body.strip_suffix(b"|").is_some_and(|body| format!("{:016x}", checksum(body)).as_bytes() == check);
    ensure!(intact, "is damaged: {}", shown());
    let digits = rest.split(|&byte| byte == b'|').next().unwrap_or_default();
    std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok())
        .with_context(|| format!("has no sequence number: {}", shown()))
}

fn checksum(bytes: &[u8]) -> u64 {
    foldhash::quality::FixedState::default().hash_one(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamp(key: &[u8], sequence: u64, size: usize) -> Vec<u8> {
        let mut out = Vec::new();
        write(key, sequence, size, &mut out);
        out
    }

    proptest! {
        #[test]
        fn reads_back(key in "[a-z0-9:]{1,60}", sequence: u64, size in 0..3000usize) {
            let value = stamp(key.as_bytes(), sequence, size);
            prop_assert_eq!(read(key.as_bytes(), &value).expect("intact"), sequence);
            prop_assert_eq!(value.len(), size.max(min_size(key.len())));
        }

        #[test]
        fn any_change_is_noticed(size in 0..300usize, at: prop::sample::Index, flip in 1..=255u8) {
            let mut value = stamp(b"key:1", 7, size);
            let at = at.index(value.len());
            value[at] ^= flip;
            prop_assert!(read(b"key:1", &value).is_err());
        }

        #[test]
        fn any_bytes_are_judged(value in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(read(b"k", &value).is_err());
        }
    }

    #[test]
    fn another_keys_value_is_noticed() {
        let error = read(b"key:1", &stamp(b"key:10", 7, 100)).expect_err("another key's");
        assert!(error.to_string().contains("another key"), "{error}");
        let torn = [&stamp(b"k", 1, 200)[..100], &stamp(b"k", 2, 200)[100..]].concat();
        read(b"k", &torn).expect_err("torn");
    }
}
