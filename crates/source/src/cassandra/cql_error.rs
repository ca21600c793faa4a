//! What the cluster says when it refuses, and whether a write may have been made.
use scylla::errors::{BadQuery, DbError, ExecutionError, PrepareError, RequestAttemptError};

/// What is known about a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The cluster understood it and will not do it, however often it is asked.
    Refused,
    /// Nothing was done.
    NotSent,
    /// It may have been done.
    Unknown,
}

/// What is known about this request.
pub(super) fn fate(error: &ExecutionError) -> Fate {
    match error {
        ExecutionError::BadQuery(BadQuery::SerializationError(_) | BadQuery::ValuesTooLongForKey(..)) => Fate::Refused,
        ExecutionError::PrepareError(PrepareError::AllAttemptsFailed { first_attempt })
        | ExecutionError::LastAttemptError(first_attempt) => match first_attempt {
            attempt if is_refused_by_node(attempt) => Fate::NotSent,
            RequestAttemptError::DbError(refusal, _) => match refusal {
                DbError::SyntaxError
                | DbError::Invalid
                | DbError::Unauthorized
                | DbError::ConfigError
                | DbError::AuthenticationError
                | DbError::ProtocolError => Fate::Refused,
                // A replica that rejects does not stop the others.
                DbError::RateLimitReached { rejected_by_coordinator: true, .. } => Fate::NotSent,
                _ => Fate::Unknown,
            },
            RequestAttemptError::SerializationError(_) | RequestAttemptError::CqlRequestSerialization(_) => {
                Fate::NotSent
            }
            _ => Fate::Unknown,
        },
        ExecutionError::EmptyPlan
        | ExecutionError::ConnectionPoolError(_)
        | ExecutionError::PrepareError(_)
        | ExecutionError::BadQuery(_) => Fate::NotSent,
        _ => Fate::Unknown,
    }
}

/// Whether this node did nothing with a plain write, and another may take it: Cassandra and ScyllaDB
/// look for overload and for living replicas before they send a write to any replica.
pub(super) fn is_refused_by_node(error: &RequestAttemptError) -> bool {
    match error {
        RequestAttemptError::DbError(error, _) => {
            matches!(error, DbError::Unavailable { .. } | DbError::Overloaded | DbError::IsBootstrapping)
        }
        // All of a connection's stream numbers are in use.
        RequestAttemptError::UnableToAllocStreamId => true,
        _ => false,
    }
}

/// Whether the cluster refused to prepare a statement, instead of not answering.
pub(super) fn is_refusal(error: &PrepareError) -> bool {
    fate(&ExecutionError::PrepareError(error.clone())) == Fate::Refused
}

/// The cluster's own message, or why there is none, on one line.
pub(super) fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::PrepareError(error) => describe_prepare(error),
        ExecutionError::LastAttemptError(error) => describe_attempt(error),
        other => one_line(&other.to_string()),
    }
}

/// Like `describe`, for a statement that could not be prepared.
pub(super) fn describe_prepare(error: &PrepareError) -> String {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => describe_attempt(first_attempt),
        other => one_line(&other.to_string()),
    }
}

fn describe_attempt(error: &RequestAttemptError) -> String {
    match error {
        RequestAttemptError::DbError(kind, message) if !message.is_empty() => match kind {
            // The message alone does not say how many replicas answered.
            DbError::WriteTimeout { .. } | DbError::ReadTimeout { .. } | DbError::Unavailable { .. } => {
                one_line(&format!("{message}: {kind}"))
            }
            _ => one_line(message),
        },
        other => one_line(&other.to_string()),
    }
}

/// It becomes a line of the Redis protocol.
pub(super) fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::{
        errors::{OperationType, WriteType},
        statement::Consistency,
    };

    #[test]
    fn only_what_did_nothing_goes_to_another_node() {
        let consistency = Consistency::Quorum;
        let rate_limit = |rejected_by_coordinator| DbError::RateLimitReached {
            op_type: OperationType::Write,
            rejected_by_coordinator,
        };
        let timeout = DbError::WriteTimeout { consistency, received: 0, required: 2, write_type: WriteType::Simple };
        let failure = DbError::WriteFailure {
            consistency,
            received: 0,
            required: 2,
            numfailures: 2,
            write_type: WriteType::Simple,
        };
        for (error, another_node, expected) in [
            (DbError::Overloaded, true, Fate::NotSent),
            (DbError::IsBootstrapping, true, Fate::NotSent),
            (DbError::Unavailable { consistency, required: 2, alive: 1 }, true, Fate::NotSent),
            (rate_limit(true), false, Fate::NotSent),
            (rate_limit(false), false, Fate::Unknown),
            (timeout, false, Fate::Unknown),
            (failure, false, Fate::Unknown),
            (DbError::ServerError, false, Fate::Unknown),
            (DbError::Other(0x9999), false, Fate::Unknown),
            (DbError::Invalid, false, Fate::Refused),
            (DbError::Unauthorized, false, Fate::Refused),
        ] {
            let attempt = RequestAttemptError::DbError(error, String::new());
            assert_eq!(is_refused_by_node(&attempt), another_node, "{attempt:?}");
            assert_eq!(fate(&ExecutionError::LastAttemptError(attempt.clone())), expected, "{attempt:?}");
        }
        let full = RequestAttemptError::UnableToAllocStreamId;
        assert!(is_refused_by_node(&full));
        assert_eq!(fate(&ExecutionError::LastAttemptError(full)), Fate::NotSent);
        let timeout = ExecutionError::RequestTimeout(std::time::Duration::from_secs(1));
        assert_eq!(fate(&timeout), Fate::Unknown);
    }
}
