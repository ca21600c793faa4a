//! The options of the generator itself, whatever it plays.
use super::wire::Statuses;
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
