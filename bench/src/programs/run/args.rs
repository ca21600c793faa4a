//! The options of `run`.
use crate::lib::{
    load::{GeneratorOptions, LoadPlan, PlanOptions, duration, rate},
    results::output_options::OutputOptions,
};
use anyhow::{Context, bail, ensure};
use std::{str::FromStr, time::Duration};

/// Loads a server on a fixed schedule and measures from each request's intended start
///
/// With --rate the loop is open: request number n is meant to start n/rate seconds after the
/// beginning, whatever the server does. What cannot be sent yet, because all connections are busy,
/// waits and keeps its time. `latency` is counted from the intended start to the reply's last byte,
/// `service` from the write: a server that stalls shows in the first, and only partly in the
/// second. Without --rate the loop is closed: each connection sends its next request when a reply
/// has come.
///
/// With --think-time, each connection is a user who sends the next request a think time after the
/// last reply. A user does not send while it waits, so a slow server gets fewer requests.
///
/// Operations (--op): get, set, del, mget (of 10 keys; mget:16), insert, scan (a read of 1 to 100
/// consecutive keys; scan:50), rmw (read, then write), mix:get=90,set=10, ycsb:a … ycsb:f,
/// or requests as they are: 'GET /v0/entity?id={key}', 'POST /cache/v1/item
/// {"key":"{key}","value":"{value}"}', 'HSET {key} f {value}'. Several --op form a mix; a weight
/// stands before: '90%GET /a'.
///
/// The generator watches itself: `client_saturated` says that it, not the server, was the
/// bottleneck. That is so if a hundredth of the requests was noticed 1 ms or more after their time,
/// or if a thread of it ran (or waited for a core) for more than 95 % of the time.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    load: PlanOptions,
    /// Write every key once before; through another URL if one is given
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    pub(crate) preload: Option<String>,
    /// Find the knee: rate:1000..200000 raises the rate, connections:1..512 doubles the connections
    /// of a closed loop, a run of --duration each
    #[arg(long, value_name = "WHAT:FROM..TO", requires = "slo", conflicts_with_all = ["rate", "hdr_log"])]
    pub(crate) ramp: Option<Ramp>,
    /// What the 99th percentile of the latency may be: the ramp's measure
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "ramp")]
    pub(crate) slo: Option<Duration>,
    #[command(flatten)]
    pub(crate) client: GeneratorOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// What is raised to find the knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Ramp {
    /// The rate, between these.
    Rate(f64, f64),
    /// The connections, between these.
    Connections(usize, usize),
}

impl FromStr for Ramp {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Ramp> {
        let (what, range) = text.split_once(':').with_context(|| format!("{text:?} has no colon"))?;
        let (from, to) = range.split_once("..").with_context(|| format!("{range:?} is no range FROM..TO"))?;
        let ramp = match what {
            "rate" => Ramp::Rate(rate(from)?, rate(to)?),
            "connections" => Ramp::Connections(from.parse()?, to.parse()?),
            _ => bail!("{what:?} is neither rate nor connections"),
        };
        let in_order = match ramp {
            Ramp::Rate(from, to) => from <= to,
            Ramp::Connections(from, to) => from > 0 && from <= to,
        };
        ensure!(in_order, "{range:?} is no range from a number above 0 up to a larger one");
        Ok(ramp)
    }
}

impl RunArgs {
    /// The plan of one run.
    pub(crate) fn plan(&self) -> anyhow::Result<LoadPlan> {
        let plan = self.load.plan(&self.client, self.output.interval)?;
        if let Some(Ramp::Connections(..)) = self.ramp {
            ensure!(
                self.client.connections == 1,
                "--ramp connections sets the connections itself: leave --connections out"
            );
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lib::load::{RunEnd, keys::KeyDistribution};
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: RunArgs,
    }

    fn plan(options: &[&str]) -> anyhow::Result<LoadPlan> {
        let url: &[&str] = if options.contains(&"--url") { &[] } else { &["--url", "redis://127.0.0.1:1"] };
        let all = ["run"].iter().chain(url).chain(options);
        Program::try_parse_from(all)?.args.plan()
    }

    #[test]
    fn the_issues_names_are_there() {
        let options = "--op mix:get=90,set=10 --keys 10 --key key:{n} --dist zipf:0.99 --value-size 64 --rate 20000 \
                       --connections 1 --pipeline 1 --duration 20s --json";
        let plan = plan(&options.split_ascii_whitespace().collect::<Vec<_>>()).expect("all known");
        assert_eq!((plan.rate, plan.stop), (Some(20_000.0), RunEnd::After(Duration::from_secs(20))));
        assert_eq!(plan.keys.distribution, KeyDistribution::Zipf(0.99));
        assert_eq!(plan.slice, Duration::from_millis(200));
    }

    #[test]
    fn a_workload_brings_its_distribution() {
        let distribution = |options: &[&str]| plan(options).expect("a plan").keys.distribution;
        assert_eq!(distribution(&["--op", "ycsb:d"]), KeyDistribution::Latest(0.99));
        assert_eq!(distribution(&["--op", "ycsb:d", "--dist", "uniform"]), KeyDistribution::Uniform);
        assert_eq!(distribution(&[]), KeyDistribution::Uniform);
    }

    #[test]
    fn ramps_are_read() {
        assert_eq!("rate:1000..2e5".parse::<Ramp>().expect("a ramp"), Ramp::Rate(1e3, 2e5));
        assert_eq!("connections:1..512".parse::<Ramp>().expect("a ramp"), Ramp::Connections(1, 512));
        for wrong in ["rate", "rate:5", "rate:5..1", "rate:0..1", "x:1..2", "connections:0..2"] {
            wrong.parse::<Ramp>().expect_err(wrong);
        }
        assert!(plan(&["--ramp", "rate:1..2"]).expect_err("no SLO").to_string().contains("--slo"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (options, word) in [
            ("--rate 0", "0.000001"),
            ("--rate -5", "0.000001"),
            ("--rate nan", "0.000001"),
            ("--rate inf", "0.000001"),
            ("--rate 1e300", "0.000001"),
            ("--duration 9000d", "a year"),
            ("--warm-up 9000d", "a year"),
            ("--timeout 9000d", "a year"),
            ("--interval 0s", "1ms"),
            ("--slo 1ms", "--ramp"),
            ("--slo 1ms --ramp rate:1..2 --rate 5", "--rate"),
            ("--slo 1ms --ramp rate:1..2 --hdr-log x", "--hdr-log"),
            ("--slo 1ms --ramp rate:1..1e300", "0.000001"),
            ("--slo 1ms --ramp connections:1..2 --connections 9", "leave --connections out"),
            ("--header a:b", "http"),
        ] {
            let error = plan(&options.split(' ').collect::<Vec<_>>()).expect_err(options);
            assert!(error.to_string().contains(word), "{options}: {error}");
        }
        let endless = plan(&["--rate", "0.001", "--requests", "1000000"]).expect("each by itself is fine");
        let error = crate::lib::load::run(&endless, &mut |_| {}).expect_err("together they are not");
        assert!(error.to_string().contains("more than a year"), "{error}");
    }

    #[test]
    fn memcached_keys_have_no_blanks() {
        for (key, word) in [("a b{n}", "blank"), ("{n:064}{n:064}{n:064}{n:064}", "250")] {
            let error = plan(&["--url", "memcache://127.0.0.1:1", "--key", key]).expect_err(key);
            assert!(error.to_string().contains(word), "{error}");
        }
        plan(&["--url", "memcache://127.0.0.1:1", "--key", "k:{n}:{uuid}"]).expect("a key of memcached");
        plan(&["--key", "a b{n}"]).expect("a key of Redis");
    }

    #[test]
    fn help_shows_the_patterns_whole() {
        use clap::CommandFactory;
        let help = Program::command().render_long_help().to_string();
        assert!(!help.contains("text with \n"), "clap makes a line break of an n in braces");
    }
}
