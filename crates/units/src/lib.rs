//! Sizes (`64MiB`, `1GB`) and durations (`250ms`, `10s`), in and out.
#![warn(missing_docs)]
use std::time::Duration;

const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];
/// In microseconds.
const DURATIONS: [(&str, u64); 6] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];
/// The units that settings know: all but the microsecond.
const WHOLE_MILLIS: usize = 5;

/// A number of bytes: digits alone, or with one of B, kB, MB, GB, TB (powers of 1000), KiB, MiB,
/// GiB, TiB (powers of 1024), in any case.
///
/// `k`, `m`, `g` and `t` alone are refused: they mean 1000 to some programs and 1024 to others.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let what = "a size: write 64MiB, 1GB, 512kB or a number of bytes";
    let number = digits(number).ok_or_else(|| format!("`{text}` is not {what}"))?;
    if let [letter @ (b'k' | b'K' | b'm' | b'M' | b'g' | b'G' | b't' | b'T')] = unit.as_bytes() {
        let letter = letter.to_ascii_uppercase() as char;
        return Err(format!(
            "`{text}` is ambiguous: write {number}{letter}iB (powers of 1024) or {number}{letter}B (powers of 1000)"
        ));
    }
    let factor = match unit {
        "" => 1,
        unit => {
            factor(&SIZES, |name| name.eq_ignore_ascii_case(unit)).ok_or_else(|| format!("`{text}` is not {what}"))?
        }
    };
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large"))
}

/// A duration: digits and one of ms, s, m, h, d.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration(text, &DURATIONS[..WHOLE_MILLIS], "a duration: write 250ms, 10s, 5m, 1h or 1d")
}

/// A duration that may be shorter than a millisecond: digits and one of us, ms, s, m, h, d.
pub fn parse_short_duration(text: &str) -> Result<Duration, String> {
    duration(text, &DURATIONS, "a duration: write 500us, 250ms, 10s, 5m, 1h or 1d")
}

fn duration(text: &str, units: &[(&str, u64)], what: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let number = digits(number).ok_or_else(|| format!("`{text}` is not {what}"))?;
    if unit.is_empty() {
        return Err(format!("`{text}` has no unit: write {number}s or {number}ms"));
    }
    let factor = factor(units, |name| name == unit).ok_or_else(|| format!("`{text}` is not {what}"))?;
    // Milliseconds in 64 bits are the limit. Their microseconds may need more.
    let micros = u128::from(number) * u128::from(factor);
    let millis = u64::try_from(micros / 1_000).map_err(|_| format!("`{text}` is too large"))?;
    Ok(Duration::from_millis(millis) + Duration::from_micros((micros % 1_000) as u64))
}

/// Writes a size in the largest binary unit that divides it, so that it reads back as the same
/// number.
pub fn show_size(bytes: u64) -> String {
    let (unit, factor) =
        SIZES[..4].iter().find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor)).unwrap_or(&("B", 1));
    format!("{}{unit}", bytes / factor)
}

/// Like `show_size`, rounded to one digit after the point: for people.
pub fn show_rounded_size(bytes: u64) -> String {
    let (unit, factor) = SIZES[..4].iter().find(|(_, factor)| bytes >= *factor).unwrap_or(&("B", 1));
    let text = format!("{:.1}", bytes as f64 / *factor as f64);
    format!("{}{unit}", text.trim_end_matches(".0"))
}

/// Writes a duration in the largest unit that divides it, so that it reads back as the same number
/// of milliseconds.
pub fn show_duration(duration: Duration) -> String {
    show(duration.as_millis() * 1_000, &DURATIONS[..WHOLE_MILLIS])
}

/// Writes a duration in the largest unit that divides it, so that it reads back as the same number
/// of microseconds.
pub fn show_short_duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    if micros == 0 { "0ms".to_owned() } else { show(micros, &DURATIONS) }
}

fn show(micros: u128, units: &[(&str, u64)]) -> String {
    let divides = |&&(_, factor): &&(&str, u64)| micros != 0 && micros.is_multiple_of(u128::from(factor));
    let (unit, factor) = units.iter().find(divides).unwrap_or(&units[units.len() - 1]);
    format!("{}{unit}", micros / u128::from(*factor))
}

/// Digits and what follows them.
fn split(text: &str) -> (&str, &str) {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..at], text[at..].trim_start())
}
/// Rust's own integer parser also takes a sign.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}
fn factor(units: &[(&str, u64)], is: impl Fn(&str) -> bool) -> Option<u64> {
    units.iter().find(|(name, _)| is(name)).map(|(_, factor)| *factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("1kB", 1000),
            ("1KB", 1000),
            ("1KiB", 1024),
            ("64MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("64 MiB", 64 << 20),
            ("1GB", 1_000_000_000),
            ("2TiB", 2 << 40),
            ("3TB", 3_000_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "+1", "1.5GiB", "64Mib!", "64 Mi B", "1e3", "٣B"] {
            let error = parse_size(text).unwrap_err();
            assert!(error.contains("is not a size: write 64MiB"), "{text}: {error}");
        }
        assert_eq!(
            parse_size("512k").unwrap_err(),
            "`512k` is ambiguous: write 512KiB (powers of 1024) or 512KB (powers of 1000)"
        );
        assert_eq!(parse_size("99999999TiB").unwrap_err(), "`99999999TiB` is too large");
        assert!(parse_size("99999999999999999999999").is_err());
    }

    #[test]
    fn durations() {
        for (text, millis) in
            [("0ms", 0), ("250ms", 250), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000), ("1d", 86_400_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration("10").unwrap_err(), "`10` has no unit: write 10s or 10ms");
        for text in ["", "s", "-1s", "1.5s", "1w", "1M", "1 hour"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("is not a duration: write 250ms"), "{text}: {error}");
        }
        assert_eq!(parse_duration("9999999999999999d").unwrap_err(), "`9999999999999999d` is too large");
    }

    #[test]
    fn only_short_durations_have_microseconds() {
        assert_eq!(parse_short_duration("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(parse_short_duration("10s"), Ok(Duration::from_secs(10)));
        assert!(parse_duration("500us").unwrap_err().contains("write 250ms"));
        assert!(parse_short_duration("1w").unwrap_err().contains("write 500us"));
        for (micros, text) in [(0, "0ms"), (1, "1us"), (1_500, "1500us"), (1_000, "1ms"), (90_000_000, "90s")] {
            assert_eq!(show_short_duration(Duration::from_micros(micros)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(bytes: u64, millis in 0..u64::MAX / 2, shift in 0..50u32) {
            prop_assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
            prop_assert_eq!(parse_size(&show_size(bytes << shift)), Ok(bytes << shift));
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
            // Their number is in 64 bits, whatever the unit.
            let short = Duration::from_micros(millis);
            prop_assert_eq!(parse_short_duration(&show_short_duration(short)), Ok(short));
        }
        #[test]
        fn any_text_is_an_answer(text: String) {
            let _ = parse_size(&text);
            let _ = parse_duration(&text);
        }
    }
}
