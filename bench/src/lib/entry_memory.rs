//! Resident bytes per entry of a cache, measured by `larder-bench memory` in a process that holds
//! nothing else.
use super::{dataset::Dataset, figures};
use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};

/// One cache's figure.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EntryMemory {
    program: String,
    // Kept results have this name.
    #[serde(rename = "contender")]
    cache: String,
    pub(crate) entries: u64,
    inserts: u64,
    resident_growth: u64,
    /// Growth over entries held.
    pub(crate) bytes_per_entry: f64,
    raw_bytes_per_entry: f64,
    ratio_to_raw: f64,
}

impl EntryMemory {
    pub(crate) fn new(cache: &str, entries: u64, inserts: u64, growth: u64, dataset: &Dataset) -> EntryMemory {
        let bytes_per_entry = growth as f64 / entries.max(1) as f64;
        EntryMemory {
            program: "memory".into(),
            cache: cache.into(),
            entries,
            inserts,
            resident_growth: growth,
            bytes_per_entry: figures::rounded(bytes_per_entry),
            raw_bytes_per_entry: figures::rounded(dataset.raw_bytes()),
            ratio_to_raw: figures::rounded(bytes_per_entry / dataset.raw_bytes()),
        }
    }
}

/// Measures a cache in a child process: this program again with `--in-process`.
///
/// # Errors
/// If the child cannot be started or fails; its message is on standard error.
pub(crate) fn in_child(name: &str, entries: u64, inserts: u64, dataset: &Dataset) -> anyhow::Result<EntryMemory> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let value_size = format!("{}-{}", dataset.value_size.start(), dataset.value_size.end());
    let child = Command::new(own)
        .args(["memory", "--in-process", name])
        .args(["--entries", &entries.to_string()])
        .args(["--inserts", &inserts.to_string()])
        .args(["--key-size", &dataset.key_size.to_string()])
        .args(["--value-size", &value_size])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start this program again")?;
    ensure!(child.status.success(), "measuring {name}'s memory ended with {}", child.status);
    serde_json::from_slice(&child.stdout).with_context(|| format!("measuring {name}'s memory gave no result"))
}
