//! The arithmetic of INCRBYFLOAT: C's `long double` on x86-64 (64-bit significand), read with
//! `strtold` and printed with `%.17Lf` less trailing zeros. Rust has no such type, and with `f64`
//! 10.1 + 0.2 would not print as Redis prints it.
//!
//! Hexadecimal notation, which `strtold` also takes, is not a number here.
use std::cmp::Ordering;

/// Maximum length of a text that is parsed (`MAX_LONG_DOUBLE_CHARS` in Redis).
const MAX_TEXT: usize = 5 * 1024;
/// Exponent of the largest finite value: (2^64 - 1) · 2^MAX_EXPONENT.
const MAX_EXPONENT: i32 = 16384 - 64;
/// Exponent of the smallest subnormal.
const MIN_EXPONENT: i32 = -16445;

/// A finite number, or an infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LongDouble {
    negative: bool,
    /// The highest bit is set unless the value is zero or subnormal.
    significand: u64,
    /// The value is significand · 2^exponent.
    exponent: i32,
    infinite: bool,
}

impl LongDouble {
    pub(super) const ZERO: LongDouble = LongDouble { negative: false, significand: 0, exponent: 0, infinite: false };

    /// Parses a decimal number (or `inf`), rounding to nearest, ties to even. `None`: not a number,
    /// overflow, or underflow to zero.
    pub(super) fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= MAX_TEXT {
            return None;
        }
        let (negative, text) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(LongDouble { negative, infinite: true, ..LongDouble::ZERO });
        }
        let (digits, exponent) = decimal(text)?;
        let is_zero = digits.is_zero();
        let value = LongDouble::rounded(negative, digits, exponent);
        // Redis refuses what strtold reports as ERANGE.
        let in_range = !value.infinite && (is_zero || value.significand != 0);
        in_range.then_some(value)
    }

    /// digits · 10^exponent, rounded.
    fn rounded(negative: bool, mut numerator: Big, exponent: i64) -> LongDouble {
        let signed = |value| LongDouble { negative, ..value };
        // A number far out of range is decided first, so that the power below stays small.
        let magnitude = numerator.bits() as i64 * 3 / 10 + exponent;
        if numerator.is_zero() || magnitude < -5500 {
            return signed(LongDouble::ZERO);
        }
        if magnitude > 5500 {
            return signed(INFINITY);
        }
        let mut denominator = Big::from(1);
        match exponent {
            0.. => numerator.multiply_by_power_of_10(exponent as u32),
            _ => denominator.multiply_by_power_of_10(exponent.unsigned_abs() as u32),
        }
        // Scaled so that the quotient has 66 or 67 bits, divided one bit at a time.
        let shift = 66 - (numerator.bits() as i64 - denominator.bits() as i64);
        match shift {
            0.. => numerator.shift_left(shift as usize),
            _ => denominator.shift_left(shift.unsigned_abs() as usize),
        }
        denominator.shift_left(67);
        let mut quotient: u128 = 0;
        for _ in 0..67 {
            numerator.shift_left(1);
            quotient <<= 1;
            if numerator.compare(&denominator) != Ordering::Less {
                numerator.subtract(&denominator);
                quotient |= 1;
            }
        }
        let rest = u128::from(!numerator.is_zero());
        signed(LongDouble::nearest(quotient << 1 | rest, -shift as i32 - 1))
    }

    /// The nearest number to value · 2^exponent. The lowest bit of `value` may stand for a
    /// remainder of any size above zero.
    fn nearest(value: u128, exponent: i32) -> LongDouble {
        if value == 0 {
            return LongDouble::ZERO;
        }
        let bits = 128 - value.leading_zeros() as i32;
        let drop = (bits - 64).max(MIN_EXPONENT - exponent);
        let (mut significand, mut exponent) = match drop {
            128.. => (0, MIN_EXPONENT),
            1.. => (half_even(value, drop as u32), exponent + drop),
            _ => {
                // Normalise, as far as the smallest exponent allows.
                let up = (64 - bits).min(exponent - MIN_EXPONENT);
                (value << up, exponent - up)
            }
        };
        if significand >> 64 != 0 {
            significand >>= 1;
            exponent += 1;
        }
        if exponent > MAX_EXPONENT {
            return INFINITY;
        }
        LongDouble { negative: false, significand: significand as u64, exponent, infinite: false }
    }

    /// The sum; `None` if it is not a finite number.
    pub(super) fn add(self, other: LongDouble) -> Option<LongDouble> {
        if self.infinite || other.infinite {
            return None;
        }
        let (large, small) = match self.exponent >= other.exponent {
            _ if self.significand == 0 => (other, self),
            _ if other.significand == 0 => (self, other),
            true => (self, other),
            false => (other, self),
        };
        // 62 bits below the lowest bit of the larger number are exact. One more bit says whether anything
        // lies beyond.
        const BELOW: i32 = 62;
        let apart = large.exponent - small.exponent;
        let base = large.exponent - BELOW;
        let a = u128::from(large.significand) << BELOW;
        let b = u128::from(small.significand);
        let b = match BELOW - apart {
            up @ 0.. => b << up.min(BELOW),
            down => {
                let down = down.unsigned_abs().min(127);
                (b >> down) | u128::from(b & ((1 << down) - 1) != 0)
            }
        };
        let (magnitude, negative) = match (large.negative == small.negative, a.cmp(&b)) {
            (true, _) => (a + b, large.negative),
            (false, Ordering::Less) => (b - a, small.negative),
            (false, _) => (a - b, large.negative),
        };
        let sum = LongDouble::nearest(magnitude, base);
        (!sum.infinite).then_some(LongDouble { negative: negative && sum.significand != 0, ..sum })
    }

    pub(super) fn negated(self) -> LongDouble {
        LongDouble { negative: !self.negative, ..self }
    }
    /// Whether it is less than zero.
    pub(super) fn is_negative(self) -> bool {
        self.negative && (self.infinite || self.significand != 0)
    }
    pub(super) fn is_infinite(self) -> bool {
        self.infinite
    }

    /// Formats like `%.17Lf`, without trailing zeros.
    pub(super) fn print(self) -> String {
        const PLACES: u32 = 17;
        let mut digits = if self.exponent >= 0 {
            let mut whole = Big::from(self.significand);
            whole.shift_left(self.exponent as usize);
            return self.signed(whole.to_decimal());
        } else {
            // significand · 10^17 has at most 121 bits.
            let scaled = u128::from(self.significand) * 10u128.pow(PLACES);
            match self.exponent.unsigned_abs() {
                128.. => 0,
                down => half_even(scaled, down),
            }
            .to_string()
        };
        while digits.len() <= PLACES as usize {
            digits.insert(0, '0');
        }
        digits.insert(digits.len() - PLACES as usize, '.');
        let text = digits.trim_end_matches('0').trim_end_matches('.');
        self.signed(text.to_owned())
    }
    fn signed(self, text: String) -> String {
        match self.negative && text != "0" {
            true => format!("-{text}"),
            false => text,
        }
    }
}

const INFINITY: LongDouble = LongDouble { infinite: true, ..LongDouble::ZERO };

/// value / 2^drop, to nearest, ties to even. `drop` is 1 to 127.
fn half_even(value: u128, drop: u32) -> u128 {
    let kept = value >> drop;
    let rest = value & ((1 << drop) - 1);
    let half = 1 << (drop - 1);
    match rest.cmp(&half) {
        Ordering::Less => kept,
        Ordering::Equal => kept + (kept & 1),
        Ordering::Greater => kept + 1,
    }
}

/// The digits of `12.5e3` without the point, and the power of ten to multiply them with.
fn decimal(text: &[u8]) -> Option<(Big, i64)> {
    let mut digits = Big::from(0);
    let mut exponent: i64 = 0;
    let (mut any, mut point) = (false, false);
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b'0'..=b'9' => {
                digits.multiply(10);
                digits.add(u32::from(byte - b'0'));
                any = true;
                exponent -= i64::from(point);
            }
            b'.' if !point => point = true,
            b'e' | b'E' if any => {
                let (sign, number) = match after {
                    [b'-', number @ ..] => (-1, number),
                    [b'+', number @ ..] => (1, number),
                    number => (1, number),
                };
                if number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
                    return None;
                }
                let number = number.iter().fold(0i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(1 << 32));
                return Some((digits, exponent + sign * number));
            }
            _ => return None,
        }
        rest = after;
    }
    any.then_some((digits, exponent))
}

/// A natural number of any size; little-endian limbs, the highest not zero.
#[derive(Debug, Clone)]
struct Big(Vec<u32>);
impl Big {
    fn from(value: u64) -> Big {
        let mut big = Big(vec![value as u32, (value >> 32) as u32]);
        big.trim();
        big
    }
    fn trim(&mut self) {
        while self.0.pop_if(|limb| *limb == 0).is_some() {}
    }
    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }
    fn bits(&self) -> usize {
        self.0.last().map_or(0, |high| self.0.len() * 32 - high.leading_zeros() as usize)
    }
    fn multiply(&mut self, by: u32) {
        let mut carry = 0;
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(by);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }
    fn multiply_by_power_of_10(&mut self, mut power: u32) {
        while power > 0 {
            let step = power.min(9);
            self.multiply(10u32.pow(step));
            power -= step;
        }
    }
    fn add(&mut self, value: u32) {
        let mut carry = value;
        for limb in &mut self.0 {
            let (sum, over) = limb.overflowing_add(carry);
            *limb = sum;
            carry = u32::from(over);
        }
        if carry > 0 {
            self.0.push(carry);
        }
    }
    fn shift_left(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        let (limbs, bits) = (bits / 32, bits % 32);
        if bits > 0 {
            let mut carry = 0;
            for limb in &mut self.0 {
                let wide = u64::from(*limb) << bits | carry;
                *limb = wide as u32;
                carry = wide >> 32;
            }
            if carry > 0 {
                self.0.push(carry as u32);
            }
        }
        self.0.splice(0..0, std::iter::repeat_n(0, limbs));
    }
    fn compare(&self, other: &Big) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
    /// `other` must not be larger.
    fn subtract(&mut self, other: &Big) {
        let mut borrow = 0;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let take = u64::from(other.0.get(index).copied().unwrap_or(0)) + borrow;
            let (difference, under) = u64::from(*limb).overflowing_sub(take);
            *limb = difference as u32;
            borrow = u64::from(under);
        }
        self.trim();
    }
    fn to_decimal(&self) -> String {
        let mut left = self.clone();
        let mut groups = Vec::new();
        while !left.is_zero() {
            let mut rest = 0;
            for limb in left.0.iter_mut().rev() {
                let wide = rest << 32 | u64::from(*limb);
                *limb = (wide / 1_000_000_000) as u32;
                rest = wide % 1_000_000_000;
            }
            left.trim();
            groups.push(rest);
        }
        let Some(first) = groups.pop() else {
            return "0".to_owned();
        };
        groups.iter().rev().fold(first.to_string(), |text, group| text + &format!("{group:09}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let (a, b) = (LongDouble::parse(a.as_bytes())?, LongDouble::parse(b.as_bytes())?);
        a.add(b).map(LongDouble::print)
    }

    #[test]
    fn as_c_prints_them() {
        // The right-hand sides were printed by a C program with `long double` on x86-64.
        for (a, b, expected) in [
            ("0", "0", "0"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "1.1", "4.1"),
            ("0.1", "0.2", "0.3"),
            ("1", "-1", "0"),
            ("-0", "-0.0", "0"),
            ("1000.1", "0", "1000.09999999999999998"),
            ("123456789.123", "0.001", "123456789.12399999999615829"),
            ("1e20", "1", "100000000000000000000"),
            ("1e21", "1", "1000000000000000000000"),
            ("17179869184", "1", "17179869185"),
            ("1e-17", "0", "0.00000000000000001"),
            ("4.9e-18", "0", "0"),
            ("-1.5", ".25", "-1.25"),
            ("1.", "+1", "2"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
    }

    #[test]
    fn edges() {
        for bad in [
            "",
            "-",
            ".",
            "e5",
            "1e",
            "1e+",
            "1 ",
            " 1",
            "1.2.3",
            "0x10",
            "nan",
            "1e5000",
            "1e-5000",
            "1e99999999999999999999",
            "--1",
            "infi",
        ] {
            assert_eq!(LongDouble::parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert!(LongDouble::parse(&b"1".repeat(4000)).is_some());
        assert_eq!(LongDouble::parse(&b"1".repeat(MAX_TEXT)), None);
        let max = "1.18973149535723176502e4932";
        assert_eq!(sum(max, max), None, "overflows");
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("-inf", "inf"), None);
        let largest = sum(max, "0").expect("finite");
        assert_eq!(largest.len(), 4933);
        assert!(largest.starts_with("11897314953572317650"));
        assert_eq!(sum("3.7e-4951", "0").as_deref(), Some("0"), "the smallest subnormal");
    }

    proptest! {
        #[test]
        fn integers_are_exact(a in -(1i64 << 62)..1i64 << 62, b in -(1i64 << 62)..1i64 << 62) {
            prop_assert_eq!(sum(&a.to_string(), &b.to_string()), Some((a + b).to_string()));
        }
        #[test]
        fn quarters_are_exact(a in -(1i64 << 40)..1i64 << 40, b in -(1i64 << 40)..1i64 << 40) {
            let text = |n: i64| format!("{}", n as f64 / 4.0);
            prop_assert_eq!(sum(&text(a), &text(b)), Some(text(a + b)));
        }
        #[test]
        fn within_an_ulp_of_a_double(a in -1e9f64..1e9, b in -1e9f64..1e9) {
            let sum: f64 = sum(&a.to_string(), &b.to_string()).expect("finite").parse().expect("a number");
            prop_assert!((sum - (a + b)).abs() <= (a.abs() + b.abs()) * f64::EPSILON);
        }
    }
}
