//! `larder get|set|del KEY [VALUE]`: one request to any Larder or Redis, over HTTP or the Redis protocol.
//!
//! Exit codes: 0 done, 1 there is no such key, 2 wrong usage, 3 no answer or an error for an answer.
mod client_request;
mod get_set_del;
mod over_http;
mod over_redis;

pub(super) use get_set_del::{commands, run};
