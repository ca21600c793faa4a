//! `/stats`, `/stats/main` and `/stats/hot`: the numbers of the group of `/data/{key}` under the names
//! that groupcache gives them (its `Stats` and `CacheStats`, as `encoding/json` writes them).
//! docs/reference/http.md says what each number counts here.
use crate::{
    messages::{problem_json::Answer, response_writer},
    routing::route_request::RouteRequest,
};
use larder_base::telemetry::SharedGroupSnapshot;
use larder_core::app::App;
use larder_engine::Stats;
use larder_store::clock;
use serde_json::json;

/// `GET /stats`: of the group.
pub(crate) fn group(request: &RouteRequest<'_>) -> Answer {
    let app = &request.worker.app;
    let (gets, hits, cache, shared) = numbers(app);
    let health = app.groups.at(app.settings.data_group).source().health();
    let (fetches, errors) = (health.fetches(), health.errors());
    let begun = shared.map_or(fetches, |shared| shared.fetches);
    let shared = shared.unwrap_or_default();
    response_writer::json_value(&json!({
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
    }))
}

/// `GET /stats/main`: of the memory tier.
pub(crate) fn main(request: &RouteRequest<'_>) -> Answer {
    let (gets, hits, cache, _) = numbers(&request.worker.app);
    response_writer::json_value(&json!({
        "Bytes": cache.live_bytes,
        "Items": cache.entries,
        "Gets": gets,
        "Hits": hits,
        "Evictions": cache.evictions,
    }))
}

/// `GET /stats/hot`: of copies of other nodes' keys.
pub(crate) fn hot(request: &RouteRequest<'_>) -> Answer {
    let shared = numbers(&request.worker.app).3.unwrap_or_default();
    let (bytes, items) = (shared.hot_copy_bytes, shared.hot_copies);
    response_writer::json_value(
        &json!({ "Bytes": bytes, "Items": items, "Gets": null, "Hits": null, "Evictions": null }),
    )
}

/// Reads and hits of the group, its memory tier, and what it shares with other nodes.
fn numbers(app: &App) -> (u64, u64, Stats, Option<SharedGroupSnapshot>) {
    let group = app.groups.at(app.settings.data_group);
    let (cache, name) = (group.cache.stats(), &group.settings.name);
    let shared = app.peers.as_ref().and_then(|peers| peers.group_snapshot(name, clock::now()));
    let hits = cache.hits + cache.negative_hits;
    (hits + cache.misses, hits, cache, shared)
}
