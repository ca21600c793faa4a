//! Slows writers before flushes and compactions fall behind.
//!
//! fjall alone stops every writer at 4 sealed memtables (in steps of 100 ms) or at 30 runs in level
//! 0, and hardly slows them before. Here the rate that is let through falls smoothly from where the
//! backlog begins, so that fjall's own halts are not reached.
use super::{shared::Shared, tree::Tree, write_gate::Background};
use std::time::{Duration, Instant};

/// Runs in level 0: more than these slow writers, and so many let only [`LEAST`] through. fjall
/// compacts from 4 on.
const RUNS: (f64, f64) = (8.0, 20.0);
/// Sealed memtables: one is being flushed in normal times.
const SEALED: (f64, f64) = (1.0, 3.0);
/// Bytes per second let through when the backlog begins, and at its bound.
const MOST: f64 = 128.0 * (1 << 20) as f64;
const LEAST: f64 = (1 << 20) as f64;
/// Shorter delays are saved up.
const NAP: Duration = Duration::from_millis(1);
/// Looks again after so long, for the backlog changes.
const STEP: Duration = Duration::from_millis(10);

/// How far the backlog is: 0 none, 1 at its bound.
fn backlog(tree: &Tree) -> f64 {
    let share = |now: usize, (begin, bound): (f64, f64)| ((now as f64 - begin) / (bound - begin)).clamp(0.0, 1.0);
    let (sealed, runs) = tree.backlog();
    share(sealed, SEALED).max(share(runs, RUNS))
}

/// What flushes and compactions do.
pub(super) fn background(tree: &Tree) -> Background {
    if backlog(tree) > 0.0 {
        Background::Behind
    } else if tree.is_compacting() || tree.backlog().0 > 0 {
        Background::Running
    } else {
        Background::Idle
    }
}

/// The rate at this backlog; `None`: any.
fn rate(backlog: f64) -> Option<f64> {
    (backlog > 0.0).then(|| LEAST + (MOST - LEAST) * (1.0 - backlog).powi(3))
}

/// What is still to be waited for, of delays too short for a nap.
#[derive(Default)]
pub(super) struct Brake {
    owed: Duration,
}
impl Brake {
    /// Waits before a batch of so many bytes is written; says for how long.
    pub(super) fn slow(&mut self, shared: &Shared, bytes: usize) -> Duration {
        let Some(rate) = rate(backlog(&shared.tree)) else {
            self.owed = Duration::ZERO;
            return Duration::ZERO;
        };
        self.owed += Duration::from_secs_f64(bytes as f64 / rate);
        if self.owed < NAP {
            return Duration::ZERO;
        }
        let begun = Instant::now();
        // In steps: if the backlog clears, or the store has failed, there is nothing left to wait for.
        while !self.owed.is_zero() && backlog(&shared.tree) > 0.0 && shared.poison.reason().is_none() {
            let step = self.owed.min(STEP);
            std::thread::sleep(step);
            self.owed -= step;
        }
        self.owed = Duration::ZERO;
        begun.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_smoothly_and_never_to_nothing() {
        assert_eq!(rate(0.0), None);
        let rates: Vec<f64> = (1..=100).map(|share| rate(f64::from(share) / 100.0).expect("slowed")).collect();
        assert!(rates.windows(2).all(|pair| pair[0] > pair[1]));
        assert!(rates[0] > 0.9 * MOST && rates[99] == LEAST);
    }
}
