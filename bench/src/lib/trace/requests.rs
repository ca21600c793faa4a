//! The requests of a trace file, or of a made trace.
use super::{made::MadeTrace, trace_file::TraceFile, trace_file::TraceSummary};
use clap::ValueEnum;

/// Where the requests of a replay come from.
#[derive(Debug, Clone)]
pub(crate) enum Requests {
    File(TraceFile),
    Made {
        kind: MadeTrace,
        /// What the kind calls N.
        keys: u64,
        requests: u64,
    },
}

/// Of made traces: always the same, so that runs can be compared.
const SEED: u64 = 1;

impl Requests {
    /// The file's name without its folders, or the kind.
    pub(crate) fn name(&self) -> String {
        match self {
            Requests::File(file) => file.name(),
            Requests::Made { kind, .. } => {
                kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
            }
        }
    }

    /// The keys from the beginning.
    pub(crate) fn keys(&self) -> anyhow::Result<Box<dyn Iterator<Item = anyhow::Result<u64>>>> {
        Ok(match self {
            Requests::File(file) => Box::new(file.keys()?),
            Requests::Made { kind, keys, requests } => Box::new(kind.keys(*keys, *requests, SEED).map(Ok)),
        })
    }

    /// Reads the whole trace once: counts, and reports a damaged trace before anything is measured
    /// with it.
    pub(crate) fn summary(&self) -> anyhow::Result<TraceSummary> {
        TraceSummary::of(&self.name(), self.keys()?)
    }
}
