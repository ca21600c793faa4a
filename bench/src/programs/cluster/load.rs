//! Requests through nginx, and which node did what for them.
use super::{
    cluster_file::{self, ClusterNode},
    node_counts::{self, NodeCounts},
};
use crate::lib::{
    figures,
    load::{self, Interrupt, LoadPlan, RunEnd, duration, rate},
};
use anyhow::{Context, ensure};
use serde::Serialize;
use std::{fs, io::Write, path::PathBuf, time::Duration};

/// Sends requests for a few keys through nginx, and shows which node did what
///
/// The keys are 1, 2 and so on, in turn, on a fixed schedule over 10 connections. Ends with an error
/// if a request failed.
#[derive(Debug, clap::Args)]
pub(super) struct LoadArgs {
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

/// What came of it.
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
pub(super) fn run(args: &LoadArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = cluster_file::read(&args.file)?;
    let ids = tempfile::NamedTempFile::new()?;
    fs::write(ids.path(), (1..=args.keys).map(|id| format!("{id}\n")).collect::<String>())?;
    let (url, keys) = (format!("http://{}/v1/kv/{{key}}", cluster.nginx), format!("@{}", ids.path().display()));
    let options = ["--url", &url, "--key", &keys, "--dist", "seq", "--connections", "10", "--error-status", "4xx,5xx"];
    let (rate, stop) = (Some(args.rate), RunEnd::After(args.duration));
    let plan = LoadPlan { rate, stop, interrupt: Interrupt::watch()?, ..load::plan(options)? };

    // A node may have been killed: that is worth seeing, too.
    let ask = |node: &ClusterNode| node_counts::ask(node.http).ok();
    let before: Vec<_> = cluster.nodes.iter().map(ask).collect();
    let outcome = load::run(&plan, &mut |_| {}).with_context(|| format!("through nginx at {}", cluster.nginx))?;
    let work = |(node, before): (&ClusterNode, Option<(f64, NodeCounts)>)| {
        let after = ask(node);
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
