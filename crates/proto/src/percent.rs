//! Percent escapes (RFC 3986 section 2.1): the one place that decodes them.
use percent_encoding::percent_decode;
use std::borrow::Cow;

/// Decodes the escapes in `text`. A `%` that two hexadecimal digits do not follow stays as it is.
pub fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    percent_decode(text).into()
}

/// Appends `text` to `out`, its escapes decoded.
pub fn decode_into(text: &[u8], out: &mut Vec<u8>) {
    out.extend(percent_decode(text));
}

/// Do two hexadecimal digits follow every `%`?
pub fn is_well_formed(text: &[u8]) -> bool {
    let mut pieces = text.split(|&byte| byte == b'%');
    // Before the first `%` anything may stand.
    pieces.next();
    pieces.all(|piece| matches!(piece, [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes() {
        assert_eq!(decode(b"a%2Fb+c%00%ff"), &b"a/b+c\x00\xff"[..]);
        assert_eq!(decode(b"100% %zz"), &b"100% %zz"[..]);
        for (text, well_formed) in
            [("", true), ("a", true), ("%20", true), ("a%2fb", true), ("%", false), ("%2", false), ("%+1", false)]
        {
            assert_eq!(is_well_formed(text.as_bytes()), well_formed, "{text}");
        }
        assert!(!is_well_formed(b"%%20") && !is_well_formed(b"%2%41"));
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let encoded: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert!(is_well_formed(encoded.as_bytes()));
            prop_assert_eq!(&*decode(encoded.as_bytes()), &bytes[..]);
        }
    }
}
