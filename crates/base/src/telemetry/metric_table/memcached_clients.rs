//! memcached commands.
use super::metric_family::{MetricFamily, MetricKind::Counter};

pub(super) const MEMCACHED_CLIENTS: &[MetricFamily] = &[
    sums!(
        "larder_memcached_commands_total",
        "command",
        [
            "get" => memcached_gets,
            "set" => memcached_sets,
            "touch" => memcached_touches,
            "delete" => memcached_deletes,
            "arithmetic" => memcached_arithmetic,
            "flush" => memcached_flushes,
            "other" => memcached_others
        ],
        "Keys that memcached clients read (get) or touched, and their other commands, by kind."
    ),
    sum!(
        "larder_memcached_get_misses_total",
        memcached_get_misses,
        "Keys that memcached clients asked for and that had no value."
    ),
    sum!("larder_memcached_errors_total", memcached_errors, "memcached commands answered with an error."),
    sum!(
        "larder_memcached_cross_protocol_total",
        memcached_foreign,
        "memcached connections closed because the client sent something else than memcached commands."
    ),
];
