//! Three peers as one cache, and the load of ids that one of them gets.
use super::{
    load::{GeneratorOptions, Interrupt, LoadPlan, PlanOptions},
    servers::{Port, ServerProcess, free_port, groupcache_go_among, larder_on},
};
use anyhow::{Context, bail};
use larder::peer::{Ring, RingHash};
use serde::Serialize;
use std::{fs, path::Path, time::Duration};
use tempfile::NamedTempFile;

const NODES: usize = 3;
const IDS: u64 = 100;

/// What the nodes are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PeerKind {
    LarderHttp,
    LarderGrpc,
    GroupcacheGo,
}

/// Three nodes.
pub(crate) struct PeerNodes {
    pub(crate) kind: PeerKind,
    pub(crate) nodes: Vec<ServerProcess>,
    /// The node that owns fewest of the ids.
    asked: usize,
    /// The ids, one a line.
    ids: NamedTempFile,
}

impl PeerNodes {
    /// Starts them on one core. `program` is larder, or the groupcache-go node.
    pub(crate) fn start(kind: PeerKind, program: &Path, copies: bool, core: usize) -> anyhow::Result<PeerNodes> {
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
        let start = |(number, port): (usize, Port)| match kind {
            PeerKind::GroupcacheGo => {
                // Its cache for copies is an eighth of all: too small for any.
                let bytes = if copies || number != asked { "67108864" } else { "64" };
                groupcache_go_among(port, program, Some(core), &peers, bytes)
            }
            PeerKind::LarderHttp | PeerKind::LarderGrpc => {
                let transport = if kind == PeerKind::LarderGrpc { "grpc" } else { "http" };
                let ttl = if copies { "10s" } else { "0" };
                let this = port.address.to_string();
                let ring = ["--peers", &peers, "--peer-self", &this, "--peer-transport", transport];
                // The ring of the Go nodes, so that each kind has the same load.
                let more = ["--source", "demo:", "--hot-copy-ttl", ttl, "--peer-hash", "fnv1"];
                larder_on(port, program, Some(core), &[&ring[..], &more].concat())
            }
        };
        let nodes = ports.into_iter().enumerate().map(start).collect::<anyhow::Result<_>>()?;
        let ids = NamedTempFile::new()?;
        fs::write(ids.path(), (1..=IDS).map(|id| format!("{id}\n")).collect::<String>())?;
        Ok(PeerNodes { kind, nodes, asked, ids })
    }

    /// CPU time of all of them.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        self.nodes.iter().map(ServerProcess::run_time).sum()
    }

    /// The node that is asked.
    pub(crate) fn asked(&self) -> anyhow::Result<&ServerProcess> {
        match self.nodes.get(self.asked) {
            Some(node) => Ok(node),
            None => bail!("there are no nodes"),
        }
    }

    /// The ids in turn over 10 connections, all from the node that owns fewest of them.
    pub(crate) fn plan(
        &self,
        rate: Option<f64>,
        duration: Duration,
        core: usize,
        interrupt: &Interrupt,
    ) -> anyhow::Result<LoadPlan> {
        let address = self.asked()?.http.context("a node has an address")?;
        let plan = PlanOptions {
            key: format!("@{}", self.ids.path().display()),
            dist: Some("seq".parse()?),
            rate,
            duration,
            ..PlanOptions::of(&format!("http://{address}/data/{{key}}"), "get")
        };
        let generator = GeneratorOptions {
            connections: 10,
            error_status: "4xx,5xx".parse()?,
            pin: vec![core],
            ..GeneratorOptions::default()
        };
        Ok(LoadPlan { interrupt: interrupt.clone(), ..plan.plan(&generator, None)? })
    }
}
