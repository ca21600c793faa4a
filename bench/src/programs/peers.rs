//! `larder-bench peers`: three nodes as one cache, over HTTP and over gRPC, beside three of
//! groupcache-go.
use crate::lib::{
    figures::{self, median, rounded},
    load::{self, Interrupt, duration},
    machine,
    peer_nodes::{PeerKind, PeerNodes},
};
use anyhow::ensure;
use serde::Serialize;
use std::{collections::BTreeMap, io::Write, path::PathBuf, time::Duration};

/// Three nodes as one cache, over HTTP and over gRPC, beside three of groupcache-go
///
/// All nodes run on one core, the client on another. It asks the node that owns fewest of the ids 1
/// to 100 for those ids, in turn, over 10 connections: on a fixed schedule (250 and 500 a second,
/// from the start of new nodes and when all is cached), and as fast as it goes, with copies of
/// other nodes' keys and without. All kinds of nodes take turns --runs times; the medians count.
/// CPU time is that of the three nodes together, for each request (schedstat).
#[derive(Debug, clap::Args)]
pub(crate) struct PeersArgs {
    /// The larder binary
    #[arg(long, value_name = "PATH", default_value = "target/release/larder")]
    larder: PathBuf,
    /// A groupcache-go node (`go build ./node` in tests/interop); left out if not given
    #[arg(long, value_name = "PATH")]
    node: Option<PathBuf>,
    /// How long each load lasts
    #[arg(long, value_name = "DURATION", default_value = "4s", value_parser = duration)]
    duration: Duration,
    /// Turns, of which the medians count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
}

/// One load; in the order in which new nodes get them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Load {
    Cold250,
    Warm250,
    Warm500,
    PeakWithCopies,
    PeakWithoutCopies,
}

impl Load {
    const WITH_COPIES: [Load; 4] = [Load::Cold250, Load::Warm250, Load::Warm500, Load::PeakWithCopies];
    fn rate(self) -> Option<f64> {
        match self {
            Load::Cold250 | Load::Warm250 => Some(250.0),
            Load::Warm500 => Some(500.0),
            Load::PeakWithCopies | Load::PeakWithoutCopies => None,
        }
    }
}

/// What came of a load.
#[derive(Debug, Clone, Serialize)]
struct LoadRow {
    program: &'static str,
    nodes: PeerKind,
    load: Load,
    requests_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us_per_request: f64,
}

/// Runs the program.
pub(crate) fn run(args: &PeersArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (server_core, client_core) = machine::server_and_client_core()?;
    let interrupt = Interrupt::watch()?;
    let mut kinds = vec![PeerKind::LarderHttp, PeerKind::LarderGrpc];
    kinds.extend(args.node.is_some().then_some(PeerKind::GroupcacheGo));
    let mut rows: BTreeMap<(Load, PeerKind), Vec<LoadRow>> = BTreeMap::new();
    for _ in 0..args.runs {
        for kind in &kinds {
            for copies in [true, false] {
                let program = match (kind, &args.node) {
                    (PeerKind::GroupcacheGo, Some(node)) => node,
                    _ => &args.larder,
                };
                let nodes = PeerNodes::start(*kind, program, copies, server_core)?;
                if !copies {
                    Load::Warm250.measure(&nodes, args, client_core, &interrupt)?;
                }
                let loads = if copies { &Load::WITH_COPIES[..] } else { &[Load::PeakWithoutCopies] };
                for load in loads {
                    let row = load.measure(&nodes, args, client_core, &interrupt)?;
                    rows.entry((*load, *kind)).or_default().push(row);
                }
            }
        }
    }
    for rows in rows.into_values() {
        let of = |figure: fn(&LoadRow) -> f64| rounded(median(&rows.iter().map(figure).collect::<Vec<_>>()));
        let row = LoadRow {
            requests_per_second: of(|row| row.requests_per_second),
            p50_ms: of(|row| row.p50_ms),
            p99_ms: of(|row| row.p99_ms),
            cpu_us_per_request: of(|row| row.cpu_us_per_request),
            ..rows[0].clone()
        };
        figures::line(out, &row)?;
    }
    Ok(())
}

impl Load {
    fn measure(
        self,
        nodes: &PeerNodes,
        args: &PeersArgs,
        core: usize,
        interrupt: &Interrupt,
    ) -> anyhow::Result<LoadRow> {
        let plan = nodes.plan(self.rate(), args.duration, core, interrupt)?;
        let before = nodes.cpu_time()?;
        let outcome = load::run(&plan, &mut |_| {})?;
        let cpu = nodes.cpu_time()? - before;
        let counts = &outcome.total.counts;
        ensure!(counts.all_errors() == 0 && counts.requests > 0, "requests failed: {counts:?}");
        let quantile = |quantile| outcome.total.latency.value_at_quantile(quantile) as f64 / 1e6;
        Ok(LoadRow {
            program: "peers",
            nodes: nodes.kind,
            load: self,
            requests_per_second: counts.requests as f64 / args.duration.as_secs_f64(),
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            cpu_us_per_request: cpu.as_secs_f64() * 1e6 / counts.requests as f64,
        })
    }
}
