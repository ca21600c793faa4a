//! What the driver counts, and which nodes of the cluster it reaches, in the sessions of all cores.
use larder_base::telemetry::{DriverSnapshot, SourceNodes, node_changes};
use parking_lot::Mutex;
use scylla::{
    client::session::Session,
    errors::{RequestAttemptError, RequestError},
    observability::{
        history::{AttemptId, HistoryListener, RequestId, SpeculativeId},
        metrics::Metrics,
    },
    policies::retry::RetryDecision,
};
use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The sessions with one cluster.
#[derive(Default)]
pub(super) struct DriverSessions {
    /// Each session that was opened. The counts of those that are closed stay: counters only grow.
    sessions: Mutex<Vec<(Arc<Metrics>, Weak<Session>)>>,
    /// The driver's metrics lack them.
    speculative: AtomicU64,
    /// As the log has told them.
    told: Mutex<SourceNodes>,
}

impl DriverSessions {
    pub(super) fn join(&self, session: &Arc<Session>) {
        self.sessions.lock().push((session.get_metrics(), Arc::downgrade(session)));
    }
    pub(super) fn snapshot(&self) -> DriverSnapshot {
        let nodes = self.nodes();
        let sessions = self.sessions.lock();
        let sum = |of: fn(&Metrics) -> u64| sessions.iter().map(|(metrics, _)| of(metrics)).sum();
        DriverSnapshot {
            nodes,
            requests: sum(|of| of.get_requests_unpaged_num() + of.get_requests_manually_paged_num()),
            errors: sum(|of| of.get_errors_unpaged_num() + of.get_errors_manually_paged_num()),
            retries: sum(Metrics::get_retries_num),
            timeouts: sum(Metrics::get_request_timeouts),
            speculative: self.speculative.load(Relaxed),
            connections: sum(Metrics::get_total_connections),
            connection_timeouts: sum(Metrics::get_connection_timeouts),
        }
    }

    /// The nodes that the driver knows at this moment. A node is up if a core has a connection to it:
    /// one core that connects again is not a loss.
    fn nodes(&self) -> SourceNodes {
        let open: Vec<_> = self.sessions.lock().iter().filter_map(|(_, session)| session.upgrade()).collect();
        let mut nodes = SourceNodes::new();
        for session in open {
            for node in session.get_cluster_state().get_nodes_info() {
                *nodes.entry(node.address.to_string()).or_default() |= node.is_connected();
            }
        }
        nodes
    }

    /// Tells the log which nodes came and went. Each core calls this, and each change is told once.
    pub(super) fn tell_nodes(&self, source: &str) {
        let mut told = self.told.lock();
        for (node, change) in node_changes(&mut told, &self.nodes()) {
            match change.is_warning() {
                true => tracing::warn!(source, node, "a node of the source {}", change.text()),
                false => tracing::info!(source, node, "a node of the source {}", change.text()),
            }
        }
    }
}

impl fmt::Debug for DriverSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DriverSessions")
    }
}

impl HistoryListener for DriverSessions {
    fn log_new_speculative_fiber(&self, _: RequestId) -> SpeculativeId {
        SpeculativeId(0)
    }
    fn log_request_start(&self) -> RequestId {
        RequestId(0)
    }
    fn log_request_success(&self, _: RequestId) {}
    fn log_request_error(&self, _: RequestId, _: &RequestError) {}
    fn log_attempt_start(&self, _: RequestId, speculative: Option<SpeculativeId>, _: SocketAddr) -> AttemptId {
        self.speculative.fetch_add(u64::from(speculative.is_some()), Relaxed);
        AttemptId(0)
    }
    fn log_attempt_success(&self, _: AttemptId) {}
    fn log_attempt_error(&self, _: AttemptId, _: &RequestAttemptError, _: &RetryDecision) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_went_to_a_second_replica_counts_as_speculative() {
        let (sessions, node) = (DriverSessions::default(), SocketAddr::from(([127, 0, 0, 1], 9042)));
        sessions.log_attempt_start(sessions.log_request_start(), None, node);
        // The driver found no second replica.
        let fiber = sessions.log_new_speculative_fiber(RequestId(0));
        assert_eq!(sessions.snapshot().speculative, 0);
        sessions.log_attempt_start(RequestId(0), Some(fiber), node);
        assert_eq!(sessions.snapshot().speculative, 1);
    }
}
