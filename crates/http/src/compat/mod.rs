//! What only clients of other servers ask for.
pub(crate) mod data_content_type;
pub(crate) mod entity;
pub(crate) mod groupcache_stats;
