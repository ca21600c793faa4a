//! The HTTP routes: native, compatibility and admin.
//!
//! ```text
//!              first bytes                  plain GETs of hot routes                 anything else, with the bytes already read
//! TcpStream ─────────────► fast_path: recognise ──────► answered from inside ──┐  ┌─► general_path: hyper (HTTP/1.1, HTTP/2) ─► router ─► key_routes, mget …
//!                              ▲                        the engine's lookup     │  │                                                    │
//!                              └────────── one write per batch ◄───────────────┘  └── from then on ◄───────────────────────────────────┘
//! ```
//!
//! Invariants:
//! - The fast path answers only what the general path would answer with the same bytes.
//!   `read_responses` words both, and a test compares them.
//! - A hit on the fast path allocates nothing: input and output buffers belong to the worker, not
//!   to the connection.
//! - Every wait for a client ends: for a head after `header-timeout`, for the next request or for
//!   room in the client's window after `idle-timeout`, for a request's body by its size
//!   (`request_body`).
//! - No route reads the clock twice or trusts a length before comparing it with its setting.
mod access_log;
mod closing_response;
mod command_numbers;
mod config_routes;
mod connection_activity;
mod connection_context;
mod connection_deadlines;
mod connection_routes;
mod console;
mod content_codings;
mod contents_route;
mod data_content_type;
mod docs_page;
mod document_routes;
mod entity_replicas;
mod explain_key;
mod fast_path;
mod fault_routes;
mod forwarded_writes;
mod general_path;
mod group_control;
mod groupcache_stats;
mod grpc_service;
mod health;
mod history_routes;
mod hot_key_lists;
mod http_worker_state;
mod item_api;
mod kept_answer;
mod key_routes;
mod list_keys;
mod live_stream;
mod log_level;
mod metrics_and_stats;
mod mget;
mod mode_rules;
mod openapi;
mod owner_requests;
mod peer_moves;
mod peer_routes;
mod peer_status;
mod preconditions;
mod primary_connections;
mod problem_json;
mod range_routes;
mod rate_limit_headers;
mod read_responses;
mod record_operations;
mod request_body;
mod request_checks;
mod request_user;
mod response_body;
mod response_writer;
mod route_request;
mod route_table;
mod router;
mod serve_connection;
mod slow_log_route;
mod snapshot_routes;
mod store_backup;
mod tag_routes;
#[cfg(test)]
mod tests;
mod upstream_user;
mod what_if;

pub use connection_context::ListenerRole;
pub use http_worker_state::HttpWorkerState;
pub use serve_connection::serve_connection;
