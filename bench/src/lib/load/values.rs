//! Values: how long, and which bytes.
use anyhow::{Context, ensure};
use fastrand::Rng;
use std::str::FromStr;

/// Longest value: the largest there is.
const MAX: u64 = 512 << 20;

/// How long values are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Sizes {
    /// All alike: `64`, `4KiB`
    Fixed(usize),
    /// Each length of a range alike: `16-1024`
    Range(usize, usize),
    /// Lengths with weights: `64=90,4KiB=9,64KiB=1`
    Weighted(Vec<(usize, f64)>),
    /// Log-normal with this median, the logarithm's standard deviation, and a largest length:
    /// `lognormal:300:1.2:1MiB`
    LogNormal {
        /// Half of the values are shorter.
        median: f64,
        /// Of the natural logarithm.
        sigma: f64,
        /// Longer ones are cut.
        most: usize,
    },
}

fn size(text: &str) -> anyhow::Result<usize> {
    let size = larder_units::parse_size(text).map_err(anyhow::Error::msg)?;
    ensure!(size <= MAX, "size {text:?} is above the largest value, 512 MiB");
    Ok(size as usize)
}

impl FromStr for Sizes {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Sizes> {
        if let Some(arguments) = text.strip_prefix("lognormal:") {
            let mut arguments = arguments.splitn(3, ':');
            let mut next = || arguments.next().context("log-normal sizes read lognormal:MEDIAN:SIGMA:MOST");
            let (median, sigma, most) = (size(next()?)? as f64, next()?.parse()?, size(next()?)?);
            ensure!(median >= 1.0 && (0.0..=10.0).contains(&sigma), "{text:?}: MEDIAN from 1, SIGMA from 0 to 10");
            return Ok(Sizes::LogNormal { median, sigma, most });
        }
        if text.contains('=') {
            let weighted = |part: &str| -> anyhow::Result<(usize, f64)> {
                let (length, weight) = part.split_once('=').with_context(|| format!("{part:?} has no weight"))?;
                let weight: f64 = weight.parse().with_context(|| format!("weight {weight:?}"))?;
                ensure!(weight > 0.0 && weight.is_finite(), "weight {weight} is not above 0");
                Ok((size(length)?, weight))
            };
            return Ok(Sizes::Weighted(text.split(',').map(weighted).collect::<anyhow::Result<_>>()?));
        }
        match text.split_once('-') {
            Some((low, high)) => {
                let (low, high) = (size(low)?, size(high)?);
                ensure!(low <= high, "{text:?} is an empty range");
                Ok(Sizes::Range(low, high))
            }
            None => size(text).map(Sizes::Fixed),
        }
    }
}

impl Sizes {
    fn largest(&self) -> usize {
        match self {
            Sizes::Fixed(size) | Sizes::Range(_, size) | Sizes::LogNormal { most: size, .. } => *size,
            Sizes::Weighted(sizes) => sizes.iter().map(|&(size, _)| size).max().unwrap_or(0),
        }
    }

    /// A length.
    pub(crate) fn sample(&self, rng: &mut Rng) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range(low, high) => rng.usize(low..=high),
            Sizes::Weighted(sizes) => {
                let mut left = rng.f64() * sizes.iter().map(|(_, weight)| weight).sum::<f64>();
                let found = sizes.iter().find(|(_, weight)| {
                    left -= weight;
                    left < 0.0
                });
                found.or(sizes.last()).map_or(0, |&(size, _)| size)
            }
            Sizes::LogNormal { median, sigma, most } => {
                // Box and Muller's normal variate.
                let normal = (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
                ((median * (sigma * normal).exp()) as usize).min(*most)
            }
        }
    }
}

/// Makes values: random letters and digits, which no protocol needs to escape and no compressor
/// shrinks much.
#[derive(Debug, Clone)]
pub(crate) struct ValueMaker {
    sizes: Sizes,
    pool: std::sync::Arc<[u8]>,
}

impl ValueMaker {
    /// Where values start in the pool: one of so many places.
    const STARTS: usize = 4096;

    /// Values of these sizes.
    pub(crate) fn new(sizes: Sizes, seed: u64) -> ValueMaker {
        let mut rng = Rng::with_seed(seed);
        let pool =
            std::iter::repeat_with(|| rng.alphanumeric() as u8).take(sizes.largest() + ValueMaker::STARTS).collect();
        ValueMaker { sizes, pool }
    }

    /// A value of a length from the distribution.
    pub(crate) fn sample(&self, rng: &mut Rng) -> &[u8] {
        self.of_size(self.sizes.sample(rng), rng)
    }

    /// A value of this length, or of the largest there is if that is less.
    pub(crate) fn of_size(&self, size: usize, rng: &mut Rng) -> &[u8] {
        let start = rng.usize(..ValueMaker::STARTS);
        &self.pool[start..][..size.min(self.pool.len() - ValueMaker::STARTS)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(sizes: &str) -> f64 {
        let values = ValueMaker::new(sizes.parse().expect(sizes), 1);
        let mut rng = Rng::with_seed(5);
        (0..100_000).map(|_| values.sample(&mut rng).len() as f64).sum::<f64>() / 1e5
    }

    #[test]
    fn sizes_have_their_means() {
        assert_eq!(mean("64"), 64.0);
        assert_eq!(mean("0"), 0.0);
        assert!((mean("100-200") - 150.0).abs() < 1.0);
        assert!((mean("10=90,1KiB=10") - 111.4).abs() < 4.0);
        // A log-normal's mean is median * exp(sigma²/2).
        assert!((mean("lognormal:100:0.5:1MiB") / (100.0 * 0.125f64.exp()) - 1.0).abs() < 0.02);
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in ["", "x", "9-1", "1GiB", "64=", "64=0", "lognormal:1", "lognormal:1:2"] {
            wrong.parse::<Sizes>().expect_err(wrong);
        }
    }
}
