//! The options that say what is asked of which server and how the generator works, and the plan that
//! they make.
use super::{
    interrupt::Interrupt,
    keys::{KeyDistribution, KeySpace, Names},
    ops::Workload,
    plan::{LoadPlan, RunEnd, slice},
    target::{TargetProtocol, TargetUrl},
    users::{ThinkTime, duration},
    values::Sizes,
    wire::Statuses,
};
use anyhow::ensure;
use clap::Parser;
use std::{ffi::OsString, path::Path, time::Duration};

/// Reads a rate. The schedule has whole nanoseconds.
pub(crate) fn rate(text: &str) -> anyhow::Result<f64> {
    let rate: f64 = text.parse()?;
    ensure!((1e-6..=1e9).contains(&rate), "{text} is not from 0.000001 to 1000000000 requests a second");
    Ok(rate)
}

/// How the generator itself works.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GeneratorOptions {
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) connections: usize,
    /// Threads, each with its share of the connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Most requests in flight on a connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) pipeline: usize,
    /// Send the requests of --pipeline together and wait for all their replies before the next ones,
    /// as redis-benchmark -P does; without it each reply lets the next request go. For closed loops
    #[arg(long, conflicts_with = "think_time")]
    pub(crate) batches: bool,
    /// Each connection is a user who thinks for this long between a reply and the next request: 1s,
    /// or 500ms-2s for a random time of that range; for closed loops with --pipeline 1
    #[arg(long, value_name = "DURATION", conflicts_with = "pipeline")]
    pub(crate) think_time: Option<ThinkTime>,
    /// Round trip to a distant server, added here: each request waits this long in the generator
    /// before it is sent, and the wait counts as service time; connecting is not delayed
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) delay: Duration,
    /// How long a reply, or connecting, may take
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// HTTP: a header for each request; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// HTTP: which statuses are errors; the last rule that fits counts
    #[arg(long, value_name = "STATUSES", default_value = "4xx,5xx,!404")]
    pub(crate) error_status: Statuses,
    /// Poll instead of sleeping: exact to a microsecond, a core for each thread
    #[arg(long)]
    pub(crate) spin: bool,
    /// Cores for the threads, in turn
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    pub(crate) pin: Vec<usize>,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl GeneratorOptions {
    /// A thread's share of the connections.
    pub(super) fn connections_of(&self, thread: usize) -> usize {
        self.connections / self.threads + usize::from(thread < self.connections % self.threads)
    }
}

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

/// The options of a load, as `larder-bench run` has them; later ones replace earlier ones.
#[derive(Debug, Parser)]
#[command(args_override_self = true, no_binary_name = true)]
pub(crate) struct LoadOptions {
    #[command(flatten)]
    pub(crate) plan: PlanOptions,
    #[command(flatten)]
    pub(crate) client: GeneratorOptions,
}

/// The plan that these options make.
pub(crate) fn plan(options: impl IntoIterator<Item: Into<OsString> + Clone>) -> anyhow::Result<LoadPlan> {
    let options = LoadOptions::try_parse_from(options)?;
    options.plan.plan(&options.client, None)
}
