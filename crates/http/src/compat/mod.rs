//! What only clients of other servers ask for.
pub(crate) mod entity;
pub(crate) mod groupcache_stats;
pub(crate) mod read_routes;
pub(crate) mod start_page;
