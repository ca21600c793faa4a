//! The options of `classic`.
use crate::lib::load::{ThinkTime, duration};
use std::{path::PathBuf, time::Duration};

/// Measures Larder in the classic forms of benchmarks
///
/// proxy: `GET /lookup?key=K` in front of redis-server, with 1 to 128 connections: requests without
/// a key, misses (each is fetched), hits. rest: JSON bodies on /cache/v1/item over 30 connections:
/// POST of new keys, POST of one key, GET of stored and of absent keys, a third of each, DELETE.
/// table: `/lookup` of a table that is built from a data file of --keys UUIDs: 50 connections as
/// fast as it goes (hey), then users with think time (Locust). peers: three nodes, ids 1 to 100
/// over 10 connections at 250 a second, cold and warm, at 500, and as fast as it goes. store:
/// `/v0/entity` of the disk store with --keys keys, PUT and GET over one connection at 10,000,
/// 12,000 and 20,000 a second (wrk2 -c1 -t1).
///
/// The servers run on one core, the generator (and redis-server) on another. All loads run --runs
/// times, in turn; the table has the median and the range. `larder-bench rivals` compares with other
/// servers.
#[derive(Debug, clap::Args)]
pub(crate) struct ClassicArgs {
    /// The form
    #[arg(value_enum)]
    pub(super) form: ClassicForm,
    /// The larder binary
    #[arg(long, value_name = "PATH", default_value = "target/release/larder")]
    pub(super) larder: PathBuf,
    /// How long each load lasts
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    pub(super) duration: Duration,
    /// How often all loads run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) runs: u64,
    /// table, store: number of keys
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) keys: u64,
    /// table: number of users with think time, each on a connection of its own
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(super) users: usize,
    /// table: how long a user thinks between requests
    #[arg(long, value_name = "DURATION", default_value = "500ms-1500ms")]
    pub(super) think_time: ThinkTime,
    /// store, table: where files are made, and removed afterwards [default: the folder for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Print each run's result as one JSON object on one line instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Show no progress; --json shows none either
    #[arg(long)]
    pub(super) quiet: bool,
    /// Write those objects to a file, too
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// Write a page with charts of all runs
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
}

/// A form of benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ClassicForm {
    Proxy,
    Rest,
    Table,
    Peers,
    Store,
}
