//! What the database says when it refuses, as a text that carries its SQLSTATE.
use std::error::Error as _;
use tokio_postgres::Error;

/// `SQLSTATE 42P01: relation "users" does not exist`, or why there is no answer.
pub(super) fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(refusal) => {
            let detail = refusal.detail().map(|text| format!(" ({text})")).unwrap_or_default();
            let hint = refusal.hint().map(|text| format!("; hint: {text}")).unwrap_or_default();
            let text = format!("SQLSTATE {}: {}{detail}{hint}", refusal.code().code(), refusal.message());
            // It becomes a line of the Redis protocol.
            text.replace(['\r', '\n'], " ")
        }
        None => {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{error}{cause}").replace(['\r', '\n'], " ")
        }
    }
}
