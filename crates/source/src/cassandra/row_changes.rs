//! Reads and writes of one row.
use super::{
    cassandra_settings::CassandraSettings,
    cluster_session::{ClusterSession, Transactions},
    cql_error::{Fate, describe, fate},
    stored_row::{encode, lifetime, new_version},
    table_columns::RawCell,
};
use crate::{local_store::Revision, source_error::SourceError};
use bytes::Bytes;
use larder_store::{StoredValue, clock};
use scylla::{
    errors::{ExecutionError, RequestAttemptError},
    response::query_result::QueryResult,
    statement::prepared::PreparedStatement,
    value::Row,
};
use tokio::time::{Instant, sleep};

/// Wait before an undecided transaction is looked at again.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(50);

/// The entry of a key, also an expired one, and its revision.
pub(super) async fn read_row(
    settings: &CassandraSettings,
    session: &ClusterSession,
    key: &[u8],
) -> Result<(Option<StoredValue>, Revision), SourceError> {
    match session.columns.row_key(key) {
        Some(row_key) => read_with(settings, session, &session.get, &row_key).await,
        None => Ok((None, Revision(None))),
    }
}

/// As [`read_row`], without expired entries.
pub(super) async fn read_live(
    settings: &CassandraSettings,
    session: &ClusterSession,
    key: &[u8],
) -> Result<(Option<StoredValue>, Revision), SourceError> {
    let (entry, revision) = read_row(settings, session, key).await?;
    let now = clock::now();
    Ok((entry.filter(|entry| entry.expiry.is_none_or(|at| at > now)), revision))
}

async fn read_with(
    settings: &CassandraSettings,
    session: &ClusterSession,
    statement: &PreparedStatement,
    row_key: &[u8],
) -> Result<(Option<StoredValue>, Revision), SourceError> {
    let read = session.session.execute_unpaged(statement, (RawCell(row_key),)).await;
    let result = read.map_err(|error| settings.read_error(&error))?;
    let unreadable = |error: &dyn std::fmt::Display| settings.refused(error);
    let rows = result.into_rows_result().map_err(|error| unreadable(&error))?;
    let row: Option<(Option<Bytes>, Option<i64>)> = rows.maybe_first_row().map_err(|error| unreadable(&error))?;
    let Some((value, beside)) = row else { return Ok((None, Revision(None))) };
    let revision = Revision(session.columns.revision(beside));
    let Some(value) = value else { return Ok((None, revision)) };
    let entry = session.columns.entry(value, beside, clock::now());
    let entry = entry.ok_or_else(|| settings.refused("the row was not written by Larder"))?;
    Ok((Some(entry), revision))
}

/// Stores an entry (or with `None` deletes it), whatever is there.
pub(super) async fn write_row(
    settings: &CassandraSettings,
    session: &ClusterSession,
    key: &[u8],
    to: Option<&StoredValue>,
) -> Result<(), SourceError> {
    let (row_key, now) = (session.columns.key_to_write(settings, key)?, clock::now());
    let entry = to.filter(|entry| entry.expiry.is_none_or(|at| at > now));
    let value = session.columns.value_to_write(settings, entry)?;
    let written = match (entry, &value) {
        (Some(entry), Some(value)) if session.transactions.is_some() => {
            let values = (lifetime(entry.expiry, now), RawCell(value), new_version(entry.kind), RawCell(&row_key));
            session.session.execute_unpaged(&session.put, values).await
        }
        (_, Some(value)) => session.session.execute_unpaged(&session.put, (RawCell(value), RawCell(&row_key))).await,
        (_, None) => session.session.execute_unpaged(&session.delete, (RawCell(&row_key),)).await,
    };
    written.map(drop).map_err(|error| settings.write_error(&error))
}

/// Like `write_row`, if the row still has this revision; whether it had.
///
/// # Errors
/// `Lost`: the cluster did not decide, and what it has now does not tell either.
pub(super) async fn write_row_if(
    settings: &CassandraSettings,
    session: &ClusterSession,
    key: &[u8],
    to: Option<&StoredValue>,
    Revision(expected): Revision,
) -> Result<bool, SourceError> {
    let transactions = transactions(settings, session)?;
    let (row_key, now) = (session.columns.key_to_write(settings, key)?, clock::now());
    let entry = to.filter(|entry| entry.expiry.is_none_or(|at| at > now));
    let version = entry.map(|entry| new_version(entry.kind));
    let answer = match (entry, version) {
        (Some(entry), Some(version)) => {
            let values = (lifetime(entry.expiry, now), encode(entry), version, RawCell(&row_key), expected);
            session.session.execute_unpaged(&transactions.put_if, values).await
        }
        // There is nothing to delete, and nothing was there.
        _ if expected.is_none() => return Ok(true),
        _ => session.session.execute_unpaged(&transactions.delete_if, (RawCell(&row_key), expected)).await,
    };
    let error = match answer {
        Ok(result) => return is_applied(settings, result),
        Err(error) => error,
    };
    match fate(&error) {
        Fate::Refused => Err(settings.refused(describe(&error))),
        // A node that answers so may have begun: some replicas may have accepted an earlier round.
        Fate::NotSent if !is_answer(&error) => Err(settings.unavailable(describe(&error))),
        Fate::NotSent | Fate::Unknown => {
            let found = look_back(settings, session, transactions, &row_key).await;
            decided(settings, &error, found, version, expected)
        }
    }
}

/// The statements that demand a version.
///
/// # Errors
/// The table has none.
pub(super) fn transactions<'s>(
    settings: &CassandraSettings,
    session: &'s ClusterSession,
) -> Result<&'s Transactions, SourceError> {
    session.transactions.as_ref().ok_or_else(|| session.columns.no_versions(settings))
}

/// What a row that was read back says about a transaction with this version.
fn decided(
    settings: &CassandraSettings,
    error: &ExecutionError,
    found: Result<Revision, SourceError>,
    version: Option<i64>,
    expected: Option<i64>,
) -> Result<bool, SourceError> {
    match found {
        Ok(Revision(Some(found))) if Some(found) == version => Ok(true),
        // The node has ended its attempt, and the read at serial consistency has ended all earlier
        // transactions. Without an answer, the node may go on with its attempt after the read.
        Ok(Revision(Some(found))) if Some(found) == expected && is_answer(error) => {
            Err(settings.unavailable(format!("{} (nothing has changed)", describe(error))))
        }
        // It may have been applied and replaced since.
        _ => Err(settings.lost(describe(error))),
    }
}

/// Whether the node that led the transaction answered.
fn is_answer(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::LastAttemptError(RequestAttemptError::DbError(..)))
}

/// The revision of a row once all transactions before are decided.
async fn look_back(
    settings: &CassandraSettings,
    session: &ClusterSession,
    transactions: &Transactions,
    row_key: &[u8],
) -> Result<Revision, SourceError> {
    let until = Instant::now() + settings.limits.timeout;
    loop {
        match read_with(settings, session, &transactions.get_serial, row_key).await {
            Ok((_, revision)) => return Ok(revision),
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => sleep(LOOK_AGAIN).await,
        }
    }
}

fn is_applied(settings: &CassandraSettings, result: QueryResult) -> Result<bool, SourceError> {
    let unreadable = |error: &dyn std::fmt::Display| settings.lost(error);
    let rows = result.into_rows_result().map_err(|error| unreadable(&error))?;
    // ScyllaDB answers with more columns than Cassandra.
    let row: Row = rows.single_row().map_err(|error| unreadable(&error))?;
    let applied = row.columns.first().and_then(|column| column.as_ref()?.as_boolean());
    applied.ok_or_else(|| settings.lost("the answer to a transaction says nothing"))
}

#[cfg(test)]
mod tests;
