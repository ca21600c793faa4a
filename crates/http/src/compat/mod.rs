//! What only clients of other servers ask for.
pub(crate) mod entity;
pub(crate) mod groupcache_stats;
pub(crate) mod read_routes;
mod redis_events;
pub(crate) mod redis_json;
pub(crate) mod redis_rest;
pub(crate) mod start_page;
