//! The URL of a demonstration source: `demo:?delay=100ms&fail=0.1&absent=0.05`.
use super::url_parts::parameters;
use larder_units::{parse_duration, show_duration};
use std::{fmt, time::Duration};

/// A demonstration source, which makes up its answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DemoUrl {
    /// How long each answer takes.
    pub delay: Duration,
    /// Which share of the fetches fails.
    pub fail: Share,
    /// Which share of the keys is absent.
    pub absent: Share,
}

/// A part of a whole, in millionths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share(u32);
impl Share {
    const WHOLE: u32 = 1_000_000;
    /// Whether this share of all numbers includes `number`: true for about so many of evenly
    /// distributed ones.
    pub fn includes(self, number: u64) -> bool {
        // The high half of the product maps the number evenly onto 0 to a million.
        let millionth = (u128::from(number) * u128::from(Share::WHOLE)) >> 64;
        millionth < u128::from(self.0)
    }
    fn parse(name: &str, text: &str) -> Result<Share, String> {
        match text.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Share((share * f64::from(Share::WHOLE)).round() as u32)),
            _ => Err(format!("{name} is a share from 0 to 1, not `{text}`")),
        }
    }
}
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f64::from(self.0) / f64::from(Share::WHOLE)).fmt(f)
    }
}

impl DemoUrl {
    /// Reads what follows `demo:`.
    pub(super) fn parse(rest: &str) -> Result<DemoUrl, String> {
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !path.is_empty() {
            return Err("demo: has no path: write demo:?delay=100ms&fail=0.1&absent=0.05".to_string());
        }
        let mut url = DemoUrl::default();
        for parameter in parameters(query) {
            let (name, value) = parameter?;
            match name {
                "delay" => url.delay = parse_duration(&value).map_err(|error| format!("delay: {error}"))?,
                "fail" => url.fail = Share::parse(name, &value)?,
                "absent" => url.absent = Share::parse(name, &value)?,
                _ => return Err(format!("unknown parameter `{name}`: demo: takes delay, fail and absent")),
            }
        }
        Ok(url)
    }
}
impl fmt::Display for DemoUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delay = (!self.delay.is_zero()).then(|| format!("delay={}", show_duration(self.delay)));
        let share = |name, share: Share| (share != Share::default()).then(|| format!("{name}={share}"));
        let parameters = [delay, share("fail", self.fail), share("absent", self.absent)];
        let parameters: Vec<String> = parameters.into_iter().flatten().collect();
        let mark = if parameters.is_empty() { "" } else { "?" };
        write!(f, "demo:{mark}{}", parameters.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_shown() {
        for (text, shown) in [
            ("", "demo:"),
            ("//", "demo:"),
            ("?delay=100ms&fail=0.1&absent=0.05", "demo:?delay=100ms&fail=0.1&absent=0.05"),
            ("?fail=1&delay=0s&absent=0", "demo:?fail=1"),
            ("?absent=0.000001", "demo:?absent=0.000001"),
        ] {
            let url = DemoUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(url.to_string(), shown);
        }
        for (text, error) in [
            ("x", "demo: has no path"),
            ("?fail=2", "fail is a share from 0 to 1, not `2`"),
            ("?fail=NaN", "fail is a share from 0 to 1"),
            ("?absent=10%25", "absent is a share from 0 to 1, not `10%`"),
            ("?delay=soon", "delay: "),
            ("?dealy=1s", "unknown parameter `dealy`: demo: takes delay, fail and absent"),
        ] {
            let got = DemoUrl::parse(text).expect_err(text);
            assert!(got.contains(error), "{text}: {got}");
        }
    }

    #[test]
    fn a_share_includes_its_part_of_all_numbers() {
        let included = |text: &str| {
            let share = Share::parse("fail", text).expect("a share");
            (0..1000).filter(|number| share.includes((u64::MAX / 1000) * number + u64::MAX / 2000)).count()
        };
        assert_eq!([included("0"), included("0.25"), included("1")], [0, 250, 1000]);
    }
}
