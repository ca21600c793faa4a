//! How an entry's value is written: one byte that says how, the expiry if there is one, the value.
//!
//! ```text
//!  0x10  value                      never expires
//!  0x11  expiry (8, LE, ms)  value  absent from that moment on (milliseconds since the Unix epoch)
//! ```
//! The high half of the first byte is the version of this format. Anything else is damage, or a later Larder's.
use bytes::{Buf, Bytes};
use larder_engine::Millis;

const PLAIN: u8 = 0x10;
const EXPIRING: u8 = 0x11;

/// As it is stored.
pub(super) fn encode(value: &[u8], expiry: Option<Millis>) -> Bytes {
    let mut out = Vec::with_capacity(1 + 8 + value.len());
    match expiry {
        None => out.push(PLAIN),
        Some(at) => {
            out.push(EXPIRING);
            out.extend_from_slice(&at.to_le_bytes());
        }
    }
    out.extend_from_slice(value);
    out.into()
}

/// The value and its expiry; `None`: this was not written by [`encode`].
pub(super) fn decode(mut stored: Bytes) -> Option<(Bytes, Option<Millis>)> {
    let expiry = expiry(&stored)?;
    stored.advance(if expiry.is_some() { 9 } else { 1 });
    Some((stored, expiry))
}

/// When it expires; the outer `None`: this was not written by [`encode`].
pub(super) fn expiry(stored: &[u8]) -> Option<Option<Millis>> {
    match stored.split_first()? {
        (&PLAIN, _) => Some(None),
        (&EXPIRING, rest) => rest.first_chunk().map(|at| Some(Millis::from_le_bytes(*at))),
        _ => None,
    }
}

/// Is it there at `now`? What cannot be read counts as there, so that it is found by whoever reads it.
pub(super) fn is_live(stored: &[u8], now: Millis) -> bool {
    !matches!(expiry(stored), Some(Some(at)) if at <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_as_documented() {
        assert_eq!(&encode(b"v", None)[..], b"\x10v");
        assert_eq!(&encode(b"v", Some(0x0102))[..], b"\x11\x02\x01\0\0\0\0\0\0v");
        for damaged in [&b""[..], b"\x00", b"\x20v", b"\x11\0\0\0\0\0\0\0"] {
            assert_eq!(decode(Bytes::copy_from_slice(damaged)), None, "{damaged:?}");
            assert!(is_live(damaged, Millis::MAX));
        }
        assert!(is_live(&encode(b"", Some(5)), 4) && !is_live(&encode(b"", Some(5)), 5));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value: Vec<u8>, expiry: Option<u64>) {
            prop_assert_eq!(decode(encode(&value, expiry)), Some((Bytes::from(value), expiry)));
        }
    }
}
