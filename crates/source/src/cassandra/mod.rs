//! `cassandra://HOST/KEYSPACE`: a table of a Cassandra or ScyllaDB cluster. All that knows CQL is in
//! this folder.
//!
//! ```text
//! start: setup ── asks the cluster about the table ──► a Larder starts that can use it
//!
//! fetch(batch) ──► cassandra_source ──► cluster_session: the driver, its statements prepared
//! put, delete, apply ──► row_changes: plain writes
//! change_if ──► row_changes: lightweight transactions on the column `version`
//! scan, count, pick ──► token_scan: in the order of the tokens
//! ```
//!
//! - A node that is away is told by `driver_sessions`: the driver knows. A plain write that a node
//!   refused goes to another one (`refused_writes`), a write that may have been made does not.
//! - Each write gives the row a version that no other write has (`stored_row`). A change that rests
//!   on what was read is a lightweight transaction: it demands the version that was read.
//! - A transaction that the cluster did not decide in time is read back at serial consistency. If
//!   that does not tell either, the write is [`Lost`](crate::SourceError::Lost).
//! - The exact expiry is in the row. Cassandra's own lifetime is at most a second longer.
//! - A table whose columns the URL names (`table_columns`) has values without head and version: plain
//!   reads and writes are all that it takes.
//! - Rows are written with UPDATE only. An INSERT would leave a row marker that outlives them.
mod cassandra_settings;
mod cassandra_setup;
mod cassandra_source;
mod cluster_session;
mod cql_error;
mod driver_sessions;
mod refused_writes;
mod row_changes;
mod schema;
mod stored_row;
mod table_columns;
mod token_scan;

pub(super) use cassandra_setup::setup;
pub use schema::{apply_schema, schema};
