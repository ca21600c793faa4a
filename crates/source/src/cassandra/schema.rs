//! The table that Larder needs, and `larder cassandra schema --apply`.
use super::{
    cassandra_settings::{quoted, table},
    cassandra_setup::run_apart,
    cluster_session::{OpenError, session},
    cql_error::describe,
};
use larder_config::CassandraUrl;
use std::time::Duration;

/// How long each statement may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The statements that make the keyspace and the table of a URL. `replication`: copies of each row.
pub fn schema(url: &CassandraUrl, replication: u16) -> [String; 2] {
    // A keyspace that is there stays as it is.
    let datacenter = url.datacenter.as_deref().unwrap_or("replication_factor").replace('\'', "''");
    let keyspace = quoted(&url.keyspace);
    [
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', '{datacenter}': {replication}}}"
        ),
        format!("CREATE TABLE IF NOT EXISTS {} (key blob PRIMARY KEY, value blob, version bigint)", table(url)),
    ]
}

/// Runs these statements on the cluster.
///
/// # Errors
/// The cluster's own message, or why there is none.
pub fn apply_schema(url: &CassandraUrl, replication: u16) -> Result<(), String> {
    let of = url.clone();
    let applied = run_apart(4 * LIMIT, async move || {
        let session = session(&of, LIMIT).await?;
        for statement in schema(&of, replication) {
            let run = session.query_unpaged(statement, ()).await;
            run.map_err(|error| OpenError::Wrong(describe(&error)))?;
        }
        Ok(())
    });
    applied
        .map_err(|(OpenError::Wrong(why) | OpenError::Unreachable(why))| format!("cassandra://{}: {why}", url.origin()))
}
