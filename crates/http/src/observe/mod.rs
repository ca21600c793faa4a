//! What the server says about itself: health, metrics, keys, commands, peers.
pub(crate) mod command_numbers;
pub(crate) mod contents_route;
pub(crate) mod health;
pub(crate) mod history_routes;
pub(crate) mod hot_key_lists;
pub(crate) mod live_stream;
pub(crate) mod metrics_and_stats;
pub(crate) mod peer_status;
pub(crate) mod slow_log_route;
pub(crate) mod what_if;
