//! Which keys are asked for, and how they read: a number is drawn from a distribution, a pattern or
//! a file makes a key of it.
use super::zipf::Zipf;
use crate::lib::dataset;
use anyhow::{Context, bail, ensure};
use fastrand::Rng;
use std::{
    path::Path,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// How often each key is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum KeyDistribution {
    /// All alike
    Uniform,
    /// Key number k with a probability proportional to 1/(k+1)^θ
    Zipf(f64),
    /// One after the other, over and over
    Sequential,
    /// Key number 0 only
    Single,
    /// The first share of the keys gets a share of the requests, the others get the rest; each
    /// alike
    Hot {
        /// Share of the keys, above 0 and up to 1.
        keys: f64,
        /// Share of the requests, from 0 to 1.
        requests: f64,
    },
    /// The newest key most often, the k-th newest as in `Zipf` (YCSB D)
    Latest(f64),
}

impl FromStr for KeyDistribution {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<KeyDistribution> {
        let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
        let theta = || -> anyhow::Result<f64> {
            let theta: f64 = if arguments.is_empty() { 0.99 } else { arguments.parse()? };
            ensure!(theta > 0.0 && theta <= 100.0, "the exponent must be above 0 and at most 100");
            Ok(theta)
        };
        Ok(match name {
            "uniform" => KeyDistribution::Uniform,
            "seq" => KeyDistribution::Sequential,
            "single" => KeyDistribution::Single,
            "zipf" => KeyDistribution::Zipf(theta()?),
            "latest" => KeyDistribution::Latest(theta()?),
            "hot" => {
                let (keys, requests) = arguments.split_once(':').context("a hot set reads hot:0.1:0.9")?;
                let (keys, requests) = (keys.parse()?, requests.parse()?);
                ensure!(keys > 0.0 && keys <= 1.0, "a hot set's share of the keys is above 0 and at most 1");
                ensure!((0.0..=1.0).contains(&requests), "a hot set's share of the requests is from 0 to 1");
                KeyDistribution::Hot { keys, requests }
            }
            _ => bail!("{text:?} is none of uniform, zipf:THETA, seq, single, hot:KEYS:REQUESTS, latest:THETA"),
        })
    }
}

/// How a key's number reads.
#[derive(Debug, Clone)]
pub(crate) enum Names {
    /// Text around `{n}`, `{n:012}` (padded with zeros) or `{uuid}`.
    Pattern(Vec<NamePart>),
    /// The lines of a file.
    Listed(Arc<[Box<[u8]>]>),
}

/// A piece of a key pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamePart {
    /// Text as it is.
    Text(Vec<u8>),
    /// The number in decimal digits, at least so many.
    Number(usize),
    /// A UUID (version 4) that belongs to the number XOR this mask.
    Uuid(u64),
}

impl Names {
    /// Reads a pattern such as `key:{n}`.
    pub(crate) fn pattern(text: &str) -> anyhow::Result<Names> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let end = rest[at..].find('}').with_context(|| format!("--key {text:?}: a brace is not closed"))? + at;
            if at > 0 {
                parts.push(NamePart::Text(rest[..at].into()));
            }
            parts.push(match &rest[at + 1..end] {
                "n" => NamePart::Number(1),
                "uuid" => NamePart::Uuid(0),
                name => {
                    let width = name.strip_prefix("n:0").and_then(|width| width.parse().ok());
                    let width = width.filter(|&width| width <= 64);
                    NamePart::Number(width.with_context(|| {
                        format!("--key {text:?}: {{{name}}} is none of {{n}}, {{n:012}} (up to 64 digits), {{uuid}}")
                    })?)
                }
            });
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            parts.push(NamePart::Text(rest.into()));
        }
        ensure!(!parts.is_empty(), "--key is empty");
        Ok(Names::Pattern(parts))
    }

    /// The same keys with other UUIDs for another seed; seed 0 changes nothing.
    pub(crate) fn seeded(mut self, seed: u64) -> Names {
        if let Names::Pattern(parts) = &mut self {
            let mask = if seed == 0 { 0 } else { dataset::mix(seed) };
            for part in parts.iter_mut() {
                if let NamePart::Uuid(at) = part {
                    *at = mask;
                }
            }
        }
        self
    }

    /// Reads a file of keys, one a line; empty lines do not count.
    pub(crate) fn file(path: &Path) -> anyhow::Result<Names> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read the keys in {}", path.display()))?;
        let lines = bytes.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let keys: Arc<[Box<[u8]>]> = lines.filter(|line| !line.is_empty()).map(Box::from).collect();
        ensure!(!keys.is_empty(), "{} holds no key", path.display());
        Ok(Names::Listed(keys))
    }

    /// Number of keys that there are names for.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            Names::Pattern(_) => None,
            Names::Listed(keys) => Some(keys.len() as u64),
        }
    }

    /// memcached ends a key at a blank, so that such a request would be taken for several.
    pub(crate) fn check_for_memcache(&self) -> anyhow::Result<()> {
        let check = |key: &[u8]| {
            let shown = key.escape_ascii();
            ensure!(key.len() <= 250, "memcached takes keys of up to 250 bytes, not {shown}");
            ensure!(
                !key.iter().any(|byte| *byte <= b' ' || *byte == 127),
                "memcached takes no blank in a key: {shown}"
            );
            Ok(())
        };
        if let Names::Listed(keys) = self {
            return keys.iter().try_for_each(|key| check(key));
        }
        let mut longest = Vec::new();
        self.write(u64::MAX, &mut longest);
        check(&longest)
    }

    /// Appends the key of this number.
    pub(crate) fn write(&self, number: u64, out: &mut Vec<u8>) {
        match self {
            Names::Pattern(parts) => {
                for part in parts {
                    match part {
                        NamePart::Text(text) => out.extend_from_slice(text),
                        NamePart::Number(width) => {
                            let mut buffer = itoa::Buffer::new();
                            let digits = buffer.format(number);
                            out.extend(std::iter::repeat_n(b'0', width.saturating_sub(digits.len())));
                            out.extend_from_slice(digits.as_bytes());
                        }
                        NamePart::Uuid(mask) => dataset::uuid_of(number ^ mask, out),
                    }
                }
            }
            Names::Listed(keys) => out.extend_from_slice(&keys[(number % keys.len() as u64) as usize]),
        }
    }
}

/// The keys that a run asks for.
#[derive(Debug, Clone)]
pub(crate) struct KeySpace {
    /// How many there are at the start.
    pub(crate) count: u64,
    /// How they read.
    pub(crate) names: Names,
    /// How they are drawn.
    pub(crate) distribution: KeyDistribution,
}

/// Draws key numbers for one of the generator's threads.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    distribution: KeyDistribution,
    count: u64,
    zipf: Option<Zipf>,
    /// The next of a sequence, and how far the one after it is.
    sequence: u64,
    step: u64,
    /// Keys that there are, those inserted during the run included; shared by the threads.
    inserted: Arc<AtomicU64>,
}

impl Draw {
    /// The draw of thread number `thread` of `threads`, which share `inserted` (at first the number
    /// of keys).
    pub(crate) fn new(keys: &KeySpace, inserted: Arc<AtomicU64>, thread: usize, threads: usize) -> Draw {
        let zipf = match keys.distribution {
            KeyDistribution::Zipf(theta) | KeyDistribution::Latest(theta) => Some(Zipf::new(keys.count, theta)),
            _ => None,
        };
        let (sequence, step) = (thread as u64, threads as u64);
        Draw { distribution: keys.distribution, count: keys.count, zipf, sequence, step, inserted }
    }

    /// A key to ask for.
    pub(crate) fn key(&mut self, rng: &mut Rng) -> u64 {
        match (self.distribution, &self.zipf) {
            (KeyDistribution::Sequential, _) => {
                let number = self.sequence % self.count;
                self.sequence += self.step;
                number
            }
            (KeyDistribution::Hot { keys, requests }, _) => {
                let hot = ((self.count as f64 * keys) as u64).clamp(1, self.count);
                match rng.f64() < requests || hot == self.count {
                    true => rng.u64(..hot),
                    false => rng.u64(hot..self.count),
                }
            }
            (KeyDistribution::Zipf(_), Some(zipf)) => zipf.sample(rng),
            (KeyDistribution::Latest(_), Some(zipf)) => self.inserted.load(Ordering::Relaxed) - 1 - zipf.sample(rng),
            (KeyDistribution::Single, _) => 0,
            _ => rng.u64(..self.count),
        }
    }

    /// A key that there is not yet.
    pub(crate) fn new_key(&mut self) -> u64 {
        self.inserted.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(pattern: &str, number: u64) -> String {
        let mut out = Vec::new();
        Names::pattern(pattern).expect(pattern).write(number, &mut out);
        String::from_utf8(out).expect("text")
    }

    fn draw(distribution: &str, count: u64) -> (Draw, Rng) {
        let names = Names::pattern("{n}").expect("a pattern");
        let distribution = distribution.parse().expect(distribution);
        let keys = KeySpace { count, names, distribution };
        (Draw::new(&keys, Arc::new(AtomicU64::new(count)), 1, 2), Rng::with_seed(3))
    }

    #[test]
    fn patterns_make_keys() {
        assert_eq!(name("key:{n}", 42), "key:42");
        assert_eq!(name("key:{n:012}", 42), "key:000000000042");
        assert_eq!(name("{n}{n:03}x", 7), "7007x");
        let uuid = name("u/{uuid}", 9);
        assert_eq!(uuid.len(), 38);
        assert_eq!((uuid.as_bytes()[16], uuid.matches('-').count()), (b'4', 4));
        assert_ne!(uuid, name("u/{uuid}", 10));
        for wrong in ["{", "{x}", "{n:x}", "{n:099}", ""] {
            Names::pattern(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn a_file_names_the_keys() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "a\r\n\nb c\n").expect("written");
        let names = Names::file(file.path()).expect("two keys");
        assert_eq!(names.count(), Some(2));
        let mut out = Vec::new();
        names.write(1, &mut out);
        assert_eq!(out, b"b c");
    }

    #[test]
    fn a_sequence_is_shared_among_the_threads() {
        let (mut draw, mut rng) = draw("seq", 5);
        let drawn: Vec<u64> = (0..5).map(|_| draw.key(&mut rng)).collect();
        assert_eq!(drawn, [1, 3, 0, 2, 4]);
    }

    #[test]
    fn shares_are_as_asked() {
        let (mut draw, mut rng) = draw("hot:0.1:0.9", 1000);
        let hot = (0..100_000).filter(|_| draw.key(&mut rng) < 100).count();
        assert!((89_000..91_000).contains(&hot), "{hot}");
        let (mut draw, mut rng) = super::tests::draw("uniform", 10);
        let first = (0..100_000).filter(|_| draw.key(&mut rng) == 0).count();
        assert!((9_400..10_600).contains(&first), "{first}");
        let (mut draw, mut rng) = super::tests::draw("single", 10);
        assert!((0..100).all(|_| draw.key(&mut rng) == 0));
    }

    #[test]
    fn the_latest_follow_the_inserts() {
        let (mut draw, mut rng) = draw("latest:3", 100);
        for newest in 100..200 {
            assert_eq!(draw.new_key(), newest);
            assert!(draw.key(&mut rng) <= newest);
        }
        let newest = (0..1000).filter(|_| draw.key(&mut rng) == 199).count();
        assert!(newest > 700, "{newest}");
    }

    #[test]
    fn wrong_distributions_are_named() {
        for wrong in ["zip", "zipf:x", "zipf:0", "hot:2:1", "hot:0.5", ""] {
            wrong.parse::<KeyDistribution>().expect_err(wrong);
        }
        assert_eq!("zipf".parse::<KeyDistribution>().expect("YCSB's exponent"), KeyDistribution::Zipf(0.99));
    }
}
