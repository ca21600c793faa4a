//! When and from which commit figures are.
use anyhow::Context;
use std::process::Command;

/// The time in UTC (RFC 3339).
pub(crate) fn date() -> anyhow::Result<String> {
    let output = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output().context("cannot run date")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The commit of the working folder, with `-dirty` if files have changed; `unknown` outside a
/// repository.
pub(crate) fn commit() -> String {
    let commit = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let commit = commit.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    commit.map_or("unknown".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned())
}

/// Both, for the foot of a chart that is drawn from figures of this run.
pub(crate) fn of_this_run() -> anyhow::Result<String> {
    Ok(format!("{}, commit {}", date()?, commit()))
}
