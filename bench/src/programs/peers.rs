//! `larder-bench peers`: three nodes as one cache, over HTTP and over gRPC, beside three of
//! groupcache-go.
use crate::lib::{
    figures::{self, median, rounded},
    load::{self, GeneratorOptions, Interrupt, LoadPlan, PlanOptions, duration},
    machine,
    servers::{Port, ServerProcess, free_port, groupcache_go_among, larder_on},
};
use anyhow::{Context, ensure};
use larder::peer::{Ring, RingHash};
use serde::Serialize;
use std::{collections::BTreeMap, fs, io::Write, path::PathBuf, time::Duration};

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

const NODES: usize = 3;
const IDS: u64 = 100;

/// What three nodes are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    LarderHttp,
    LarderGrpc,
    GroupcacheGo,
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
    nodes: Kind,
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
    let mut kinds = vec![Kind::LarderHttp, Kind::LarderGrpc];
    kinds.extend(args.node.is_some().then_some(Kind::GroupcacheGo));
    let mut rows: BTreeMap<(Load, Kind), Vec<LoadRow>> = BTreeMap::new();
    for _ in 0..args.runs {
        for kind in &kinds {
            for copies in [true, false] {
                let fleet = Fleet::start(args, *kind, copies, server_core)?;
                if !copies {
                    fleet.load(args, Load::Warm250, client_core, &interrupt)?;
                }
                let loads = if copies { &Load::WITH_COPIES[..] } else { &[Load::PeakWithoutCopies] };
                for load in loads {
                    let row = fleet.load(args, *load, client_core, &interrupt)?;
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

/// Three nodes.
struct Fleet {
    kind: Kind,
    nodes: Vec<ServerProcess>,
    /// The node that owns fewest of the ids.
    asked: usize,
}

impl Fleet {
    fn start(args: &PeersArgs, kind: Kind, copies: bool, core: usize) -> anyhow::Result<Fleet> {
        let ports: Vec<Port> = (0..NODES).map(|_| free_port()).collect::<anyhow::Result<_>>()?;
        let mut names: Vec<String> = ports.iter().map(|port| port.address.to_string()).collect();
        let peers = names.join(",");
        let own: Vec<String> = names.clone();
        names.sort();
        let ring = Ring::new(RingHash::Fnv1, &names.iter().map(String::as_str).collect::<Vec<_>>());
        let owns = |name: &String| {
            (1..=IDS).filter(|id| ring.owner(id.to_string().as_bytes()).is_some_and(|at| names[at] == *name)).count()
        };
        let asked = (0..NODES).min_by_key(|node| owns(&own[*node])).context("there are nodes")?;
        let start = |(number, port): (usize, Port)| match (kind, &args.node) {
            (Kind::GroupcacheGo, Some(node)) => {
                // Its cache for copies is an eighth of all: too small for any.
                let bytes = if copies || number != asked { "67108864" } else { "64" };
                groupcache_go_among(port, node, Some(core), &peers, bytes)
            }
            (Kind::GroupcacheGo, None) => anyhow::bail!("no groupcache-go node is given"),
            (Kind::LarderHttp | Kind::LarderGrpc, _) => {
                let transport = if kind == Kind::LarderGrpc { "grpc" } else { "http" };
                let ttl = if copies { "10s" } else { "0" };
                let this = port.address.to_string();
                let ring = ["--peers", &peers, "--peer-self", &this, "--peer-transport", transport];
                let more = ["--source", "demo:", "--hot-copy-ttl", ttl];
                larder_on(port, &args.larder, Some(core), &[&ring[..], &more].concat())
            }
        };
        let nodes = ports.into_iter().enumerate().map(start).collect::<anyhow::Result<_>>()?;
        Ok(Fleet { kind, nodes, asked })
    }

    fn cpu_time(&self) -> anyhow::Result<Duration> {
        self.nodes.iter().map(ServerProcess::run_time).sum()
    }

    fn load(&self, args: &PeersArgs, load: Load, core: usize, interrupt: &Interrupt) -> anyhow::Result<LoadRow> {
        let ids = tempfile::NamedTempFile::new()?;
        fs::write(ids.path(), (1..=IDS).map(|id| format!("{id}\n")).collect::<String>())?;
        let address = self.nodes[self.asked].http.context("a node has an address")?;
        let plan = PlanOptions {
            url: format!("http://{address}/data/{{key}}"),
            op: vec!["get".into()],
            keys: None,
            key: format!("@{}", ids.path().display()),
            dist: Some("seq".parse()?),
            value_size: "64".parse()?,
            rate: load.rate(),
            duration: args.duration,
            requests: None,
            warm_up: Duration::ZERO,
        };
        let generator = GeneratorOptions {
            connections: 10,
            threads: 1,
            pipeline: 1,
            timeout: Duration::from_secs(10),
            header: Vec::new(),
            error_status: "4xx,5xx".parse()?,
            spin: false,
            pin: vec![core],
            seed: 1,
        };
        let plan = LoadPlan { interrupt: interrupt.clone(), ..plan.plan(&generator, None)? };
        let before = self.cpu_time()?;
        let outcome = load::run(&plan, &mut |_| {})?;
        let cpu = self.cpu_time()? - before;
        let counts = &outcome.total.counts;
        ensure!(counts.all_errors() == 0 && counts.requests > 0, "requests failed: {counts:?}");
        let quantile = |quantile| outcome.total.latency.value_at_quantile(quantile) as f64 / 1e6;
        Ok(LoadRow {
            program: "peers",
            nodes: self.kind,
            load,
            requests_per_second: counts.requests as f64 / args.duration.as_secs_f64(),
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            cpu_us_per_request: cpu.as_secs_f64() * 1e6 / counts.requests as f64,
        })
    }
}
