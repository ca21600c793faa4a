//! How long a user thinks between a reply and the next request.
use super::generator_options::duration;
use anyhow::ensure;
use fastrand::Rng;
use std::{fmt, str::FromStr, time::Duration};

/// A time, or a range of which each time is equally likely: `1s`, `500ms-2s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThinkTime {
    least: Duration,
    most: Duration,
}

impl FromStr for ThinkTime {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<ThinkTime> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let (least, most) = (duration(least)?, duration(most)?);
        ensure!(least <= most && most > Duration::ZERO, "{text:?} is no time above 0, nor a range FROM-TO of times");
        Ok(ThinkTime { least, most })
    }
}

impl fmt::Display for ThinkTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = larder_units::show_short_duration;
        match self.least == self.most {
            true => f.write_str(&show(self.most)),
            false => write!(f, "{}-{}", show(self.least), show(self.most)),
        }
    }
}

impl ThinkTime {
    /// A time, ns.
    pub(super) fn sample(self, rng: &mut Rng) -> u64 {
        rng.u64(self.least.as_nanos() as u64..=self.most.as_nanos() as u64)
    }

    /// A random part of the mean, ns: when a user makes its first request. Users that began together
    /// would come in waves.
    pub(super) fn first(self, rng: &mut Rng) -> u64 {
        rng.u64(..=((self.least + self.most) / 2).as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ranges_are_read_and_drawn() {
        let range: ThinkTime = "500ms-2s".parse().expect("a range");
        assert_eq!(range.to_string(), "500ms-2s");
        let mut rng = Rng::with_seed(1);
        let drawn: Vec<f64> = (0..10_000).map(|_| range.sample(&mut rng) as f64 / 1e9).collect();
        assert!(drawn.iter().all(|time| (0.5..=2.0).contains(time)));
        let mean = drawn.iter().sum::<f64>() / 1e4;
        assert!((mean - 1.25).abs() < 0.02, "{mean}");
        let fixed: ThinkTime = "1s".parse().expect("a time");
        assert_eq!((fixed.to_string().as_str(), fixed.sample(&mut rng)), ("1s", 1_000_000_000));
        for wrong in ["", "0s", "2s-1s", "x", "1s-"] {
            wrong.parse::<ThinkTime>().expect_err(wrong);
        }
    }
}
