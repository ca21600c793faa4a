//! `larder-bench verify`: is the load generator itself honest?
mod own_runs;
mod page;
mod rates;
mod rival_generators;
mod stall;

use crate::lib::machine;
use clap::ValueEnum;
use std::{io::Write, path::PathBuf};

/// Holds `larder-bench run` against arithmetic, its own schedule, wrk and redis-benchmark
///
/// stall: a server of this program falls silent for 200 ms every 10 s. Of the requests of a fixed
/// schedule, 2 % are due meanwhile and wait from 200 ms down to nothing, so p99 must be 100 ms and
/// p99.9 190 ms. Deviation from that; service times beside it, which hide the stall.
///
/// rate: throughput against what was asked for, from 1,000 to 200,000 requests a second on one
/// thread, 8 connections with up to 32 requests in flight, redis-server answering.
///
/// agreement: closed loops of 50 connections, this program and redis-benchmark or wrk in turn, the
/// medians of --runs: throughput. The servers have much to do for a request (redis-server: BITCOUNT
/// of a megabyte; nginx: a file to be compressed), so that they set the pace.
///
/// cost: the same against servers that are quick (redis-server: GET, unpipelined and 16 at a time;
/// nginx: a small file): requests per second of the client's CPU time (user and system, from its
/// start to its end).
///
/// page: the page of two runs in Chromium (headless): what it has of the charts, and that it draws
/// them.
///
/// The server runs on the first core, the client on the second; both should have nothing else to
/// do.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Checks to run (default: all)
    #[arg(long, value_delimiter = ',')]
    check: Vec<Check>,
    /// Runs of each client, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Length of one load in seconds (stall: 20 in any case)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Keep the page's picture
    #[arg(long, value_name = "FILE.png")]
    screenshot: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// A stalling server's percentiles against arithmetic
    Stall,
    /// Rates against what was asked for
    Rate,
    /// Throughput against redis-benchmark and wrk
    Agreement,
    /// Load per CPU second against redis-benchmark and wrk
    Cost,
    /// A page in Chromium
    Page,
}

/// Runs the program.
pub(crate) fn run(args: &VerifyArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let cores = machine::server_and_client_core()?;
    for check in if args.check.is_empty() { Check::value_variants() } else { &args.check } {
        match check {
            Check::Stall => stall::check(cores, out)?,
            Check::Rate => rates::check(cores, args.seconds, out)?,
            Check::Agreement => rival_generators::agreement(cores, args.runs, args.seconds, out)?,
            Check::Cost => rival_generators::cost(cores, args.runs, args.seconds, out)?,
            Check::Page => page::check(cores, args.screenshot.as_deref(), out)?,
        }
    }
    Ok(())
}
