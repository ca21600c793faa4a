//! Decimal integers as Redis reads them: canonical only (no sign `+`, no leading zeros, no spaces).

/// Digits that cannot overflow a `u64`.
const SAFE_DIGITS: usize = 19;

/// A canonical unsigned integer, or `None`.
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > SAFE_DIGITS + 1 || (text[0] == b'0' && text.len() > 1) {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A canonical signed integer (`string2ll` in Redis: `-0` is none), or `None`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        None => i64::try_from(parse_u64(text)?).ok(),
        Some(digits) => match parse_u64(digits)? {
            0 => None,
            magnitude => 0i64.checked_sub_unsigned(magnitude),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn canonical_only() {
        for text in ["", "-", "+1", "01", "-01", "-0", " 1", "1 ", "1a", "0x1", "--1"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"99999999999999999999"), None);
        assert_eq!(parse_i64(b"0"), Some(0));
    }

    proptest! {
        #[test]
        fn round_trips(value: i64) {
            prop_assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
        #[test]
        fn accepts_only_what_prints_the_same(text in "-?[0-9]{0,21}") {
            let parsed = parse_i64(text.as_bytes());
            prop_assert_eq!(parsed.map(|v| v.to_string() == text).unwrap_or(true), true);
            prop_assert_eq!(parsed.is_some(), text.parse::<i64>().is_ok_and(|v| v.to_string() == text));
        }
    }
}
