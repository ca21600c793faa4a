//! Traces of several shapes, made from a seed.
use crate::lib::load::zipf::Zipf;
use fastrand::Rng;

/// What happens to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Get(u64),
    Set(u64),
    Delete(u64),
}

/// A shape of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Shape {
    /// Zipf, exponent 0.99
    Zipf,
    /// Zipf, exponent 0.7
    Flat,
    /// Zipf, of which the keys move on all the time
    Shifting,
    /// Zipf with long scans of keys that are read once
    Scans,
    /// A loop over all keys, mixed with Zipf
    Loop,
    /// Zipf with lifetimes from half a second to a minute
    Lifetimes,
    /// Zipf with values from 16 bytes to 8 KiB, in a bound on bytes
    Sizes,
    /// Zipf with writes and deletes among the reads
    Writes,
}

impl Shape {
    /// Whether bytes bound the tier, and not keys.
    pub(super) fn is_bound_by_bytes(self) -> bool {
        self == Shape::Sizes
    }

    /// Bytes of a key's value.
    pub(super) fn value_size(self, key: u64) -> usize {
        match self {
            Shape::Sizes => (1 << (4 + mixed(key) % 10)) | ((mixed(key) >> 20) as usize % 16),
            _ => 16,
        }
    }

    /// Lifetime of a key's value, ms.
    pub(super) fn lifetime(self, key: u64) -> Option<u64> {
        (self == Shape::Lifetimes).then(|| 500 << (mixed(key) % 8))
    }

    /// So many steps over so many keys.
    pub(super) fn steps(self, keys: u64, count: u64, seed: u64) -> impl Iterator<Item = Step> {
        let theta = if self == Shape::Flat { 0.7 } else { 0.99 };
        let (zipf, mut rng) = (Zipf::new(keys, theta), Rng::with_seed(seed));
        (0..count).map(move |number| {
            let key = zipf.sample(&mut rng);
            match self {
                // Half of the keys change places during the trace.
                Shape::Shifting => Step::Get(key + number * keys / (2 * count)),
                Shape::Scans if number / (keys / 4) % 4 == 3 => Step::Get(keys + number),
                Shape::Loop if !number.is_multiple_of(4) => Step::Get(keys + number % keys),
                Shape::Writes => match rng.u8(..) {
                    0..16 => Step::Set(key),
                    16..24 => Step::Delete(key),
                    _ => Step::Get(key),
                },
                _ => Step::Get(key),
            }
        })
    }
}

/// A number that depends on the key alone.
fn mixed(key: u64) -> u64 {
    (key ^ 0x5851_f42d_4c95_7f2d)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xd6e8_feb8_6659_fd93)
        >> 20
}
