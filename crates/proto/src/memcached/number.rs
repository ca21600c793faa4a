//! Numbers as memcached reads them: with C's `strtol`, so a sign and leading white space are fine.

/// The digits of a token with its sign, as C's `strtol` finds them. White space may follow them.
fn digits(token: &[u8]) -> Option<(bool, &[u8])> {
    let token = &token[token.iter().take_while(|byte| is_space(**byte)).count()..];
    let (negative, token) = match token {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let length = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = token.split_at(length);
    let ends = rest.first().is_none_or(|byte| is_space(*byte));
    (length > 0 && ends).then_some((negative, digits))
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

fn unsigned(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// A number without a sign. memcached takes `-0`.
pub fn parse_u64(token: &[u8]) -> Option<u64> {
    let (negative, digits) = digits(token)?;
    let number = unsigned(digits)?;
    (!negative || number == 0).then_some(number)
}

/// Like `parse_u64`, in 32 bits.
pub(super) fn parse_u32(token: &[u8]) -> Option<u32> {
    parse_u64(token)?.try_into().ok()
}

/// A number with or without a sign.
pub(super) fn parse_i64(token: &[u8]) -> Option<i64> {
    let (negative, digits) = digits(token)?;
    let number = i64::try_from(unsigned(digits)?).ok()?;
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_like_strtol() {
        for (token, expected) in [
            ("7", Some(7)),
            ("+7", Some(7)),
            ("-7", Some(-7)),
            ("\t7", Some(7)),
            ("7\t8", Some(7)),
            ("", None),
            ("-", None),
            ("7x", None),
            ("x7", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
        ] {
            assert_eq!(parse_i64(token.as_bytes()), expected, "{token:?}");
        }
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!((parse_u64(b"-1"), parse_u64(b"-0")), (None, Some(0)));
        assert_eq!((parse_u32(b"4294967295"), parse_u32(b"4294967296")), (Some(u32::MAX), None));
    }
}
