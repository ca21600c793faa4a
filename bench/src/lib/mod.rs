//! What the programs share.
//!
//! | | |
//! |---|---|
//! | `load` | the load generator: schedule, keys, values, protocols, connections |
//! | `results` | the result of a load: JSON, table for a person, HdrHistogram log, page with charts |
//! | `trace` | files of recorded requests |
//! | `small_server` | a small HTTP server in this process |
//! | `delaying_proxy` | a proxy that adds a network's round trip |
//! | `scripted_origin` | an HTTP origin in this process that is slow, fails or is gone as the program says |
//! | `servers` | servers under test as child processes |
//! | `cql_client` | a client of Cassandra that waits for its answers |
//! | `sql_client` | a client of PostgreSQL that waits for its answers |
//! | `scenario` | the runner of scenarios: servers, loads, what is measured |
//! | `rival_caches` | caches in this process behind one trait |
//! | `blocking_clients` | small clients of the Redis protocol and of HTTP that check what they read |
//! | `dataset`, `value_stamp` | keys and values computed from a number; values that prove whose they are |
//! | `key_file` | files of keys, or of keys and values |
//! | `entry_memory` | resident bytes per entry of a cache in a child process |
//! | `figures` | JSON lines, figures with their targets, medians |
//! | `machine` | cores, and the CPU time and memory of processes |
pub(crate) mod blocking_clients;
pub(crate) mod cql_client;
pub(crate) mod dataset;
pub(crate) mod delaying_proxy;
pub(crate) mod entry_memory;
pub(crate) mod figures;
pub(crate) mod key_file;
pub(crate) mod load;
pub(crate) mod machine;
pub(crate) mod results;
pub(crate) mod rival_caches;
pub(crate) mod scenario;
pub(crate) mod scripted_origin;
pub(crate) mod servers;
pub(crate) mod small_server;
pub(crate) mod sql_client;
pub(crate) mod trace;
pub(crate) mod value_stamp;
