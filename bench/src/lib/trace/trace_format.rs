//! The formats of traces.

/// How the requests are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TraceFormat {
    /// Text lines `start count …`: keys start to start+count-1 (Megiddo and Modha, "ARC", FAST
    /// 2003)
    Arc,
    /// Big-endian 32-bit numbers (cache2k benchmarks)
    Cache2k,
    /// Little-endian 64-bit numbers
    U64,
    /// Operations recorded from a Larder (`larder-bench record`): what was read counts
    Ops,
}
