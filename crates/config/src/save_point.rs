//! When a snapshot is due: `15m`, or `1m:1000` for one only after so many changes. Redis's
//! parameter `save` writes the same as pairs of numbers.
use larder_units::{parse_duration, show_duration};
use std::{fmt, time::Duration};

/// One rule. A snapshot is due if any of them says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavePoint {
    /// Since the last snapshot began.
    pub after: Duration,
    /// The least number of changes since then.
    pub changes: u64,
}

/// The longest time, seconds: ten years.
const LONGEST: u64 = 3650 * 24 * 60 * 60;

impl SavePoint {
    /// Reads `DURATION` or `DURATION:CHANGES`.
    pub fn parse(text: &str) -> Result<SavePoint, String> {
        let (after, changes) = text.split_once(':').unwrap_or((text, "0"));
        let after = parse_duration(after)?;
        if !(Duration::from_secs(1)..=Duration::from_secs(LONGEST)).contains(&after) {
            return Err(format!("`{text}`: the time is from 1s to {}", show_duration(Duration::from_secs(LONGEST))));
        }
        let count = || format!("`{text}`: what follows the colon is not a number of changes");
        let changes = changes.bytes().all(|byte| byte.is_ascii_digit()).then(|| changes.parse().ok()).flatten();
        Ok(SavePoint { after, changes: changes.ok_or_else(count)? })
    }

    /// Reads Redis's `save`: pairs of seconds and changes with single spaces between them. None: no
    /// snapshots but those on demand.
    pub fn parse_pairs(text: &str) -> Option<Vec<SavePoint>> {
        let words = text.split(' ').filter(|_| !text.is_empty());
        let numbers: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
        let (pairs, []) = numbers.as_deref()?.as_chunks() else { return None };
        let point = |[seconds, changes]: &[u64; 2]| {
            let after = Duration::from_secs(*seconds);
            (1..=LONGEST).contains(seconds).then_some(SavePoint { after, changes: *changes })
        };
        pairs.iter().map(point).collect()
    }

    /// Writes Redis's `save`.
    pub fn show_pairs(points: &[SavePoint]) -> String {
        let pair = |point: &SavePoint| format!("{} {}", point.after.as_secs(), point.changes);
        points.iter().map(pair).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for SavePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_duration(self.after))?;
        if self.changes > 0 {
            write!(f, ":{}", self.changes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_read_back() {
        for text in ["15m", "1m:1000", "1s", "3650d:18446744073709551615"] {
            assert_eq!(SavePoint::parse(text).map(|point| point.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "15", "999ms", "3651d", "1m:", "1m:x", "1m:-1", "1m:+1", "1m:18446744073709551616", ":5"] {
            assert!(SavePoint::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pairs_are_those_of_redis() {
        for (text, shown) in [("", ""), ("60 1000", "60 1000"), ("3600 1 300 100 60 0", "3600 1 300 100 60 0")] {
            assert_eq!(SavePoint::parse_pairs(text).map(|points| SavePoint::show_pairs(&points)), Some(shown.into()));
        }
        for text in [
            "60",
            "60 1 300",
            "0 1",
            "60 -1",
            "60 x",
            "60\t1",
            "60  1",
            "1e3 1",
            "99999999999 1",
            "60 18446744073709551616",
        ] {
            assert_eq!(SavePoint::parse_pairs(text), None, "{text}");
        }
    }
}
