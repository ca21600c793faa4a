//! The raw data: what is written down while measuring, one JSON object a line, and all that the
//! page is made from.
use crate::lib::results::summary::Times;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

/// A part of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PageSection {
    /// HTTP: hits, misses, 404, 400
    Http,
    /// GET, SET and MGET, each server by its own protocol, from 1 connection to 512
    Commands,
    /// The latency of all servers at the same rates
    Latency,
    /// Memory per entry
    Memory,
    /// `/lookup` from 1 connection to 128, in the form that Redis proxies publish
    Lookup,
    /// `/cache/v1/item`, in the form that GCache publishes
    Item,
}

/// What is asked of a server, by the names of `scenarios/rivals*.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RivalLoad {
    HttpHit,
    LookupHit,
    HttpMiss,
    LookupMiss,
    NotFound,
    BadRequest,
    Get,
    Set,
    Mget,
    Miss,
    ItemUnique,
    ItemUpdate,
    ItemAbsent,
    ItemStored,
    ItemDelete,
}

/// A line of the raw data.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(crate) enum RawRecord {
    Setting(SettingRecord),
    Server(ServerRecord),
    Sample(SampleRecord),
    Memory(MemoryRecord),
    /// What was not measured, with the reason.
    Skipped(GapRecord),
    /// What could not be measured although it should have been.
    Failed(GapRecord),
    End(EndRecord),
}

/// The last line: how quiet the machine was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EndRecord {
    pub(crate) seconds: f64,
    /// Share of all cores' time that went to processes other than the servers and the generator.
    pub(crate) others: f64,
}

/// What was measured on, and how: the first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SettingRecord {
    pub(crate) date: String,
    pub(crate) commit: String,
    /// The command line of this program.
    pub(crate) command: String,
    pub(crate) cpu: String,
    pub(crate) kernel: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: f64,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    /// The generator's version.
    pub(crate) client: String,
    /// How long a load lasts.
    pub(crate) seconds: f64,
    pub(crate) runs: u64,
    /// Keys of the HTTP loads and of the commands, and the bytes of a value.
    pub(crate) http_keys: u64,
    pub(crate) command_keys: u64,
    pub(crate) value_size: usize,
    pub(crate) quick: bool,
}

/// A server that took part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ServerRecord {
    pub(crate) server: String,
    pub(crate) version: String,
    /// What it was started for.
    pub(crate) part: String,
    pub(crate) command: String,
    /// Its configuration file, if it has one.
    pub(crate) configuration: Option<String>,
}

/// One load of one server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SampleRecord {
    pub(crate) section: PageSection,
    pub(crate) load: RivalLoad,
    pub(crate) server: String,
    pub(crate) connections: usize,
    pub(crate) pipeline: usize,
    /// The pipeline was sent and awaited together; else each reply let the next request go.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) batches: bool,
    pub(crate) run: u64,
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    /// By kind, without those that did not occur.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Requests per second that were asked for; absent: as many as possible.
    pub(crate) rate: Option<f64>,
    pub(crate) per_second: f64,
    /// The server's CPU time per request, µs.
    pub(crate) cpu_us: f64,
    /// Like `cpu_us`, for the source behind Larder, if the load needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source_cpu_us: Option<f64>,
    pub(crate) client_saturated: bool,
    pub(crate) latency_ms: Times,
}

/// The memory of one server with so many entries.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MemoryRecord {
    pub(crate) server: String,
    pub(crate) value_size: usize,
    pub(crate) key_size: usize,
    pub(crate) entries: u64,
    /// By how much the proportional set size grew.
    pub(crate) growth: u64,
}

/// Something that is not there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GapRecord {
    /// Absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) section: Option<PageSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<RivalLoad>,
    pub(crate) server: String,
    pub(crate) reason: String,
}

impl PageSection {
    /// A section by its name in scenarios.
    pub(crate) fn named(name: &str) -> anyhow::Result<PageSection> {
        <PageSection as clap::ValueEnum>::from_str(name, false).map_err(anyhow::Error::msg)
    }
}

impl GapRecord {
    pub(crate) fn new(
        section: Option<PageSection>,
        load: Option<RivalLoad>,
        server: &str,
        reason: String,
    ) -> GapRecord {
        GapRecord { section, load, server: server.to_owned(), reason }
    }
}

/// Reads raw data.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<RawRecord>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("{}, line {}", path.display(), number + 1))
    };
    text.lines().enumerate().map(line).collect()
}

/// A text for the published page: programs by their names, and the folders of a run as `DIR`.
pub(crate) fn without_paths(text: &str) -> String {
    let shorten = |word: &str| {
        let mut parts = word.split('/').skip_while(|part| !part.starts_with(".tmp"));
        match parts.next() {
            Some(_) => [&["DIR"], &parts.collect::<Vec<_>>()[..]].concat().join("/"),
            None => Path::new(word).file_name().map_or(word.to_owned(), |name| name.to_string_lossy().into_owned()),
        }
    };
    // Line feeds and the spaces of a configuration stay.
    text.split_inclusive([' ', '\n', ';', ',', '\'', '"'])
        .map(|piece| {
            let word = piece.trim_end_matches([' ', '\n', ';', ',', '\'', '"']);
            if word.starts_with('/') { shorten(word) + &piece[word.len()..] } else { piece.to_owned() }
        })
        .collect()
}
