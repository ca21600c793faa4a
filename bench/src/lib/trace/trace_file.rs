//! A trace file: opened, decompressed, read from the beginning; and the requests of one, or of a made
//! trace.
use super::{
    made::MadeTrace,
    operations::{OperationKind, Reader, TracedOperation},
    records::{TraceFormat, TraceRecords},
};
use anyhow::{Context, ensure};
use clap::ValueEnum;
use std::{
    ffi::OsStr,
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

/// A trace file whose format is known.
#[derive(Debug, Clone)]
pub(crate) struct TraceFile {
    path: PathBuf,
    format: TraceFormat,
}

/// What one pass over a trace finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceSummary {
    /// Number of requests.
    pub(crate) requests: u64,
    /// Number of distinct keys.
    pub(crate) distinct: u64,
}

impl TraceFile {
    /// A trace of the given format, or of the one that its name tells: `.lis`, `.trace`, `.u64` or
    /// `.ops`, each perhaps followed by `.zst` or `.xz`.
    pub(crate) fn new(path: &Path, format: Option<TraceFormat>) -> anyhow::Result<TraceFile> {
        let format = match format {
            Some(format) => format,
            None => guess(path).with_context(|| {
                format!(
                    "the name of {} does not tell its format (.lis, .trace, .u64, .ops): give --format",
                    path.display()
                )
            })?,
        };
        Ok(TraceFile { path: path.to_owned(), format })
    }

    /// The file's name without its folders.
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// The keys from the beginning.
    pub(crate) fn keys(&self) -> anyhow::Result<impl Iterator<Item = anyhow::Result<u64>> + use<>> {
        let path = self.path.clone();
        let input = open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let records: Box<dyn Iterator<Item = anyhow::Result<u64>>> = match self.format {
            TraceFormat::Ops => Box::new(Reader::new(input).filter_map(|operation| match operation {
                Ok(TracedOperation { kind: OperationKind::Get, key, .. }) => Some(Ok(key)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            })),
            format => Box::new(TraceRecords::new(input, format)),
        };
        Ok(records.map(move |key| key.with_context(|| format!("cannot read on in {}", path.display()))))
    }

    /// The operations from the beginning.
    pub(crate) fn operations(
        &self,
    ) -> anyhow::Result<impl Iterator<Item = anyhow::Result<TracedOperation>> + Send + use<>> {
        let path = self.path.clone();
        ensure!(self.format == TraceFormat::Ops, "{} holds keys only, not operations with their times", path.display());
        let input = open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let operations = Reader::new(input);
        Ok(operations.map(move |item| item.with_context(|| format!("cannot read on in {}", path.display()))))
    }
}

pub(super) fn extension(path: &Path) -> Option<&str> {
    path.extension().and_then(OsStr::to_str)
}

fn guess(path: &Path) -> Option<TraceFormat> {
    let inner = match extension(path)? {
        "zst" | "xz" => Path::new(path.file_stem()?),
        _ => path,
    };
    match extension(inner)? {
        "lis" => Some(TraceFormat::Arc),
        "trace" => Some(TraceFormat::Cache2k),
        "u64" => Some(TraceFormat::U64),
        "ops" => Some(TraceFormat::Ops),
        _ => None,
    }
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    /// As the zstd tools have it by default: a frame that wants a larger window is refused.
    const ZSTD_WINDOW_LOG: u32 = 27;
    /// Enough for the dictionary of `xz -9` (64 MiB).
    const XZ_MEMORY_KIB: u32 = 100 * 1024;
    let file = File::open(path)?;
    Ok(match extension(path) {
        Some("zst") => {
            let mut decoder = zstd::Decoder::new(file)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(BufReader::new(decoder))
        }
        Some("xz") => {
            let file = BufReader::new(file);
            let decoder = lzma_rust2::XzReader::new_mem_limit(file, true, XZ_MEMORY_KIB);
            Box::new(BufReader::new(decoder))
        }
        _ => Box::new(BufReader::new(file)),
    })
}

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
        let mut seen = std::collections::HashSet::with_hasher(foldhash::fast::FixedState::default());
        let mut requests = 0;
        for key in self.keys()? {
            seen.insert(key?);
            requests += 1;
        }
        ensure!(requests > 0, "{} holds no requests", self.name());
        Ok(TraceSummary { requests, distinct: seen.len() as u64 })
    }
}
