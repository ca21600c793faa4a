//! The exact order of JSON's numbers.
use std::cmp::Ordering;

/// A number of JSON, compared by its digits: no float, no integer of any width, and no memory that
/// grows with its exponent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decimal<'t> {
    is_negative: bool,
    /// The value is 0.DIGITS times 10 to this power, with DIGITS in two parts. Powers beyond
    /// the range of 128 bits (about 1.7e38) count as its end.
    power: i128,
    /// Without zeros at the start.
    whole: &'t [u8],
    /// Without zeros at the end, and at the start where `whole` is empty.
    fraction: &'t [u8],
}

impl<'t> Decimal<'t> {
    /// Of a number's text, which is not checked.
    pub(crate) fn of(number: &'t [u8]) -> Decimal<'t> {
        let is_negative = number.first() == Some(&b'-');
        let digits = &number[usize::from(is_negative)..];
        let (mantissa, exponent) = match memchr::memchr2(b'e', b'E', digits) {
            Some(at) => (&digits[..at], power(&digits[at + 1..])),
            None => (digits, 0),
        };
        let (whole, fraction) = match memchr::memchr(b'.', mantissa) {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        let mut whole = without_leading_zeros(whole);
        let mut fraction = without_trailing_zeros(fraction);
        let mut power = exponent.saturating_add(whole.len() as i128);
        if whole.is_empty() {
            let leading = fraction.len();
            fraction = without_leading_zeros(fraction);
            power = power.saturating_sub((leading - fraction.len()) as i128);
        }
        if fraction.is_empty() {
            whole = without_trailing_zeros(whole);
        }
        match whole.is_empty() && fraction.is_empty() {
            true => Decimal { is_negative: false, power: 0, whole, fraction },
            false => Decimal { is_negative, power, whole, fraction },
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    /// Which of two is greater.
    pub(crate) fn order(&self, other: &Decimal<'_>) -> Ordering {
        let sign = |number: &Decimal<'_>| match (number.is_zero(), number.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let digits = |number: &Decimal<'t>| number.whole.iter().chain(number.fraction);
        let others = other.whole.iter().chain(other.fraction);
        let size = || self.power.cmp(&other.power).then_with(|| digits(self).cmp(others));
        sign(self).cmp(&sign(other)).then_with(|| if self.is_negative { size().reverse() } else { size() })
    }
}

/// The number after an `e`, or the nearest that there is room for.
fn power(text: &[u8]) -> i128 {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let size = digits
        .iter()
        .fold(0_i128, |size, digit| size.saturating_mul(10).saturating_add(i128::from(digit.wrapping_sub(b'0'))));
    if text.first() == Some(&b'-') { -size } else { size }
}

fn without_leading_zeros(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|digit| **digit == b'0').count()..]
}

fn without_trailing_zeros(digits: &[u8]) -> &[u8] {
    &digits[..digits.len() - digits.iter().rev().take_while(|digit| **digit == b'0').count()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(a: &str, b: &str) -> Ordering {
        Decimal::of(a.as_bytes()).order(&Decimal::of(b.as_bytes()))
    }

    #[test]
    fn numbers_are_compared_by_their_digits() {
        // Each is less than the next.
        let groups: [&[&str]; 22] = [
            &["-1e99999999999999999999999999", "-10e99999999999999999999999998"],
            &["-1e400", "-10e399", "-0.1e401"],
            &["-18446744073709551616", "-1.8446744073709551616e19"],
            &["-18446744073709551615"],
            &["-2", "-2.0", "-20e-1"],
            &["-1.5", "-15E-1"],
            &["-1e-400"],
            &["0", "-0", "0.0", "-0.000", "0e5", "-0E-99999999999999999999999999999999999999999"],
            &["1e-1000000001"],
            &["1e-1000000000", "0.1e-999999999"],
            &["0.1", "1e-1", "0.10", "100e-3"],
            &["0.10000000000000001"],
            &["1", "1.0", "10e-1", "0.01e2", "1e0", "1E+0", "1e-0"],
            &["100", "1e2", "1.00e2", "1000e-1"],
            &["9007199254740992"],
            &["9007199254740993", "9007199254740993.0", "9.007199254740993e15"],
            &["1152921504606846976", "1152921504606846976.00"],
            &["1152921504606846977"],
            &["18446744073709551614"],
            &["18446744073709551615", "1844674407370955161.5e1"],
            &["1e400"],
            &["1e1000000000", "10e999999999"],
        ];
        for (at, numbers) in groups.iter().enumerate() {
            for (other_at, others) in groups.iter().enumerate() {
                for (a, b) in numbers.iter().flat_map(|a| others.iter().map(move |b| (a, b))) {
                    assert_eq!(order(a, b), at.cmp(&other_at), "{a} and {b}");
                }
            }
        }
    }

    #[test]
    fn powers_beyond_128_bits_count_as_the_largest() {
        let nines = "9".repeat(38);
        assert_eq!(order(&format!("1e{nines}"), "1e9"), Ordering::Greater);
        assert_eq!(order(&format!("1e-{nines}"), &format!("1e-{}8", &nines[1..])), Ordering::Less);
        assert_eq!(order(&format!("1e{nines}9"), &format!("1e{nines}8")), Ordering::Equal);
        assert_eq!(order(&format!("1e-{nines}9"), "0"), Ordering::Greater);
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_integers(a: i128, b in any::<i128>(), shift in 0_usize..5) {
            let (a, b) = (a / 100_000, b / 100_000);
            let moved = |number: i128| format!("{}e-{shift}", number * 10_i128.pow(shift as u32));
            for b in [b, a, a + 1, a - 1] {
                prop_assert_eq!(order(&a.to_string(), &b.to_string()), a.cmp(&b));
                prop_assert_eq!(order(&moved(a), &format!("{b}.00")), a.cmp(&b));
            }
        }

        #[test]
        fn any_bytes_have_an_order(a in "[-+.eE0-9x]{0,50}", b in "[-+.eE0-9x]{0,50}") {
            prop_assert_eq!(order(&a, &b), order(&b, &a).reverse());
        }
    }
}
