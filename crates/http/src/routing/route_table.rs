//! The table of routes: one row for each method of each path.
//!
//! A row is `METHOD "path" Listeners SCOPE TimedWith, rights, parameters, Limit "body", handler => tag id "summary"
//! "description" "answers";`. A name in quotes is one of `openapi.json`. `only[…]` parameters are
//! all that the query may have. The limit is that of the body. Handlers are
//!
//! - `read(route)`: the read of one key
//! - `now(function)`: waits for nothing
//! - `later(function)`: waits
//! - `body(function)`: is given the body
//! - `unread(function)`: reads the body itself, after its checks
use super::{
    docs_page, openapi,
    route::{
        About, Handler, Parameters, Route, RouteListeners,
        RouteRights::{AnyKey, Command, Item, Key, KeyOrAny, KeysInBody, Nodes, NodesOrGet, Open, Session},
        Variables, matches,
    },
};
use crate::{
    admin::{config_routes, connection_routes, fault_routes, group_control, snapshot_routes, store_backup},
    compat::{entity, groupcache_stats, read_routes::ReadRoute, redis_rest},
    connection::connection_context::ListenerRole,
    console, item_api,
    keys::{key_routes, list_keys, mget, range_routes, tag_routes},
    messages::{problem_json::Problem, request_body::BodyLimit},
    nodes::{grpc_service, owner_requests, peer_routes},
    observe::{
        command_numbers, contents_route, health, history_routes, hot_key_lists, live_stream, metrics_and_stats,
        peer_status, slow_log_route, what_if,
    },
};
use http::Method;
use larder_base::{identity::KeyAccess, lifecycle::throttle::Scope, telemetry::HttpRoute};

const READ: KeyAccess = KeyAccess::READ;
const WRITE: KeyAccess = KeyAccess::WRITE;
const BOTH: KeyAccess = KeyAccess::BOTH;
const DATA: Option<Scope> = Some(Scope::Data);
const ADMIN: Option<Scope> = Some(Scope::Admin);
const FREE: Option<Scope> = None;

macro_rules! handler {
    (read($route:expr)) => {
        Handler::Read($route)
    };
    (now($function:expr)) => {
        Handler::Now($function)
    };
    (later($function:path)) => {
        Handler::Later(|request, _| Box::pin($function(request)))
    };
    (body($function:path)) => {
        Handler::Later(|request, body| Box::pin(async { $function(request, body.read().await?).await }))
    };
    (unread($function:path)) => {
        Handler::Later(|request, body| Box::pin($function(request, body)))
    };
}

macro_rules! routes {
    ($($method:ident $pattern:literal $on:ident $scope:ident $timed_with:ident, $rights:expr,
        $has:ident[$($name:literal)*], $limit:ident $body:literal, $kind:ident($($function:tt)+)
        => $tag:ident $id:ident $summary:literal $description:literal $answers:literal;)*) => {
        &[$(Route {
            method: Method::$method,
            pattern: $pattern,
            on: RouteListeners::$on,
            scope: $scope,
            timed_with: HttpRoute::$timed_with,
            rights: $rights,
            parameters: Parameters { has_only: routes!($has), names: &[$($name),*] },
            limit: BodyLimit::$limit,
            handler: handler!($kind($($function)+)),
            about: About {
                tag: stringify!($tag),
                id: stringify!($id),
                summary: $summary,
                description: $description,
                body: $body,
                answers: $answers,
            },
        }),*]
    };
    (only) => {
        true
    };
    (any) => {
        false
    };
}

pub(crate) static ROUTES: &[Route] = routes! {
    GET "/v1/kv/{key}" NativeAndConsole DATA Kv, Key("get", None, READ), any["pointer" "If-None-Match" "If-Match"], Unread "", read(ReadRoute::Kv)
        => keys getKey "Read a key of group `default`" "" "200 value | 304 notModified | 4XX | 502 | 503";
    PUT "/v1/kv/{key}" Native DATA Kv, Key("set", None, WRITE), only["type" "ttl" "tag" "Cache-Tag" "Surrogate-Key" "If-None-Match" "If-Match"], Value "value", unread(owner_requests::put)
        => keys putKey "Store a key of group `default`, in its source first" "" "201 created | 204 replaced | 4XX | 502 | 503";
    PATCH "/v1/kv/{key}" Native DATA Kv, Key("set", None, BOTH), only["If-Match"], Value "patch", body(owner_requests::patch)
        => keys patchKey "Change a JSON document of group `default`" "Atomic: all operations of a JSON Patch apply, or none. Documents are kept without a source and by a disk store." "204 replaced | 4XX | 501 | 502 | 503";
    DELETE "/v1/kv/{key}" Native DATA Kv, Key("del", None, WRITE), only["If-Match"], Unread "", later(owner_requests::delete)
        => keys deleteKey "Delete a key of group `default`, from its source first" "" "204 : Deleted | 4XX | 502 | 503";
    POST "/v1/mget" Native DATA Mget, KeysInBody, only[], Small "keys", body(mget::mget)
        => keys getKeys "Read many keys of group `default`" "" "200 values | 4XX | 502 | 503";
    GET "/v1/keys" NativeAndConsole DATA Keys, Command("scan"), only["match" "cursor" "count"], Unread "", later(list_keys::list_keys)
        => keys listKeys "A page of the keys of group `default` in memory" "" "200 page | 4XX | 503";
    GET "/v1/range" Native DATA Keys, AnyKey("scan", READ), only["start" "end" "limit" "reverse"], Unread "", later(range_routes::lines)
        => keys readRange "The entries of group `default` in the order of their keys, from a store on this machine" "" "200 lines | 4XX | 501 | 503";
    GET "/v1/groups/{group}/kv/{key}" NativeAndConsole DATA Kv, Key("get", None, READ), any["pointer" "If-None-Match" "If-Match"], Unread "", read(ReadRoute::Kv)
        => keys getGroupKey "Read a key of a group" "" "200 value | 304 notModified | 4XX | 502 | 503";
    PUT "/v1/groups/{group}/kv/{key}" Native DATA Kv, Key("set", None, WRITE), only["type" "ttl" "tag" "Cache-Tag" "Surrogate-Key" "If-None-Match" "If-Match"], Value "value", unread(owner_requests::put)
        => keys putGroupKey "Store a key of a group, in its source first" "" "201 created | 204 replaced | 4XX | 502 | 503";
    PATCH "/v1/groups/{group}/kv/{key}" Native DATA Kv, Key("set", None, BOTH), only["If-Match"], Value "patch", body(owner_requests::patch)
        => keys patchGroupKey "Change a JSON document of a group" "Atomic: all operations of a JSON Patch apply, or none. Documents are kept without a source and by a disk store." "204 replaced | 4XX | 501 | 502 | 503";
    DELETE "/v1/groups/{group}/kv/{key}" Native DATA Kv, Key("del", None, WRITE), only["If-Match"], Unread "", later(owner_requests::delete)
        => keys deleteGroupKey "Delete a key of a group, from its source first" "" "204 : Deleted | 4XX | 502 | 503";
    POST "/v1/groups/{group}/mget" Native DATA Mget, KeysInBody, only[], Small "keys", body(mget::mget)
        => keys getGroupKeys "Read many keys of a group" "" "200 values | 4XX | 502 | 503";
    GET "/v1/groups/{group}/keys" NativeAndConsole DATA Keys, Command("scan"), only["match" "cursor" "count"], Unread "", later(list_keys::list_keys)
        => keys listGroupKeys "A page of the keys that a group has in memory" "" "200 page | 4XX | 503";
    GET "/v1/groups/{group}/range" Native DATA Keys, AnyKey("scan", READ), only["start" "end" "limit" "reverse"], Unread "", later(range_routes::lines)
        => keys readGroupRange "The entries of a group in the order of their keys, from a store on this machine" "" "200 lines | 4XX | 501 | 503";
    DELETE "/v1/groups/{group}" Native DATA Keys, AnyKey("flushdb", WRITE), only["soft"], Unread "", later(tag_routes::clear_group)
        => keys clearGroup "Empty a group's memory tier; the source keeps its data" "" "204 : Cleared | 4XX | 503";
    DELETE "/v1/keys" Native DATA Keys, KeyOrAny("del", "key", WRITE), only["prefix" "key.cleared" "soft"], Unread "", later(tag_routes::clear_keys)
        => keys clearPrefix "Clear the keys of group `default` that begin with a prefix from memory, in constant time; or one key" "" "204 : Cleared | 4XX | 503";
    DELETE "/v1/groups/{group}/keys" Native DATA Keys, KeyOrAny("del", "key", WRITE), only["prefix" "key.cleared" "soft"], Unread "", later(tag_routes::clear_keys)
        => keys clearGroupPrefix "Clear the keys of a group that begin with a prefix from memory, in constant time" "" "204 : Cleared | 4XX | 503";
    DELETE "/v1/tags/{key}" Native DATA Keys, AnyKey("larder.cleartag", WRITE), only["path-tag" "soft"], Unread "", later(tag_routes::clear_tag)
        => keys clearTag "Clear all entries with a tag of group `default` from memory, in constant time" "" "204 : Cleared | 4XX | 503";
    DELETE "/v1/groups/{group}/tags/{key}" Native DATA Keys, AnyKey("larder.cleartag", WRITE), only["path-tag" "soft"], Unread "", later(tag_routes::clear_tag)
        => keys clearGroupTag "Clear all entries with a tag of a group from memory, in constant time" "" "204 : Cleared | 4XX | 503";
    GET "/_groupcache/{group}/{key}" Native DATA Peer, NodesOrGet, any[], Unread "", read(ReadRoute::Peer)
        => compatibility peerGet "For nodes: read a key from memory or from the source, never from a third node" "" "200 message | 404 : The key does not exist | 421 text | 4XX | 503";
    PUT "/_groupcache/{group}/{key}" Native DATA Peer, Nodes, any[], Message "", body(peer_routes::set)
        => compatibility peerSet "For nodes: store a value (a `SetRequest` of groupcache) in this node alone" "Exists only with `peers`, `peer-secret` or `peer-tls-ca`." "200 : Stored | 421 text | 4XX | 503";
    DELETE "/_groupcache/{group}/{key}" Native DATA Peer, Nodes, any[], Unread "", later(peer_routes::remove)
        => compatibility peerRemove "For nodes: remove a key in this node alone" "Exists only with `peers`, `peer-secret` or `peer-tls-ca`." "200 : Removed | 421 text | 4XX | 503";
    POST "/_groupcache/{group}/{key}" Native DATA Peer, Nodes, any[], ForNode "", body(peer_routes::post)
        => compatibility peerPost "For nodes: remove several keys (`_remove-keys/`, JSON), or the entries with a tag or a prefix (`_clear/?tag=`, `_clear/?prefix=`), in this node alone. Larder nodes also use `_hottest/?of=&bytes=` and `_member/?of=&is=` for a handover" "Exists only with `peers`, `peer-secret` or `peer-tls-ca`." "200 : Removed | 421 text | 4XX | 503";
    POST "/larder.peers.v1.Peers/{key}" Native DATA Peer, Nodes, any[], Message "", body(grpc_service::call)
        => compatibility peerCall "For nodes: requests over gRPC (`peer-transport = \"grpc\"`); `key` is the method. `larder_peers.proto` describes them" "Exists only with `peers`, `peer-secret` or `peer-tls-ca`." "200 grpc | 4XX | 503";
    GET "/data/{key}" Native DATA Data, Key("get", None, READ), any[], Unread "", read(ReadRoute::Data)
        => compatibility getData "Read a key of group `data`, or of `http-group` if there is no such group, like services over groupcache" "" "200 data | 400 text | 404 text | 502 text | 503 text";
    DELETE "/data/{key}" Native DATA Data, Key("del", None, WRITE), only["If-Match"], Unread "", later(owner_requests::delete_data)
        => compatibility deleteData "Delete a key of the same group, from its source first" "" "204 : Deleted | 4XX | 502 | 503";
    GET "/stats" Both ADMIN Metrics, Command("info"), any[], Unread "", now(groupcache_stats::group)
        => compatibility getGroupStats "Statistics of the group of `/data/{key}` under groupcache's names" "" "200 json: `Gets`, `CacheHits`, `PeerLoads` and so on | 503";
    GET "/stats/main" Both ADMIN Metrics, Command("info"), any[], Unread "", now(groupcache_stats::main)
        => compatibility getMainStats "Statistics of the memory tier under groupcache's names" "" "200 json: `Bytes`, `Items`, `Gets`, `Hits`, `Evictions` | 503";
    GET "/stats/hot" Both ADMIN Metrics, Command("info"), any[], Unread "", now(groupcache_stats::hot)
        => compatibility getHotStats "Statistics of copies of other nodes' keys under groupcache's names" "" "200 json: `Bytes` and `Items`; the others are null | 503";
    GET "/lookup" Native DATA Lookup, Key("get", Some("key"), READ), any["key"], Unread "", read(ReadRoute::Lookup)
        => compatibility lookup "Read a key of group `default` as JSON; the HTTP status equals `status`" "" "200 lookup | 400 lookup | 404 lookup | 502 lookup | 503 lookup";
    GET "/v1/lookup" Native DATA Lookup, Key("get", Some("key"), READ), any["key"], Unread "", read(ReadRoute::Lookup)
        => compatibility lookupV1 "The same as `/lookup`" "" "200 lookup | 400 lookup | 404 lookup | 502 lookup | 503 lookup";
    GET "/" Native DATA Text, Key("get", Some("key"), READ), any["key"], Unread "", read(ReadRoute::Text)
        => compatibility getText "Read a key of group `default` as text; on the admin listener, the console" "" "200 text | 400 text | 404 text | 503 text";
    GET "/v0/entity" Native DATA Entity, Key("get", Some("id"), READ), only["id" "ack" "from"], Unread "", read(ReadRoute::Entity)
        => compatibility getEntity "Read a key of group `default`" "" "200 bytes | 400 | 404 : The key does not exist; the answer has no body | 502 | 503";
    PUT "/v0/entity" Native DATA Entity, Key("set", Some("id"), WRITE), only["id" "ack" "from"], Value "value", unread(entity::put)
        => compatibility putEntity "Store a key of group `default`, with or without an old value" "" "201 : Stored | 4XX | 502 | 503 | 504";
    DELETE "/v0/entity" Native DATA Entity, Key("del", Some("id"), WRITE), only["id" "ack" "from"], Unread "", later(entity::delete)
        => compatibility deleteEntity "Delete a key of group `default`, if it exists" "" "202 : The key does not exist now | 4XX | 502 | 503 | 504";
    GET "/v0/entities" Native DATA Keys, AnyKey("scan", READ), only["start" "end"], Unread "", later(range_routes::entities)
        => compatibility readEntities "The entries of group `default` in the order of their keys, from a store on this machine; `start` is required" "" "200 entities | 4XX | 501 | 503";
    GET "/cache/v1/item" Native DATA Item, Item("get"), any["key.item" "subkey" "subindex"], Small "itemOfKey", body(item_api::get_item)
        => items getItem "Read an item, or one element of its value" "The fields of the request may be in the body or in the query. A field in the body takes precedence. `subkey` selects a member of an object, `subindex` an element of an array, from 1." "200 item | 4XX itemError | 502 itemError | 503 itemError";
    POST "/cache/v1/item" Native DATA Item, Item("set"), any["key.item" "value" "ttl.item"], Item "item", body(item_api::post_item)
        => items postItem "Store an item, in the source first" "The query may have fields that the body does not have." "201 item | 4XX itemError | 503 itemError";
    DELETE "/cache/v1/item" Native DATA Item, Item("del"), any["key.item"], Small "itemOfKey", body(item_api::delete_item)
        => items deleteItem "Delete an item, from the source first" "" "204 : The key does not exist now | 4XX itemError | 503 itemError";
    GET "/cache/v1/keys" Native DATA Item, Command("keys"), any["mask"], Small "itemMask", body(item_api::list_item_keys)
        => items listItemKeys "List all keys that match a mask" "" "200 itemKeys | 4XX itemError | 502 itemError | 503 itemError";
    POST "/redis" Native FREE Redis, Session, any["Upstash-Encoding"], Item "redisCommand", body(redis_rest::command)
        => compatibility runCommand "Run a Redis command" "In a session of the Redis door, with the same rights, limits and errors." "200 redisResult | 4XX redisError | 503 redisError";
    POST "/redis/pipeline" Native FREE Redis, Session, any["Upstash-Encoding"], Item "redisCommands", body(redis_rest::pipeline)
        => compatibility runPipeline "Run Redis commands one after the other" "Each has its result or its error, in order." "200 redisResults | 4XX redisError | 503 redisError";
    POST "/redis/multi-exec" Native FREE Redis, Session, any["Upstash-Encoding"], Item "redisCommands", body(redis_rest::transaction)
        => compatibility runTransaction "Run Redis commands as one transaction" "" "200 redisResults | 4XX redisError | 503 redisError";
    GET "/redis/{key}" Native FREE Redis, Session, any["path-command-line" "Upstash-Encoding"], Unread "", later(redis_rest::get_path)
        => compatibility runCommandOfPath "Run a Redis command whose parts are the segments of the path, and the query" "Without a token, only commands that read. `subscribe`, `psubscribe` and `monitor` answer with `text/event-stream`." "200 redisResult | 4XX redisError | 503 redisError";
    POST "/redis/{key}" Native FREE Redis, Session, any["path-command-line" "Upstash-Encoding"], Item "redisArgument", unread(redis_rest::post_path)
        => compatibility runCommandOfPathWithBody "Run a Redis command of the path, with the body as one more argument" "" "200 redisResult | 4XX redisError | 503 redisError";
    GET "/v1/stats" Both ADMIN Metrics, Command("info"), any[], Unread "", now(metrics_and_stats::stats)
        => observe getStats "Everything that `/metrics` counts, as JSON" "" "200 json: Counters and gauges; those of a group under `groups` | 503";
    GET "/v1/hot-keys" Both ADMIN Other, AnyKey("hotkeys|get", READ), only["count.rows"], Unread "", now(hot_key_lists::hot_keys)
        => observe getHotKeys "The keys and prefixes with the most reads, bytes, misses and source time" "Counts are estimates. Larder halves them each minute, so recent reads count more. `seconds` is the time that the counts stand for, and `share` the part of the total. The user needs the right to read all keys." "200 json: The totals, and a list for each of them, the largest first; a key or prefix that is not UTF-8 is `{\"base64\": …}` | 4XX";
    GET "/v1/what-if" Both ADMIN Other, Command("info"), only["hit-ratio"], Unread "", now(what_if::what_if)
        => observe getWhatIf "The hit ratio that each group would have at other sizes, and that LRU would have" "Estimated by a simulation of a sample of the keys. Old reads count for less: all counts are halved each hour. A group whose reads do not go to the memory tier is not listed, and none is with `what-if = off`." "200 json: Each group with its bounds, its own hit ratio, six sizes from half to eight times its own, and the size for the wanted hit ratio; `factor` is `null` if the largest size has less | 4XX";
    GET "/v1/peers" Both ADMIN Other, Command("info"), any[], Unread "", now(peer_status::peers)
        => observe getPeers "The ring of the nodes that share their caches, as this node sees it" "" "200 json: The nodes with their shares of the keys, whether this node can reach them, and the requests to them | 4XX";
    GET "/metrics" Both ADMIN Metrics, Command("info"), any[], Unread "", now(metrics_and_stats::metrics)
        => observe getMetrics "Counters and gauges as Prometheus text" "" "200 text | 503";
    GET "/healthz" Both FREE Health, Open, any[], Unread "", now(health::healthy)
        => observe isAlive "The process answers" "" "200 text";
    GET "/readyz" Both FREE Health, Open, any[], Unread "", now(health::ready)
        => observe isReady "Whether the server can answer reads. 503 until every source has been reached, the snapshot is loaded and keys are taken over from peers, and from the start of a shutdown. While a source is lost: 200 with `degraded: …` if a group can serve copies, otherwise 503" "" "200 text | 503 problem";
    GET "/openapi.json" Both ADMIN Other, Open, any[], Unread "", now(|request| openapi::openapi(request, ROUTES))
        => observe getDescription "This document" "" "200 json: OpenAPI 3.1 | 503";
    GET "/docs" Both ADMIN Other, Open, any[], Unread "", now(|request| docs_page::docs_page(request, ROUTES))
        => observe docs "This document as a page" "" "200 text/html: The page | 503";
    GET "/v1/log-level" Admin ADMIN Admin, Command("config|get"), any[], Unread "", now(config_routes::log_level)
        => control getLogLevel "The minimum severity of logged events" "" "200 logLevel";
    PUT "/v1/log-level" Admin ADMIN Admin, Command("config|set"), any[], Small "logLevel", body(config_routes::set_log_level)
        => control setLogLevel "Change it until the next start" "" "200 logLevel | 4XX | 503";
    GET "/v1/config/reload" Admin ADMIN Admin, Command("config|get"), any[], Unread "", later(config_routes::differences)
        => control getConfigChanges "What a reload of the configuration would change" "" "200 configChanges | 4XX | 503";
    POST "/v1/config/reload" Admin ADMIN Admin, Command("config|set"), any[], Unread "", later(config_routes::reload)
        => control reloadConfig "Read the configuration file again and apply what can change without a restart" "If the file has errors, 422 lists them all, and nothing changes. `SIGHUP` does the same." "200 configChanges | 4XX | 503";
    GET "/v1/faults" Admin ADMIN Admin, Command("config|get"), any[], Unread "", now(fault_routes::faults)
        => control getFaults "The active faults" "" "200 json: Whether faults are allowed, and each fault with the time left and the number of requests that it has struck | 4XX";
    POST "/v1/faults" Admin ADMIN Admin, Command("config|set"), only[], Small "fault", body(fault_routes::order)
        => control orderFault "Start a fault to rehearse an outage" "403 unless `allow-faults` is set. The fault ends after `duration`, at most an hour." "201 json: The fault, with its number | 4XX";
    DELETE "/v1/faults" Admin ADMIN Admin, Command("config|set"), only["id.fault"], Unread "", now(fault_routes::clear)
        => control clearFaults "End all faults, or one" "" "200 json: The number of faults that ended | 4XX";
    POST "/v1/record" Admin ADMIN Admin, AnyKey("monitor", READ), only["sample"], Unread "", now(history_routes::record)
        => control record "The operations since the last such request, on a sample of the keys" "The first request begins the recording. It ends 10 s after the last request. It is for `larder-bench record`; only one recorder can run at a time." "200 operations | 4XX";
    POST "/v1/groups/{group}/reload" Admin ADMIN Admin, Command("config|set"), any[], Unread "", later(group_control::reload)
        => control reload "Reload the group's table" "If the data file of `larder serve DATA` has changed, Larder builds the table again. Larder opens and verifies the table, which then replaces the old one. The answer comes when Larder has announced every change to tracking clients." "200 Reloaded: The number of entries, and of keys whose value has changed (null: no client could have copies, so Larder did not count them) | 4XX";
    GET "/v1/groups/{group}/mode-rules" Admin ADMIN Admin, Command("config|get"), any[], Unread "", now(group_control::mode_rules)
        => control getModeRules "Which keys the memory tier stores and serves" "" "200 modeRules | 4XX";
    PUT "/v1/groups/{group}/mode-rules" Admin ADMIN Admin, Command("config|set"), any[], Small "modeRules", body(group_control::set_mode_rules)
        => control setModeRules "Replace all of these rules, until the next start" "The longest prefix of a key counts. `cache`: store and serve; `observe`: store and count, but let the source answer; `deny`: neither store nor serve. 409 if the group has no source." "200 modeRules | 4XX";
    DELETE "/v1/groups/{group}/mode-rules" Admin ADMIN Admin, Command("config|set"), any[], Unread "", now(group_control::reset_mode_rules)
        => control resetModeRules "Restore the rules of the configuration" "" "200 modeRules | 4XX";
    GET "/v1/store/backup" Admin ADMIN Admin, Command("lastsave"), only["group"], Unread "", now(store_backup::backups)
        => control backups "Progress of the running backups of a disk store, and the results of the latest ones" "" "200 backups: The newest comes first. Times are in milliseconds; `left_ms` is an estimate, and null before the first entries | 4XX | 503 problem";
    POST "/v1/store/backup" Admin ADMIN Admin, Command("bgsave"), only["name" "group" "wait.backup"], Unread "", later(store_backup::backup)
        => control backup "Back up a disk store, as it is now, into a file of `data-dir`" "The answer comes when the file is complete and synced, or at once with `wait=false`: `GET` then has the progress and the outcome. The backup continues if the client does not wait. If the server ends before, there is no file. Writers do not wait for it." "202 backups: With `wait=false`: the backup has begun. A file that exists is an error of the backup | 200 BackupFile: The file, with the number of its entries and bytes | 4XX | 500 | 503 problem";
    GET "/v1/snapshot" Admin ADMIN Admin, Command("lastsave"), any[], Unread "", now(snapshot_routes::status)
        => control snapshot "Progress of the running snapshot, and the results of the last one and of the load at the start" "" "200 snapshot: `saving`, `last` and `load` are null if there was none. Times are in milliseconds; `at` is since the Unix epoch | 4XX | 503 problem";
    POST "/v1/snapshot" Admin ADMIN Admin, Command("bgsave"), only["wait"], Unread "", later(snapshot_routes::begin)
        => control beginSnapshot "Write the memory tiers to `snapshot-file`, in the background" "409 if `snapshot-file` is not set, while another snapshot is written or loaded, and with `wait=true` if the snapshot failed. Larder serves requests meanwhile." "200 snapshot: The snapshot is written | 202 snapshot: The snapshot has started | 4XX | 503 problem";
    GET "/" Admin FREE Admin, Command("info"), any[], Unread "", now(console::page)
        => control undescribed "" "" "";
    GET "/console/{key}" Admin FREE Admin, Command("info"), any["path-file"], Unread "", now(console::file)
        => control consoleFile "A file of the console, the page at `/` of the admin listener" "" "200 consoleFile | 304 : The client has this version | 4XX | 503";
    GET "/v1/history" Admin ADMIN Admin, Command("info"), only["resolution" "since"], Unread "", later(history_routes::history)
        => control getHistory "The metrics of the last ten minutes, three hours or day" "A row has the second at which its step begins, then a number for each column. A number that was not sampled is null. The rows have the first eight groups." "200 History: Columns and rows | 4XX | 503";
    GET "/v1/events" Admin ADMIN Admin, Command("info"), any[], Unread "", now(history_routes::events)
        => control getEvents "The latest events, the oldest first: for example a lost source, a reload, a drain, or a rise in evictions" "" "200 Events: At most 512 | 4XX | 503";
    GET "/v1/live" Admin ADMIN Admin, Command("info"), any[], Unread "", now(live_stream::live)
        => live live "Samples, metrics and events as they come" "Larder sends an event `sample` with a row of `/v1/history` each second, an event `stats` with the answer of `/v1/stats` every five seconds, and an event `event` for each of `/v1/events`. The stream ends after ten minutes, when its token ends, when users change and when the server drains. The client then asks again." "200 text/event-stream: The stream | 4XX | 503";
    GET "/v1/slow-log" Admin ADMIN Admin, AnyKey("slowlog|get", READ), only["count.entries"], Unread "", now(slow_log_route::slow_log)
        => control getSlowLog "The latest Redis commands that took long, the latest first, and the latency events" "" "200 json: The thresholds, the entries and the events; `at` in milliseconds since the Unix epoch | 4XX | 503";
    GET "/v1/contents" Admin ADMIN Admin, AnyKey("scan", READ), only["count.prefixes"], Unread "", now(contents_route::contents)
        => control getContents "What the memory tier of each group holds and evicts, by prefix of the keys: shares and ages" "From a sample of about 1,000 entries of each group, and of the latest evictions." "200 Contents: The groups with their prefixes; a share is `null` where nothing was sampled | 4XX | 503";
    GET "/v1/commands" Admin ADMIN Admin, Command("info"), only[], Unread "", now(command_numbers::commands)
        => control listCommands "Calls, failures and durations of each Redis command that was called" "" "200 json: The numbers since the start or the latest `CONFIG RESETSTAT`. `received_bytes` are those of names and arguments, `sent_bytes` those of replies; `seconds` is the sum of all calls; `p50`, `p99` and `p999` are quantiles in seconds, at most an eighth too long | 4XX | 503";
    GET "/v1/commands/{key}" Admin ADMIN Admin, Command("info"), any["path-command"], Unread "", now(command_numbers::command)
        => control getCommand "How long the calls of one Redis command took" "" "200 json: The calls since the start, and the durations of those that have ended: how many were in each bucket, with its end in seconds (`up_to`) | 4XX | 503";
    GET "/v1/connections" Admin ADMIN Admin, Command("client|list"), only["count.connections" "sort" "match.connections"], Unread "", now(connection_routes::connections)
        => control listConnections "The clients of the Redis protocol, in the order in which they connected" "" "200 Connections: The connections and their number | 4XX | 503";
    DELETE "/v1/connections/{key}" Admin ADMIN Admin, Command("client|kill"), only["path-connection"], Unread "", now(connection_routes::kill)
        => control killConnection "End a connection of the Redis protocol" "" "204 : The connection ends | 4XX | 503";
    GET "/v1/explain/{key}" NativeAndConsole DATA Other, Key("larder.explain", None, READ), any[], Unread "", now(key_routes::explain)
        => keys explainKey "A key's entry in the memory of group `default`, and what a read would do" "" "200 explanation | 4XX | 503";
    GET "/v1/groups/{group}/explain/{key}" NativeAndConsole DATA Other, Key("larder.explain", None, READ), any[], Unread "", now(key_routes::explain)
        => keys explainGroupKey "A key's entry in the memory of a group, and what a read would do" "" "200 explanation | 4XX | 503";
    GET "/v1/config" Admin ADMIN Admin, Command("config|get"), any[], Unread "", now(config_routes::settings)
        => control getConfig "The current settings, with the origin of each" "" "200 Settings: The settings of the process and of group `default`, then those of named tables | 4XX | 503";
};

/// The route for a method and path. `has_nodes`: other nodes may ask this one.
pub(crate) fn find<'p>(
    (role, has_nodes): (ListenerRole, bool),
    method: &Method,
    path: &'p str,
) -> Result<(&'static Route, Variables<'p>), Problem> {
    let wanted = if method == Method::HEAD { &Method::GET } else { method };
    let (mut allow, mut is_exact) = (String::new(), false);
    for route in ROUTES.iter().filter(|route| route.is_on(role) && (has_nodes || !route.needs_nodes())) {
        let Some(variables) = matches(route.pattern, path) else { continue };
        // `/redis/{key}` is no route for a path that has its own, `/redis/pipeline`.
        if is_exact && route.pattern != path {
            continue;
        }
        is_exact = route.pattern == path;
        if route.method == *wanted {
            return Ok((route, variables));
        }
        if !allow.is_empty() {
            allow.push_str(", ");
        }
        allow.push_str(if route.method == Method::GET { "GET, HEAD" } else { route.method.as_str() });
    }
    Err(if allow.is_empty() { Problem::no_such_route(path) } else { Problem::method_not_allowed(&allow) })
}
