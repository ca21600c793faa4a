//! What a node has counted: asked of it before and after a load.
use crate::lib::blocking_clients::HttpClient;
use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, ops::Sub, time::Duration};

/// How long a node may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads of one node by how they were answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct NodeCounts {
    /// From its own memory: keys that it owns, and copies of others'. Those that peers asked for
    /// count as well.
    pub(super) hits: u64,
    /// Asked of the key's owner.
    pub(super) from_owner: u64,
    /// Fetched from the source.
    pub(super) fetched: u64,
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
pub(super) fn ask(node: SocketAddr) -> anyhow::Result<(f64, NodeCounts)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_added_up() {
        let text = "# TYPE a_total counter\na_total{group=\"x\"} 3\na_total{group=\"y z\"} 4\na_total_more 9\nb 1\n";
        assert_eq!((sum(text, "a_total"), sum(text, "b"), sum(text, "c")), (7, 1, 0));
    }
}
