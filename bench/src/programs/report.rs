//! `larder-bench report`: the page of saved results.
use crate::lib::results::page;
use std::path::PathBuf;

/// Makes a page that compares saved results
///
/// Reads what `run --save FILE` wrote (or the output of `run --json`: the last line counts) and
/// writes a self-contained page: latency and service time by percentile, throughput over time, a
/// heat map of the latency over time for each run, and the figures side by side.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// Saved results
    #[arg(required = true, value_name = "FILE")]
    runs: Vec<PathBuf>,
    /// The page
    #[arg(long, value_name = "FILE.html")]
    out: PathBuf,
}

/// Runs the program.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let runs = args.runs.iter().map(|file| page::read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    page::write(&args.out, &runs)
}
