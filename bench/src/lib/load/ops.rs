//! What is asked: operations, their mix, and YCSB's workloads by name.
use anyhow::{Context, bail, ensure};
use fastrand::Rng;

/// A kind of request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verb {
    /// Read a key.
    Get,
    /// Write a key.
    Set,
    /// Remove a key.
    Del,
    /// Read so many keys at once.
    Mget(u32),
    /// Write a key that there is not yet.
    Insert,
    /// Read a run of consecutive keys, one to so many: what a scan is to a cache without an order.
    Scan(u32),
    /// Read a key, then write it; one request that ends with the write's reply.
    ReadModifyWrite,
    /// The request as given, with `{key}` and `{value}` filled in.
    Raw(String),
}

/// The operations of a run and how frequent each is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mix {
    /// The operations, each with the sum of its weight and of all before it.
    verbs: Vec<(Verb, f64)>,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DrawnOperation {
    /// Its number in the mix.
    pub(crate) verb: u16,
    /// The number of its (first) key.
    pub(crate) key: u64,
    /// The length of its value, if a trace says it.
    pub(crate) size: Option<u32>,
}

/// A workload of YCSB: its mix, and how it draws its keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workload {
    /// The operations.
    pub(crate) mix: Mix,
    /// The distribution that belongs to it, if it is a named workload.
    pub(crate) distribution: Option<&'static str>,
}

impl Workload {
    /// Reads the `--op` options: one of `get`, `set`, `del`, `mget[:10]`, `insert`, `scan[:100]`,
    /// `rmw`, `mix:get=90,set=10`, `ycsb:a` … `ycsb:f`, or any number of raw requests (or
    /// names), each perhaps with its weight before it: `90%GET /v0/entity?id={key}`.
    ///
    /// YCSB core workloads (Cooper et al. 2010, `workloads/workload[a-f]`): E's scan is a read of
    /// consecutive keys here.
    pub(crate) fn parse(options: &[String]) -> anyhow::Result<Workload> {
        if let [option] = options {
            if let Some(list) = option.strip_prefix("mix:") {
                return Ok(Workload { mix: Mix::list(list)?, distribution: None });
            }
            if let Some(letter) = option.strip_prefix("ycsb:").or_else(|| option.strip_prefix("ycsb-")) {
                return Workload::ycsb(letter);
            }
        }
        let weighted = |option: &String| -> anyhow::Result<(Verb, f64)> {
            let (weight, text) = match option.split_once('%') {
                Some((weight, text)) if weight.parse::<f64>().is_ok() => (weight.parse()?, text),
                _ => (1.0, option.as_str()),
            };
            Ok((verb(text)?, weight))
        };
        Ok(Workload {
            mix: Mix::new(options.iter().map(weighted).collect::<anyhow::Result<_>>()?)?,
            distribution: None,
        })
    }

    fn ycsb(letter: &str) -> anyhow::Result<Workload> {
        let (mix, distribution) = match letter {
            "a" | "A" => ("get=50,set=50", "zipf:0.99"),
            "b" | "B" => ("get=95,set=5", "zipf:0.99"),
            "c" | "C" => ("get=100", "zipf:0.99"),
            "d" | "D" => ("get=95,insert=5", "latest:0.99"),
            "e" | "E" => ("scan=95,insert=5", "zipf:0.99"),
            "f" | "F" => ("get=50,rmw=50", "zipf:0.99"),
            _ => bail!("YCSB has the workloads a to f, not {letter:?}"),
        };
        Ok(Workload { mix: Mix::list(mix)?, distribution: Some(distribution) })
    }
}

impl Mix {
    /// Operations with their weights.
    pub(crate) fn new(verbs: Vec<(Verb, f64)>) -> anyhow::Result<Mix> {
        ensure!(!verbs.is_empty(), "there is no operation");
        let mut sum = 0.0;
        let verbs = verbs.into_iter().map(|(verb, weight)| {
            ensure!(weight > 0.0 && weight.is_finite(), "an operation's weight is above 0, not {weight}");
            sum += weight;
            Ok((verb, sum))
        });
        Ok(Mix { verbs: verbs.collect::<anyhow::Result<_>>()? })
    }

    fn list(text: &str) -> anyhow::Result<Mix> {
        let part = |part: &str| -> anyhow::Result<(Verb, f64)> {
            let (name, weight) = part.split_once('=').with_context(|| format!("{part:?} of the mix has no weight"))?;
            let verb = verb(name)?;
            ensure!(!matches!(verb, Verb::Raw(_)), "{name:?} of the mix is none of {NAMES}");
            Ok((verb, weight.parse().with_context(|| format!("weight {weight:?} of {name} is not a number"))?))
        };
        Mix::new(text.split(',').map(part).collect::<anyhow::Result<_>>()?)
    }

    /// The operations.
    pub(crate) fn verbs(&self) -> impl ExactSizeIterator<Item = &Verb> {
        self.verbs.iter().map(|(verb, _)| verb)
    }

    /// The number of the next operation.
    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        match &self.verbs[..] {
            [_] => 0,
            verbs => {
                let total = verbs.last().map_or(0.0, |&(_, sum)| sum);
                let at = rng.f64() * total;
                verbs.iter().position(|&(_, sum)| at < sum).unwrap_or(verbs.len() - 1)
            }
        }
    }
}

const NAMES: &str = "get, set, del, mget, mget:10, insert, scan, scan:100, rmw";

fn verb(text: &str) -> anyhow::Result<Verb> {
    let (name, count) = match text.split_once(':') {
        Some((name, count)) if name == "mget" || name == "scan" => {
            let number: u32 = count.parse().with_context(|| format!("{text:?}: {count:?} is not a number of keys"))?;
            ensure!((1..=10_000).contains(&number), "{text:?}: from 1 to 10000 keys");
            (name, Some(number))
        }
        _ => (text, None),
    };
    Ok(match name {
        "get" => Verb::Get,
        "set" => Verb::Set,
        "del" => Verb::Del,
        "mget" => Verb::Mget(count.unwrap_or(10)),
        "insert" => Verb::Insert,
        "scan" => Verb::Scan(count.unwrap_or(100)),
        "rmw" => Verb::ReadModifyWrite,
        _ => {
            // A misspelt name must not become a request.
            ensure!(
                text.starts_with(|first: char| first.is_ascii_uppercase()),
                "operation {text:?} is none of {NAMES}, and a raw request begins with a capital letter"
            );
            Verb::Raw(text.to_owned())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[&str]) -> anyhow::Result<Workload> {
        Workload::parse(&options.iter().map(|&option| option.to_owned()).collect::<Vec<_>>())
    }

    fn shares(options: &[&str]) -> Vec<f64> {
        let mix = parse(options).expect("well-formed").mix;
        let mut rng = Rng::with_seed(1);
        let mut seen = vec![0.0; mix.verbs().len()];
        (0..100_000).for_each(|_| seen[mix.draw(&mut rng)] += 1e-5);
        seen
    }

    #[test]
    fn a_mix_is_drawn_by_weight() {
        let close = |seen: &[f64], expected: &[f64]| seen.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.01);
        assert!(close(&shares(&["mix:get=90,set=10"]), &[0.9, 0.1]));
        assert!(close(&shares(&["ycsb:a"]), &[0.5, 0.5]));
        assert!(close(&shares(&["3%GET /a", "1%GET /b?c=5%20"]), &[0.75, 0.25]));
        assert_eq!(shares(&["get"]).len(), 1);
    }

    #[test]
    fn workloads_are_ycsbs() {
        let d = parse(&["ycsb:d"]).expect("D");
        assert_eq!(d.distribution, Some("latest:0.99"));
        assert_eq!(d.mix.verbs().collect::<Vec<_>>(), [&Verb::Get, &Verb::Insert]);
        let f = parse(&["ycsb-F"]).expect("F");
        assert!(f.mix.verbs().any(|verb| *verb == Verb::ReadModifyWrite));
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in ["gett", "mix:get", "mix:get=x", "mix:get=0", "mix:GET /=1", "ycsb:g", "mget:0", "mget:x", ""] {
            parse(&[wrong]).expect_err(wrong);
        }
        parse(&[]).expect_err("nothing");
    }
}
