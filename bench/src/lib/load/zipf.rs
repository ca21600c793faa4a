//! Zipf's distribution, exactly: rank k of n is drawn with probability proportional to 1/k^θ.
//!
//! Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", ACM TOMACS 6(3), 1996): any θ > 0 (YCSB's formula is an
//! approximation and ends at 1), constant memory, one or two tries.
use fastrand::Rng;

/// Draws ranks from 0 (the most frequent) to n-1.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    theta: f64,
    n: f64,
    /// The integral of the density up to 1.5 less 1, and up to n + 0.5: the range that is drawn
    /// from.
    low: f64,
    high: f64,
    /// Draws this near above their rank are taken without looking.
    near: f64,
}

impl Zipf {
    /// `n` ranks, exponent `theta` above 0.
    pub(crate) fn new(n: u64, theta: f64) -> Zipf {
        let n = n as f64;
        let mut zipf = Zipf { theta, n, low: 0.0, high: 0.0, near: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(n + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// A rank.
    pub(crate) fn sample(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.high + rng.f64() * (self.low - self.high);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.n);
            if k - x <= self.near || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// ∫ x^-θ dx, shifted so that it is 0 at 1: (x^(1-θ) - 1) / (1-θ), and ln x for θ = 1.
    fn integral(&self, x: f64) -> f64 {
        let ln = x.ln();
        expm1_over((1.0 - self.theta) * ln) * ln
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.theta)).max(-1.0);
        (ln1p_over(t) * y).exp()
    }
}

/// (e^x - 1) / x, also near 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, also near 0.
fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's χ² of a million draws over ranks against theory, as a number of standard
    /// deviations above its mean.
    fn deviation(n: u64, theta: f64, ranks: usize) -> f64 {
        const DRAWS: u64 = 1_000_000;
        let zipf = Zipf::new(n, theta);
        let mut rng = Rng::with_seed(7);
        // The first ranks each have a cell, all others share one.
        let mut seen = vec![0u64; ranks + 1];
        for _ in 0..DRAWS {
            let rank = zipf.sample(&mut rng);
            assert!(rank < n);
            seen[(rank as usize).min(ranks)] += 1;
        }
        let weight = |k: u64| (k as f64).powf(-theta);
        let total: f64 = (1..=n).map(weight).sum();
        let mut chi2 = 0.0;
        let mut rest = 1.0;
        for (rank, &seen) in seen.iter().enumerate() {
            let share = if rank < ranks { weight(rank as u64 + 1) / total } else { rest };
            rest -= share;
            let expected = share * DRAWS as f64;
            if expected > 5.0 {
                chi2 += (seen as f64 - expected).powi(2) / expected;
            }
        }
        (chi2 - ranks as f64) / (2.0 * ranks as f64).sqrt()
    }

    #[test]
    fn ranks_are_as_frequent_as_the_theory_says() {
        for (n, theta) in [(1000, 0.5), (100_000, 0.99), (100_000, 1.0), (50_000, 1.2), (1000, 3.0)] {
            let deviation = deviation(n, theta, 100);
            assert!(deviation.abs() < 5.0, "n {n}, θ {theta}: χ² is {deviation:.1} standard deviations off");
        }
    }

    #[test]
    fn one_key_is_always_drawn() {
        let zipf = Zipf::new(1, 0.99);
        let mut rng = Rng::with_seed(1);
        assert!((0..1000).all(|_| zipf.sample(&mut rng) == 0));
    }
}
