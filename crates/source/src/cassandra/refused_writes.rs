//! What the driver does with a plain write that fails at a node.
use super::cql_error::is_refused_by_node;
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// Sends a write to one other node if the first refused it and has done nothing. What may have been
/// done is not done twice.
#[derive(Debug)]
pub(super) struct RetryRefusedWrites;

impl RetryPolicy for RetryRefusedWrites {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(OneWrite { is_second: false })
    }
}

struct OneWrite {
    /// A cluster that is overloaded as a whole must not get each write many times.
    is_second: bool,
}
impl RetrySession for OneWrite {
    fn decide_should_retry(&mut self, info: RequestInfo<'_>) -> RetryDecision {
        if !is_refused_by_node(info.error) || std::mem::replace(&mut self.is_second, true) {
            return RetryDecision::DontRetry;
        }
        RetryDecision::RetryNextTarget(None)
    }
    fn reset(&mut self) {
        self.is_second = false;
    }
}
