//! `/stats`, `/stats/main` and `/stats/hot`: the numbers of the group of `/data/{key}` under the names
//! that groupcache gives them (its `Stats` and `CacheStats`, as `encoding/json` writes them).
//! docs/reference/http.md says what each number counts here.
use crate::{
    connection::connection_context::ConnectionContext,
    messages::{response_body::ResponseBody, response_writer},
};
use http::Response;
use larder_store::clock;
use serde_json::json;

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupcacheStats {
    /// Of the group.
    Group,
    /// Of the memory tier.
    Main,
    /// Of copies of other nodes' keys.
    Hot,
}

/// `GET`: the numbers as they are now.
pub(crate) fn groupcache_stats(context: &ConnectionContext, which: GroupcacheStats) -> Response<ResponseBody> {
    let app = &context.worker.app;
    let group = app.groups.at(app.settings.data_group);
    let (cache, name) = (group.cache.stats(), &group.settings.name);
    let shared = app.peers.as_ref().and_then(|peers| peers.group_snapshot(name, clock::now()));
    let hits = cache.hits + cache.negative_hits;
    let gets = hits + cache.misses;
    let document = match which {
        GroupcacheStats::Group => {
            let health = group.source.health();
            let (fetches, errors) = (health.fetches(), health.errors());
            let begun = shared.map_or(fetches, |shared| shared.fetches);
            let shared = shared.unwrap_or_default();
            json!({
                "Gets": gets,
                "CacheHits": hits,
                "GetFromPeersLatencyLower": shared.slowest,
                "PeerLoads": shared.loads,
                "PeerErrors": shared.errors,
                "Loads": cache.misses,
                "LoadsDeduped": begun,
                "LocalLoads": fetches.saturating_sub(errors),
                "LocalLoadErrs": errors,
                "ServerRequests": shared.requests,
                "RemoveKeysRequests": shared.removal_requests,
                "RemovedKeys": shared.removed_keys,
            })
        }
        GroupcacheStats::Main => json!({
            "Bytes": cache.live_bytes,
            "Items": cache.entries,
            "Gets": gets,
            "Hits": hits,
            "Evictions": cache.evictions,
        }),
        GroupcacheStats::Hot => {
            let shared = shared.unwrap_or_default();
            json!({ "Bytes": shared.hot_copy_bytes, "Items": shared.hot_copies, "Gets": null, "Hits": null, "Evictions": null })
        }
    };
    response_writer::json(ResponseBody::full(document.to_string()))
}
