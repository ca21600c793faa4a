//! `postgres://USER@HOST/DATABASE`: rows of a PostgreSQL database, by key. All that knows SQL is in
//! this folder.
//!
//! ```text
//! start: plan ── asks the database about table and queries ──► lookups (lookup: the statements)
//!
//! fetch(batch) ──► fetch_rows: one statement for each key, or one for many keys of a table
//!                     │ parameters: the parts of the key, as text
//!                     ▼
//!                  session_pool ──► session: prepared statements ──► connect: the servers of the URL
//! put, delete ──► write_rows ──► a connection that writes
//! ```
//!
//! - Statements are prepared, and texts of clients go in parameters only. Transactions that read are
//!   read only, and end within `source-timeout`.
//! - A length is compared with `max-value` in the database, before the value is sent.
//! - A pooler gives each transaction another session. It is recognised by a mark that does not come
//!   back, and gets statements without names, in transactions with their own settings.
//! - A connection on which a request was late is closed, with all that waits on it.
mod changes;
mod connect;
mod fetch_rows;
mod lookup;
mod parameters;
mod plan;
mod postgres_settings;
mod postgres_setup;
mod postgres_source;
mod session;
mod session_pool;
mod sql_error;
mod write_rows;

pub use changes::triggers;
pub(super) use postgres_setup::setup;
