//! Where a running cluster is, written down for those who want to ask it.
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// A running cluster.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cluster {
    /// Always true: the line on standard output says with it that all nodes answer.
    pub(super) ready: bool,
    /// The URL of what a miss is fetched from.
    pub(super) source: String,
    /// nginx, which leads to the nodes in turn.
    pub(super) nginx: SocketAddr,
    /// The nodes.
    pub(super) nodes: Vec<ClusterNode>,
}

/// One Larder of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ClusterNode {
    pub(super) name: String,
    pub(super) http: SocketAddr,
    pub(super) redis: SocketAddr,
    pub(super) pid: u32,
}

/// The file, removed when dropped.
pub(super) struct ClusterFile(PathBuf);

impl ClusterFile {
    /// Writes it.
    pub(super) fn write(path: &Path, cluster: &Cluster) -> anyhow::Result<ClusterFile> {
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
pub(super) fn read(path: &Path) -> anyhow::Result<Cluster> {
    let text = fs::read_to_string(path).with_context(|| {
        format!("no cluster runs: cannot read {} (--file); start one with make cluster", path.display())
    })?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a file of a cluster", path.display()))
}
