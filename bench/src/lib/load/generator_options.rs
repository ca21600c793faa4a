//! The options of the generator itself, whatever it plays.
use super::{think_time::ThinkTime, wire::Statuses};
use anyhow::ensure;
use std::time::Duration;

/// The longest duration that an option takes: sums of several stay within what nanoseconds in 64
/// bits hold.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a duration.
pub(crate) fn duration(text: &str) -> anyhow::Result<Duration> {
    let duration = larder_units::parse_short_duration(text).map_err(anyhow::Error::msg)?;
    ensure!(duration <= LONGEST, "{text:?} is more than a year");
    Ok(duration)
}

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

/// The options' own defaults, for programs that set some of them.
impl Default for GeneratorOptions {
    fn default() -> GeneratorOptions {
        GeneratorOptions {
            connections: 1,
            threads: 1,
            pipeline: 1,
            batches: false,
            think_time: None,
            delay: Duration::ZERO,
            timeout: Duration::from_secs(10),
            header: Vec::new(),
            error_status: "4xx,5xx,!404".parse().expect("statuses"),
            spin: false,
            pin: Vec::new(),
            seed: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        options: GeneratorOptions,
    }

    #[test]
    fn defaults_are_those_of_the_command_line() {
        let typed = Program::try_parse_from(["run"]).expect("all have defaults").options;
        assert_eq!(format!("{typed:?}"), format!("{:?}", GeneratorOptions::default()));
    }
}
