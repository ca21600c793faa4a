//! Starting the nodes and nginx, and ending them.
use super::cluster_file::{Cluster, ClusterFile, ClusterNode};
use crate::lib::{
    figures,
    load::Interrupt,
    servers::{self, Port, ServerProcess, Start, free_port},
};
use anyhow::{Context, ensure};
use std::{
    io::{IsTerminal, Write},
    net::SocketAddr,
    path::PathBuf,
    thread,
    time::Duration,
};

/// How often it looks whether a node has ended, or the user wants it to.
const LOOK: Duration = Duration::from_millis(50);

/// Starts the nodes and nginx, prints where they are, and ends them on Ctrl-C
///
/// Each key belongs to one node, which fetches it from the source for all. nginx leads to the nodes
/// in turn. On a terminal a few lines say where everything is, else one JSON object.
#[derive(Debug, clap::Args)]
pub(super) struct StartArgs {
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
pub(super) fn run(args: &StartArgs, out: &mut dyn Write) -> anyhow::Result<()> {
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
