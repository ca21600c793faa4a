//! Where results go: the options, and writing to what they name.
use super::{latency_shape, page, summary::RunSummary, text_table};
use crate::lib::{figures, load};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::{fs::File, io::Write, path::PathBuf, time::Duration};

/// Where results go.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct OutputOptions {
    /// Print the result as one JSON object on one line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress; --json shows none either
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Write that object to a file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Write a page with curves, throughput and a heat map of the latency over time
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Saved results that the page compares this one with
    #[arg(long, value_name = "FILE", value_delimiter = ',', requires = "report")]
    pub(crate) compare: Vec<PathBuf>,
    /// Write the histograms of each slice as an HdrHistogram log (tags: latency, service)
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr_log: Option<PathBuf>,
    /// Length of a slice of the results over time (default: a hundredth of the run, from 100 ms to
    /// 1 s)
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// Print the table of latency percentiles, in the form of wrk2 and HdrHistogram
    #[arg(long)]
    pub(crate) latency: bool,
    /// Print a summary in the form of hey: fastest, slowest, histogram, distribution, kinds of
    /// replies
    #[arg(long)]
    pub(crate) summary: bool,
    /// Process id of the server, if it runs on this machine: the result has its CPU time and says
    /// whether it was the bottleneck
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// What the run is called in results
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
}

impl OutputOptions {
    /// Shall there be no progress on a terminal?
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet || self.json
    }

    /// Says before a run what would fail after it.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        for file in &self.compare {
            page::read(file)?;
        }
        for path in [&self.save, &self.report].into_iter().flatten() {
            let opened = File::options().append(true).create(true).open(path);
            opened.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// Reads the length of a slice.
fn interval(text: &str) -> anyhow::Result<Duration> {
    let interval = load::duration(text)?;
    ensure!(interval >= Duration::from_millis(1), "{text:?} is less than 1ms");
    Ok(interval)
}

/// Prints and keeps a result, with what else belongs to it. `others` are shown beside it on the
/// page.
pub(crate) fn finish(
    output: &OutputOptions,
    summary: &RunSummary,
    others: &[RunSummary],
    more: Option<(&'static str, Value)>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut object = serde_json::to_value(summary).context("a result cannot be written as JSON")?;
    if let (Some(fields), Some((name, value))) = (object.as_object_mut(), more) {
        if !output.json {
            writeln!(out, "{name}: {value:#}\n")?;
        }
        fields.insert(name.to_owned(), value);
    }
    match output.json {
        true => figures::line(out, &object)?,
        false => {
            text_table::write(out, summary)?;
            if output.latency {
                latency_shape::write_percentiles(out, summary)?;
            }
            if output.summary {
                latency_shape::write_summary(out, summary)?;
            }
        }
    }
    keep(output, &object, &[std::slice::from_ref(summary), others].concat())
}

/// Writes the files that the options ask for.
pub(crate) fn keep(output: &OutputOptions, object: &Value, runs: &[RunSummary]) -> anyhow::Result<()> {
    if let Some(path) = &output.save {
        std::fs::write(path, format!("{object}\n")).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &output.report {
        let compared = output.compare.iter().map(|file| page::read(file)).collect::<anyhow::Result<Vec<_>>>()?;
        page::write(path, &[runs, &compared].concat())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_results_cannot_go_is_said_before_the_run() {
        let dir = tempfile::tempdir().expect("a directory");
        let missing = dir.path().join("missing/file");
        let report = Some(dir.path().join("page.html"));
        let output = OutputOptions { report, ..OutputOptions::default() };
        output.check().expect("it can be written");
        for wrong in [
            OutputOptions { save: Some(missing.clone()), ..output.clone() },
            OutputOptions { report: Some(missing.clone()), ..output.clone() },
            OutputOptions { compare: vec![missing.clone()], ..output.clone() },
        ] {
            let error = wrong.check().expect_err("there is no such directory");
            assert!(error.to_string().contains("missing/file"), "{error}");
        }
    }
}
