//! A Larder that tells which nodes are away: in its metrics, in `INFO`, among its events and in its
//! log.
use super::{server::wait_for_cluster, text};
use crate::{common::wait_until, larder::Larder};

pub struct NodeWatch {
    larder: Larder,
    log: String,
    /// What was waited for.
    waits: Vec<(String, String)>,
}

impl NodeWatch {
    pub fn start(url: &str) -> NodeWatch {
        let options = ["--source", url, "--source-timeout", "5s", "--threads", "3", "--log-level", "info"];
        NodeWatch { larder: Larder::start(&options), log: String::new(), waits: Vec::new() }
    }

    /// The metric of a node; `None`: the cluster does not have it.
    pub fn metric(&self, node: &str) -> Option<f64> {
        let name = format!("larder_source_node_up{{group=\"default\",address=\"{node}\"}} ");
        let metrics = self.larder.get("/metrics");
        metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok())
    }

    /// Waits until the node is as `metric` says, and until the log says so in these words: once more
    /// than at the wait before.
    pub fn wait(&mut self, node: &str, metric: Option<f64>, words: &str) {
        wait_for_cluster(&format!("{node} {words}"), || self.metric(node) == metric);
        let info = text(&mut self.larder.client(), &["INFO", "larder"]);
        let state = metric.map(|metric| if metric == 1.0 { "up" } else { "away" });
        assert_eq!(state.is_some(), info.contains(&format!(":address={node},")), "{info}");
        if let Some(state) = state {
            assert!(info.contains(&format!(":address={node},state={state}")), "{info}");
        }
        self.waits.push((node.to_owned(), words.to_owned()));
        let waits = self.waits.iter().filter(|(of, said)| of == node && said == words).count();
        while self.lines(node, words) < waits {
            self.log += &self.larder.wait_for_stderr(&format!("a node of the source {words}"));
        }
        let event = format!("node {node} of the source of group default {words}");
        wait_until(&event, || self.larder.get("/v1/events").contains(&event));
    }

    /// How often the log has said this of a node until the latest [`wait`](NodeWatch::wait).
    pub fn lines(&self, node: &str, words: &str) -> usize {
        let lines = self.log.lines().filter(|line| line.contains(&format!("a node of the source {words}")));
        lines.filter(|line| line.contains(node)).count()
    }
}
