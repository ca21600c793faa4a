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
            RequestAttemptError::DbError(refusal, _) => match refusal {
                DbError::SyntaxError
                | DbError::Invalid
                | DbError::Unauthorized
                | DbError::ConfigError
                | DbError::AuthenticationError
                | DbError::ProtocolError => Fate::Refused,
                DbError::Unavailable { .. } | DbError::IsBootstrapping | DbError::RateLimitReached { .. } => {
                    Fate::NotSent
                }
                _ => Fate::Unknown,
            },
            RequestAttemptError::SerializationError(_)
            | RequestAttemptError::CqlRequestSerialization(_)
            | RequestAttemptError::UnableToAllocStreamId => Fate::NotSent,
            _ => Fate::Unknown,
        },
        ExecutionError::EmptyPlan
        | ExecutionError::ConnectionPoolError(_)
        | ExecutionError::PrepareError(_)
        | ExecutionError::BadQuery(_) => Fate::NotSent,
        _ => Fate::Unknown,
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
