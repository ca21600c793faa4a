//! Made traces that trap policies of one kind or another.
//!
//! The kinds are those of the traces that the authors of LIRS and of Caffeine's simulator describe:
//! loops, scans, keys that come back once, and chains of phases that want opposite policies.
use crate::lib::load::zipf::Zipf;
use fastrand::Rng;

/// Where the keys begin that are requested in no other part of a trace.
const APART: u64 = 1 << 40;

/// A kind of made trace. What `N` keys are is said by `--keys`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MadeTrace {
    /// All N keys in turn, again and again: the key that comes next is the one read longest ago
    Loop,
    /// All N keys up and down: recency and frequency are both of little use
    Zigzag,
    /// Three loops at once, over N/32, N/8 and N keys, mixed at random
    Loops,
    /// Zipf over N keys, half of the time interrupted by N/8 keys that are read once
    Scans,
    /// Each key is read twice, N/20 requests apart, and never again: only recency helps
    Returns,
    /// Each key is read eight times within N/100 requests and never again, mixed with Zipf over N
    /// keys: what was frequent is dead
    Bursts,
    /// Zipf over N keys, of which all change their places four times
    Shifts,
    /// Zipf over N keys that move on all the time, half of them during the trace
    Drift,
    /// Phases of N requests in turn: returns, a loop over N/4 keys, Zipf, scans
    Chain,
}

impl MadeTrace {
    /// So many requests over so many keys.
    pub(crate) fn keys(self, keys: u64, requests: u64, seed: u64) -> impl Iterator<Item = u64> {
        let (zipf, mut rng) = (Zipf::new(keys, 0.9), Rng::with_seed(seed));
        (0..requests).map(move |number| match self {
            MadeTrace::Chain => match number / keys % 4 {
                0 => MadeTrace::Returns.next(keys, requests, number, &zipf, &mut rng),
                1 => 2 * APART + number % (keys / 4).max(1),
                2 => zipf.sample(&mut rng),
                _ => MadeTrace::Scans.next(keys, requests, number, &zipf, &mut rng),
            },
            kind => kind.next(keys, requests, number, &zipf, &mut rng),
        })
    }

    fn next(self, keys: u64, requests: u64, number: u64, zipf: &Zipf, rng: &mut Rng) -> u64 {
        match self {
            MadeTrace::Loop => number % keys,
            MadeTrace::Zigzag => {
                let place = number % (2 * keys);
                place.min(2 * keys - 1 - place)
            }
            MadeTrace::Loops => {
                let loops = [keys / 32, keys / 8, keys].map(|length| length.max(1));
                let which = rng.usize(..loops.len());
                which as u64 * APART + number / 3 % loops[which]
            }
            MadeTrace::Scans if number / (keys / 8).max(1) % 2 == 1 => APART + number,
            MadeTrace::Returns => {
                let back = (keys / 20).max(1) | 1;
                match number % 2 {
                    0 => APART + number / 2,
                    _ if number < back => 3 * APART + number,
                    _ => APART + (number - back) / 2,
                }
            }
            MadeTrace::Bursts if number % 2 == 1 => {
                let alive = (keys / 800).max(1);
                APART + number / 16 + rng.u64(..alive)
            }
            MadeTrace::Shifts => zipf.sample(rng) + number * 5 / requests.max(1) * keys,
            MadeTrace::Drift => zipf.sample(rng) + number * keys / (2 * requests.max(1)),
            MadeTrace::Scans | MadeTrace::Bursts | MadeTrace::Chain => zipf.sample(rng),
        }
    }
}
