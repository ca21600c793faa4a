//! The options that say what is asked of which server, and the plan that they make.
use super::{
    generator_options::{GeneratorOptions, duration, rate},
    interrupt::Interrupt,
    keys::{KeyDistribution, KeySpace, Names},
    ops::Workload,
    plan::{LoadPlan, RunEnd, slice},
    target::{TargetProtocol, TargetUrl},
    values::Sizes,
};
use anyhow::ensure;
use std::{path::Path, time::Duration};

/// What is asked of which server, how often and how long.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlanOptions {
    /// The server: `redis://[[user]:password@]host[:port][/db]`, `http://host[:port][/path, perhaps with {key}]`, `memcache://host[:port]`
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,
    /// What to ask (see above); may be repeated
    #[arg(long, value_name = "OPERATION", default_value = "get")]
    pub(crate) op: Vec<String>,
    /// Number of keys (default: 100000, or all of the file's)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keys: Option<u64>,
    /// How a key reads: text with n in braces as in the default, {n:012} or {uuid}; or @FILE, one
    /// key a line
    #[arg(long, value_name = "PATTERN", default_value = "key:{n}")]
    pub(crate) key: String,
    /// How keys are drawn: uniform, zipf:THETA, seq, single, hot:KEYS:REQUESTS (shares, such as
    /// hot:0.1:0.9), latest:THETA [default: uniform, or the workload's]
    #[arg(long, value_name = "DISTRIBUTION")]
    pub(crate) dist: Option<KeyDistribution>,
    /// How long values are: 64, 4KiB, 16-1024, 64=90,4KiB=10 (weights), lognormal:MEDIAN:SIGMA:MOST
    #[arg(long, value_name = "SIZES", default_value = "64")]
    pub(crate) value_size: Sizes,
    /// Requests per second on a fixed schedule (default: a closed loop)
    #[arg(long, value_name = "N", value_parser = rate, allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,
    /// How long requests are sent
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// End after so many requests instead
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    pub(crate) requests: Option<u64>,
    /// Do the same for this long before, uncounted
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) warm_up: Duration,
}

impl PlanOptions {
    /// An operation on a server; everything else as on the command line without options.
    pub(crate) fn of(url: &str, op: &str) -> PlanOptions {
        PlanOptions {
            url: url.to_owned(),
            op: vec![op.to_owned()],
            keys: None,
            key: "key:{n}".to_owned(),
            dist: None,
            value_size: "64".parse().expect("a size"),
            rate: None,
            duration: Duration::from_secs(20),
            requests: None,
            warm_up: Duration::ZERO,
        }
    }

    /// The plan of one run. `interval` is the length of a slice of the results; without it the
    /// length of the run decides.
    pub(crate) fn plan(&self, client: &GeneratorOptions, interval: Option<Duration>) -> anyhow::Result<LoadPlan> {
        let workload = Workload::parse(&self.op)?;
        let names = match self.key.strip_prefix('@') {
            Some(file) => Names::file(Path::new(file))?,
            None => Names::pattern(&self.key)?,
        };
        let distribution = match (self.dist, workload.distribution) {
            (Some(distribution), _) => distribution,
            (None, Some(text)) => text.parse()?,
            (None, None) => KeyDistribution::Uniform,
        };
        ensure!(
            !matches!(distribution, KeyDistribution::Latest(_)) || names.count().is_none(),
            "--dist latest asks for inserted keys, which a file of keys does not name"
        );
        let target = TargetUrl::parse(&self.url)?;
        ensure!(target.protocol == TargetProtocol::Http || client.header.is_empty(), "--header is for http:// only");
        if target.protocol == TargetProtocol::Memcache {
            names.check_for_memcache()?;
        }
        let keys = self.keys.or(names.count()).unwrap_or(100_000);
        ensure!(names.count().is_none_or(|count| keys <= count), "--keys {keys} is more than the file of keys has");
        Ok(LoadPlan {
            target,
            mix: workload.mix,
            keys: KeySpace { count: keys, names, distribution },
            sizes: self.value_size.clone(),
            rate: self.rate,
            played: None,
            stop: self.requests.map_or(RunEnd::After(self.duration), RunEnd::Requests),
            warm_up: self.warm_up,
            slice: interval.unwrap_or_else(|| slice(self.requests.map_or(self.duration, |_| Duration::ZERO))),
            interrupt: Interrupt::default(),
            client: client.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        options: PlanOptions,
    }

    #[test]
    fn defaults_are_those_of_the_command_line() {
        let typed = Program::try_parse_from(["run", "--url", "redis://a"]).expect("all else has defaults").options;
        assert_eq!(format!("{typed:?}"), format!("{:?}", PlanOptions::of("redis://a", "get")));
    }
}
