//! LZF, by which Redis compresses strings of more than 20 bytes. <http://software.schmorp.de/pkg/liblzf.html>
//!
//! ```text
//!   000lllll  bytes                l + 1 bytes as they are
//!   LLLooooo  [more]  oooooooo     L + 2 bytes from o + 1 bytes before here; with L = 7, `more` further ones
//! ```

/// A control byte below this begins bytes as they are.
const LITERAL: usize = 32;
/// The most bytes that one byte becomes: 3 bytes become 264.
const RATIO: usize = 88;

/// Whether `packed` becomes exactly `len` bytes, which are in `out` then. Memory is had for what
/// `packed` can become, at most.
pub(super) fn decompress(packed: &[u8], len: usize, out: &mut Vec<u8>) -> bool {
    out.clear();
    out.reserve(len.min(packed.len().saturating_mul(RATIO)));
    let mut rest = packed;
    while !rest.is_empty() {
        match step(rest, len, out) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    out.len() == len
}

/// One control byte and what belongs to it; `None`: it is none, or leads beyond `len`.
fn step<'p>(packed: &'p [u8], len: usize, out: &mut Vec<u8>) -> Option<&'p [u8]> {
    let (&control, rest) = packed.split_first()?;
    let control = usize::from(control);
    if control < LITERAL {
        let (bytes, rest) = rest.split_at_checked(control + 1)?;
        if out.len() + bytes.len() > len {
            return None;
        }
        out.extend_from_slice(bytes);
        return Some(rest);
    }
    let (count, rest) = match control >> 5 {
        7 => {
            let (&more, rest) = rest.split_first()?;
            (9 + usize::from(more), rest)
        }
        short => (short + 2, rest),
    };
    let (&low, rest) = rest.split_first()?;
    let from = out.len().checked_sub(((control & 0x1f) << 8 | usize::from(low)) + 1)?;
    if out.len() + count > len {
        return None;
    }
    // The bytes may be those that are being written.
    for place in from..from + count {
        out.push(out[place]);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn decompressed(packed: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decompress(packed, len, &mut out).then_some(out)
    }

    #[test]
    fn what_redis_compresses_is_decompressed() {
        // `abcd` and 16 bytes from 4 before.
        assert_eq!(decompressed(b"\x03abcd\xe0\x07\x03", 20), Some(b"abcd".repeat(5)));
        // `a` and 3 bytes from 1 before.
        assert_eq!(decompressed(b"\x00a\x20\x00", 4), Some(b"aaaa".to_vec()));
        for (packed, len) in [(&b"\x03abc"[..], 4), (b"\x00a\x20\x01", 4), (b"\x00a\x20", 4), (b"\x00a\xe0", 10)] {
            assert_eq!(decompressed(packed, len), None, "{packed:?}");
        }
        for len in [3, 5, usize::MAX] {
            assert_eq!(decompressed(b"\x00a\x20\x00", len), None, "it becomes 4 bytes, not {len}");
        }
    }

    proptest! {
        /// Any bytes are an answer, of the length that was said.
        #[test]
        fn any_bytes_can_be_read(packed in vec(prop_oneof![any::<u8>(), 0..8_u8], 0..60), len in 0..600_usize) {
            if let Some(out) = decompressed(&packed, len) {
                prop_assert!(out.len() == len && len <= packed.len() * RATIO);
            }
        }
    }
}
