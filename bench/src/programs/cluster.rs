//! `larder-bench cluster`: several Larders as one cache on this machine, to see it work.
//!
//! `start` runs them until Ctrl-C and writes down where they are; `load` reads that, sends requests
//! and shows which node did what.
use crate::lib::{
    blocking_clients::HttpClient,
    figures,
    load::{self, Interrupt, LoadPlan, RunEnd, duration, rate},
    servers::{self, Port, ServerProcess, Start, free_port},
};
use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::{IsTerminal, Write},
    net::SocketAddr,
    ops::Sub,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Several Larders as one cache with nginx in front, on this machine
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ClusterCommand {
    Start(StartArgs),
    Load(LoadArgs),
}

/// Runs the program.
pub(crate) fn run(args: &ClusterArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    match &args.command {
        ClusterCommand::Start(args) => start(args, out),
        ClusterCommand::Load(args) => load(args, out),
    }
}

/// A running cluster.
#[derive(Debug, Serialize, Deserialize)]
struct Cluster {
    /// Always true: the line on standard output says with it that all nodes answer.
    ready: bool,
    /// The URL of what a miss is fetched from.
    source: String,
    /// nginx, which leads to the nodes in turn.
    nginx: SocketAddr,
    /// The nodes.
    nodes: Vec<ClusterNode>,
}

/// One Larder of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ClusterNode {
    name: String,
    http: SocketAddr,
    redis: SocketAddr,
    pid: u32,
}

/// The file, removed when dropped.
struct ClusterFile(PathBuf);

impl ClusterFile {
    /// Writes it.
    fn write(path: &Path, cluster: &Cluster) -> anyhow::Result<ClusterFile> {
        fs::write(path, serde_json::to_string(cluster)?)
            .with_context(|| format!("cannot write {} (--file)", path.display()))?;
        Ok(ClusterFile(path.to_owned()))
    }
}

impl Drop for ClusterFile {
    fn drop(&mut self) {
        // Fails only if it was removed.
        let _ = fs::remove_file(&self.0);
    }
}

/// Reads where the cluster is.
fn read(path: &Path) -> anyhow::Result<Cluster> {
    let text = fs::read_to_string(path).with_context(|| {
        format!("no cluster runs: cannot read {} (--file); start one with make cluster", path.display())
    })?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a file of a cluster", path.display()))
}

/// How often it looks whether a node has ended, or the user wants it to.
const LOOK: Duration = Duration::from_millis(50);

/// Starts the nodes and nginx, prints where they are, and ends them on Ctrl-C
///
/// Each key belongs to one node, which fetches it from the source for all. nginx leads to the nodes
/// in turn. On a terminal a few lines say where everything is, else one JSON object.
#[derive(Debug, clap::Args)]
struct StartArgs {
    /// The larder binary
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: u16,
    /// Port of nginx; the nodes have the ports behind it. 0: free ones
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    port: u16,
    /// What a miss is fetched from, as `larder serve --source` takes it
    #[arg(long, value_name = "URL", default_value = "demo:?delay=20ms")]
    source: String,
    /// Where to write down where everything is, for `load`
    #[arg(long, value_name = "FILE", default_value = "target/cluster.json")]
    file: PathBuf,
}

/// Runs until a signal comes.
fn start(args: &StartArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let interrupt = Interrupt::watch()?;
    let mut ports = ports(args)?.into_iter();
    let front = ports.next().context("there is a port for nginx")?;
    let mut running = nodes(args, ports.collect())?;
    let addresses: Vec<SocketAddr> = running.iter().filter_map(|node| node.http).collect();
    let lines: String = addresses.iter().map(|node| format!("server {node} max_fails=1 fail_timeout=2s; ")).collect();
    let with = Start { port: Some(front), set: &[("nodes", &lines)], ..Start::default() };
    let nginx = servers::start("nginx-balancer", with)?;
    let cluster = Cluster {
        ready: true,
        source: args.source.clone(),
        nginx: nginx.address,
        nodes: (1..).zip(&running).zip(addresses).map(|((number, node), http)| described(number, node, http)).collect(),
    };
    let file = ClusterFile::write(&args.file, &cluster)?;
    match std::io::stdout().is_terminal() {
        true => greet(out, &cluster)?,
        false => figures::line(out, &cluster)?,
    }

    let mut gone = vec![false; running.len()];
    while !interrupt.is_set() {
        for ((node, gone), described) in running.iter_mut().zip(&mut gone).zip(&cluster.nodes) {
            if let (false, Some(status)) = (*gone, node.ended()?) {
                *gone = true;
                eprintln!("{} has ended ({status}); the others go on", described.name);
            }
        }
        thread::sleep(LOOK);
    }
    drop(file);
    // Not through nginx any more, then the nodes: each finishes what it has begun.
    drop(nginx);
    for (node, gone) in running.iter_mut().zip(gone) {
        if !gone {
            node.terminate()?;
        }
    }
    Ok(())
}

/// nginx's port and one for each node, held until they have them.
fn ports(args: &StartArgs) -> anyhow::Result<Vec<Port>> {
    if args.port == 0 {
        return (0..=args.nodes).map(|_| free_port()).collect();
    }
    let last = args.port.checked_add(args.nodes);
    ensure!(last.is_some(), "--port {} leaves no room for {} nodes below 65536", args.port, args.nodes);
    let port = |number| {
        Port::fixed(number).with_context(|| {
            format!(
                "port {number} is taken; choose others with --port, as in make cluster CLUSTER_ARGS=\"--port 9090\""
            )
        })
    };
    (args.port..=args.port + args.nodes).map(port).collect()
}

fn nodes(args: &StartArgs, ports: Vec<Port>) -> anyhow::Result<Vec<ServerProcess>> {
    let peers: Vec<String> = ports.iter().map(|port| port.address.to_string()).collect();
    let peers = peers.join(",");
    let start = |port: Port| {
        let own = port.address.to_string();
        let more = ["--source", &args.source, "--peers", &peers, "--peer-self", &own];
        servers::start(
            "larder",
            Start { larder: Some(&args.larder), port: Some(port), more: &more, ..Start::default() },
        )
    };
    ports.into_iter().map(start).collect()
}

fn described(number: u32, node: &ServerProcess, http: SocketAddr) -> ClusterNode {
    ClusterNode { name: format!("larder-{number}"), http, redis: node.address, pid: node.id() }
}

/// What a person wants to know.
fn greet(out: &mut dyn Write, cluster: &Cluster) -> anyhow::Result<()> {
    let Cluster { nginx, source, nodes, .. } = cluster;
    writeln!(out, "{} Larders are one cache in front of {source}\n", nodes.len())?;
    writeln!(out, "  nginx      http://{nginx}   leads to them in turn")?;
    for ClusterNode { name, http, redis, pid } in nodes {
        writeln!(out, "  {name:<10} http://{http}   redis://{redis}   pid {pid}")?;
    }
    let first = nodes.first().map_or(*nginx, |node| node.http);
    writeln!(out, "\nIn another terminal:")?;
    writeln!(out, "  make cluster-load                            requests for 100 keys, and which node did what")?;
    writeln!(out, "  curl http://{nginx}/v1/kv/1.json    one request")?;
    writeln!(out, "  curl http://{first}/v1/peers        the ring as the first node sees it")?;
    writeln!(out, "\nCtrl-C ends them all.")?;
    out.flush()?;
    Ok(())
}

/// How long a node may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads of one node by how they were answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct NodeCounts {
    /// From its own memory: keys that it owns, and copies of others'. Those that peers asked for
    /// count as well.
    hits: u64,
    /// Asked of the key's owner.
    from_owner: u64,
    /// Fetched from the source.
    fetched: u64,
}

impl Sub for NodeCounts {
    type Output = NodeCounts;

    fn sub(self, before: NodeCounts) -> NodeCounts {
        // A node that was started again begins at 0.
        NodeCounts {
            hits: self.hits.saturating_sub(before.hits),
            from_owner: self.from_owner.saturating_sub(before.from_owner),
            fetched: self.fetched.saturating_sub(before.fetched),
        }
    }
}

/// The parts of `/v1/peers` that are needed.
#[derive(Debug, Deserialize)]
struct Peers {
    peers: Vec<Peer>,
}
#[derive(Debug, Deserialize)]
struct Peer {
    #[serde(rename = "self")]
    is_self: bool,
    share: f64,
    reads: u64,
}

/// Asks a node: its share of the ring, and what it has counted.
fn ask(node: SocketAddr) -> anyhow::Result<(f64, NodeCounts)> {
    let mut client = HttpClient::connect(node, TIMEOUT)?;
    let mut get = |path: &str| {
        let answer = client.get(path)?;
        ensure!(answer.status == 200, "http://{node}{path} answers {}", answer.status);
        String::from_utf8(answer.body).with_context(|| format!("http://{node}{path} is not text"))
    };
    let metrics = get("/metrics")?;
    let Peers { peers } = serde_json::from_str(&get("/v1/peers")?)?;
    let share = peers.iter().filter(|peer| peer.is_self).map(|peer| peer.share).sum();
    let counts = NodeCounts {
        hits: sum(&metrics, "larder_cache_hits_total"),
        from_owner: peers.iter().filter(|peer| !peer.is_self).map(|peer| peer.reads).sum(),
        fetched: sum(&metrics, "larder_source_fetches_total"),
    };
    Ok((share, counts))
}

/// A metric, all its labels added up.
fn sum(metrics: &str, name: &str) -> u64 {
    let samples =
        metrics.lines().filter_map(|line| line.strip_prefix(name)).filter(|rest| rest.starts_with(['{', ' ']));
    samples.filter_map(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Sends requests for a few keys through nginx, and shows which node did what
///
/// The keys are 1, 2 and so on, in turn, on a fixed schedule over 10 connections. Ends with an error
/// if a request failed.
#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// What `start` has written down
    #[arg(long, value_name = "FILE", default_value = "target/cluster.json")]
    file: PathBuf,
    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    keys: u64,
    /// Requests per second
    #[arg(long, value_name = "N", default_value = "250", value_parser = rate)]
    rate: f64,
    /// How long requests are sent
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Its outcome.
#[derive(Debug, Serialize)]
struct ClusterLoad {
    requests: u64,
    errors: u64,
    p50_ms: f64,
    p99_ms: f64,
    keys: u64,
    nodes: Vec<NodeWork>,
    all: NodeCounts,
}

/// What one node did.
#[derive(Debug, Serialize)]
struct NodeWork {
    name: String,
    /// Whether it answers.
    up: bool,
    /// Its share of the keys.
    share: f64,
    #[serde(flatten)]
    counts: NodeCounts,
}

/// Runs the load.
fn load(args: &LoadArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = read(&args.file)?;
    let ids = tempfile::NamedTempFile::new()?;
    fs::write(ids.path(), (1..=args.keys).map(|id| format!("{id}\n")).collect::<String>())?;
    let (url, keys) = (format!("http://{}/v1/kv/{{key}}", cluster.nginx), format!("@{}", ids.path().display()));
    let options = ["--url", &url, "--key", &keys, "--dist", "seq", "--connections", "10", "--error-status", "4xx,5xx"];
    let (rate, stop) = (Some(args.rate), RunEnd::After(args.duration));
    let plan = LoadPlan { rate, stop, interrupt: Interrupt::watch()?, ..load::plan(options)? };

    // A node may have been killed: that is worth seeing, too.
    let counted = |node: &ClusterNode| ask(node.http).ok();
    let before: Vec<_> = cluster.nodes.iter().map(counted).collect();
    let outcome = load::run(&plan, &mut |_| {}).with_context(|| format!("through nginx at {}", cluster.nginx))?;
    let work = |(node, before): (&ClusterNode, Option<(f64, NodeCounts)>)| {
        let after = counted(node);
        let before = before.map(|(_, counts)| counts).unwrap_or_default();
        let (share, counts) = after.map(|(share, now)| (share, now - before)).unwrap_or_default();
        NodeWork { name: node.name.clone(), up: after.is_some(), share, counts }
    };
    let nodes: Vec<NodeWork> = cluster.nodes.iter().zip(before).map(work).collect();
    let sum = |figure: fn(&NodeCounts) -> u64| nodes.iter().map(|node| figure(&node.counts)).sum();
    let all = NodeCounts {
        hits: sum(|counts| counts.hits),
        from_owner: sum(|counts| counts.from_owner),
        fetched: sum(|counts| counts.fetched),
    };
    let quantile = |quantile| outcome.total.latency.value_at_quantile(quantile) as f64 / 1e6;
    let counts = &outcome.total.counts;
    let load = ClusterLoad {
        requests: counts.requests,
        errors: counts.all_errors(),
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        keys: args.keys,
        nodes,
        all,
    };
    match args.json {
        true => figures::line(out, &load)?,
        false => show(out, &load, &cluster.nginx.to_string())?,
    }
    ensure!(load.errors == 0, "{} requests failed", load.errors);
    Ok(())
}

fn show(out: &mut dyn Write, load: &ClusterLoad, nginx: &str) -> anyhow::Result<()> {
    let ClusterLoad { requests, errors, p50_ms, p99_ms, keys, nodes, all } = load;
    writeln!(
        out,
        "{requests} requests for {keys} keys through nginx at http://{nginx}: {errors} errors, p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms\n"
    )?;
    writeln!(out, "{:<12}{:>10}{:>12}{:>18}{:>26}", "", "keys", "hits", "asked the owner", "fetched from the source")?;
    for NodeWork { name, up, share, counts } in nodes {
        if !up {
            writeln!(out, "{name:<12}does not answer")?;
            continue;
        }
        let share = format!("{:.0} %", share * 100.0);
        writeln!(out, "{name:<12}{share:>10}{:>12}{:>18}{:>26}", counts.hits, counts.from_owner, counts.fetched)?;
    }
    writeln!(out, "{:<12}{:>10}{:>12}{:>18}{:>26}\n", "all", "", all.hits, all.from_owner, all.fetched)?;
    let fetched = match all.fetched {
        0 => "Nothing was fetched: all was cached.".to_owned(),
        once if once == *keys => format!("{once} fetches for {keys} keys: each was fetched once for all nodes."),
        some => format!("{some} fetches for {keys} keys."),
    };
    writeln!(
        out,
        "{fetched} A hit is a key of the node's own, or a copy of another's (hot-copy-ttl); hits for peers count as well."
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_added_up() {
        let text = "# TYPE a_total counter\na_total{group=\"x\"} 3\na_total{group=\"y z\"} 4\na_total_more 9\nb 1\n";
        assert_eq!((sum(text, "a_total"), sum(text, "b"), sum(text, "c")), (7, 1, 0));
    }
}
