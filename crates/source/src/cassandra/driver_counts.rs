//! What the driver counts, in the sessions of all cores.
use larder_base::telemetry::{DriverSnapshot, SourceNodes};
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
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The counts of one source.
#[derive(Default)]
pub(super) struct DriverCounts {
    /// Of each session that was opened, also of those that are closed: counters only grow.
    sessions: Mutex<Vec<Arc<Metrics>>>,
    /// The driver's metrics lack them.
    speculative: AtomicU64,
}

impl DriverCounts {
    pub(super) fn join(&self, session: &Session) {
        self.sessions.lock().push(session.get_metrics());
    }
    pub(super) fn snapshot(&self) -> DriverSnapshot {
        let sessions = self.sessions.lock();
        let sum = |of: fn(&Metrics) -> u64| sessions.iter().map(|metrics| of(metrics)).sum();
        DriverSnapshot {
            nodes: SourceNodes::new(),
            requests: sum(|of| of.get_requests_unpaged_num() + of.get_requests_manually_paged_num()),
            errors: sum(|of| of.get_errors_unpaged_num() + of.get_errors_manually_paged_num()),
            retries: sum(Metrics::get_retries_num),
            timeouts: sum(Metrics::get_request_timeouts),
            speculative: self.speculative.load(Relaxed),
            connections: sum(Metrics::get_total_connections),
            connection_timeouts: sum(Metrics::get_connection_timeouts),
        }
    }
}

impl fmt::Debug for DriverCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DriverCounts")
    }
}

impl HistoryListener for DriverCounts {
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
        let (counts, node) = (DriverCounts::default(), SocketAddr::from(([127, 0, 0, 1], 9042)));
        counts.log_attempt_start(counts.log_request_start(), None, node);
        // The driver found no second replica.
        let fiber = counts.log_new_speculative_fiber(RequestId(0));
        assert_eq!(counts.snapshot().speculative, 0);
        counts.log_attempt_start(RequestId(0), Some(fiber), node);
        assert_eq!(counts.snapshot().speculative, 1);
    }
}
