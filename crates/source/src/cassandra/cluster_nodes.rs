//! Which nodes of the cluster the driver reaches, in the sessions of all cores.
use larder_base::telemetry::{SourceNodes, node_changes};
use parking_lot::Mutex;
use scylla::client::session::Session;
use std::sync::{Arc, Weak};

/// The nodes of one source's cluster.
#[derive(Default)]
pub(super) struct ClusterNodes {
    sessions: Mutex<Vec<Weak<Session>>>,
    /// As the log has told them.
    told: Mutex<SourceNodes>,
}

impl ClusterNodes {
    pub(super) fn join(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
    }

    /// The nodes that the driver knows at this moment. A node is up if a core has a connection to it:
    /// one core that connects again is not a loss.
    pub(super) fn now(&self) -> SourceNodes {
        let sessions: Vec<_> = self.sessions.lock().iter().filter_map(Weak::upgrade).collect();
        let mut nodes = SourceNodes::new();
        for session in sessions {
            for node in session.get_cluster_state().get_nodes_info() {
                *nodes.entry(node.address.to_string()).or_default() |= node.is_connected();
            }
        }
        nodes
    }

    /// Tells the log what has changed. Each core calls this, and each change is told once.
    pub(super) fn tell(&self, source: &str) {
        let mut told = self.told.lock();
        for (node, change) in node_changes(&mut told, &self.now()) {
            match change.is_warning() {
                true => tracing::warn!(source, node, "a node of the source {}", change.text()),
                false => tracing::info!(source, node, "a node of the source {}", change.text()),
            }
        }
    }
}
