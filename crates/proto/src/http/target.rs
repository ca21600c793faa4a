//! Request targets: percent escapes and query parameters (RFC 3986; `+` in a query is a space, as
//! HTML forms write it).
use crate::percent;

/// A `%` that two hexadecimal digits do not follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedEscape;

/// Decodes a piece of a path: percent escapes only.
///
/// # Errors
/// [`MalformedEscape`] escape.
pub fn decode_path<'a>(raw: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], MalformedEscape> {
    decode(raw, false, scratch)
}

/// Decodes a name or value of a query: percent escapes, and `+` for a space.
///
/// # Errors
/// [`MalformedEscape`] escape.
pub fn decode_query<'a>(raw: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8], MalformedEscape> {
    decode(raw, true, scratch)
}

/// Borrows `raw` if there is nothing to decode; fills `scratch` otherwise.
fn decode<'a>(raw: &'a [u8], plus_is_space: bool, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], MalformedEscape> {
    if !raw.iter().any(|&b| b == b'%' || (plus_is_space && b == b'+')) {
        return Ok(raw);
    }
    if !percent::is_well_formed(raw) {
        return Err(MalformedEscape);
    }
    scratch.clear();
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|&b| plus_is_space && b == b'+') {
        percent::decode_into(&rest[..at], scratch);
        scratch.push(b' ');
        rest = &rest[at + 1..];
    }
    percent::decode_into(rest, scratch);
    Ok(scratch)
}

/// The raw `name=value` pairs of a query, in order; a pair without `=` has an empty value.
pub fn pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    query.split(|&b| b == b'&').filter(|pair| !pair.is_empty()).map(|pair| match pair.iter().position(|&b| b == b'=') {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, &b""[..]),
    })
}

/// The raw value of the first parameter called `name`. Names are compared as written: ours need no
/// escapes.
pub fn parameter<'q>(query: &'q [u8], name: &str) -> Option<&'q [u8]> {
    pairs(query).find(|(n, _)| *n == name.as_bytes()).map(|(_, value)| value)
}

/// Splits a target into path and query (without the `?`; empty if there is none).
pub fn split(target: &[u8]) -> (&[u8], &[u8]) {
    match target.iter().position(|&b| b == b'?') {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_and_plus() {
        let mut scratch = Vec::new();
        assert_eq!(decode_path(b"a%2Fb+c%00%ff", &mut scratch), Ok(&b"a/b+c\x00\xff"[..]));
        assert_eq!(decode_query(b"a%2fb+c%2B", &mut scratch), Ok(&b"a/b c+"[..]));
        for bad in ["%", "%2", "a%zz", "%%20", "%+1"] {
            assert_eq!(decode_query(bad.as_bytes(), &mut scratch), Err(MalformedEscape), "{bad}");
        }
    }

    #[test]
    fn parameters() {
        let query = b"a=1&&b&key=x=y&key=z";
        assert_eq!(parameter(query, "key"), Some(&b"x=y"[..]));
        assert_eq!(parameter(query, "b"), Some(&b""[..]));
        assert_eq!(parameter(query, "c"), None);
        assert_eq!(split(b"/p/q?r?s"), (&b"/p/q"[..], &b"r?s"[..]));
        assert_eq!(split(b"/p"), (&b"/p"[..], &b""[..]));
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(key in proptest::collection::vec(any::<u8>(), 0..40)) {
            let encoded: String = key.iter().map(|b| format!("%{b:02x}")).collect();
            let mut scratch = Vec::new();
            prop_assert_eq!(decode_path(encoded.as_bytes(), &mut scratch), Ok(&key[..]));
        }
    }
}
