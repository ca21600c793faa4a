//! The table of routes: methods and paths, the listeners that have them, and what handles them.
use crate::{
    compat::groupcache_stats::GroupcacheStats,
    connection::connection_context::ListenerRole,
    keys::range_routes::RangeFormat,
    messages::{
        problem_json::{Problem, ProblemKind},
        read_responses::ReadRoute,
    },
};
use http::Method;
use larder_base::{identity::KeyAccess, lifecycle::throttle::Scope, telemetry::HttpRoute};
use larder_proto::http::target;

/// One method of one path.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Literal segments; `{group}` is one segment, `{key}` all that follows. HEAD goes with GET.
    pub(crate) pattern: &'static str,
    on: RouteListeners,
    pub(crate) handler: RouteHandler,
}

/// Listeners that have a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RouteListeners {
    Native,
    Admin,
    Both,
    /// Both, for the console's sake; requests count as those of clients, whichever listener they
    /// come to.
    NativeAndConsole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteHandler {
    Read(ReadRoute),
    Put,
    Patch,
    Delete,
    /// Of `/v0/entity`.
    Store,
    /// Likewise.
    Remove,
    Mget,
    Keys,
    Range(RangeFormat),
    ClearGroup,
    ClearKeys,
    ClearTag,
    PeerSet,
    PeerRemove,
    PeerPost,
    PeerGrpc,
    Peers,
    GroupcacheStats(GroupcacheStats),
    GetItem,
    PostItem,
    DeleteItem,
    ItemKeys,
    Healthy,
    Ready,
    Metrics,
    Stats,
    OpenApi,
    Docs,
    LogLevel,
    SetLogLevel,
    ConfigDifferences,
    ReloadConfig,
    ModeRules,
    SetModeRules,
    ResetModeRules,
    Record,
    HotKeys,
    Contents,
    SlowLog,
    Commands,
    CommandTimes,
    WhatIf,
    Faults,
    OrderFault,
    ClearFaults,
    Reload,
    Backup,
    Backups,
    Snapshot,
    BeginSnapshot,
    Console,
    ConsoleFile,
    History,
    Events,
    Live,
    Connections,
    KillConnection,
    Explain,
    Config,
}

/// What a route needs of the user's rules: a command of the command table, and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteRights {
    /// Nothing, and no user: anybody may ask.
    Nobody,
    /// The secret of nodes, or their certificate.
    Nodes,
    /// The same, or the right to GET the key in the path where nodes have neither.
    NodesOrGet,
    /// A command on the key in the path, or in this parameter of the query.
    Key(&'static str, Option<&'static str>, KeyAccess),
    /// A command on the key in this parameter of the query. Without the parameter, it may touch any
    /// key.
    KeyOrAny(&'static str, &'static str, KeyAccess),
    /// The handler checks the keys that it finds in the body.
    InBody,
    /// A command without keys.
    Command(&'static str),
    /// A command that may touch any key.
    AnyKey(&'static str, KeyAccess),
}

/// The path that has the group `data` where there is one.
const DATA: &str = "/data/{key}";

const fn route(method: Method, pattern: &'static str, on: RouteListeners, handler: RouteHandler) -> Route {
    Route { method, pattern, on, handler }
}

/// Every route there is. `openapi.json` describes the same ones, which a test sees to.
pub(crate) static ROUTES: [Route; 79] = [
    route(Method::GET, "/v1/kv/{key}", RouteListeners::NativeAndConsole, RouteHandler::Read(ReadRoute::Kv)),
    route(Method::PUT, "/v1/kv/{key}", RouteListeners::Native, RouteHandler::Put),
    route(Method::PATCH, "/v1/kv/{key}", RouteListeners::Native, RouteHandler::Patch),
    route(Method::DELETE, "/v1/kv/{key}", RouteListeners::Native, RouteHandler::Delete),
    route(Method::POST, "/v1/mget", RouteListeners::Native, RouteHandler::Mget),
    route(Method::GET, "/v1/keys", RouteListeners::NativeAndConsole, RouteHandler::Keys),
    route(Method::GET, "/v1/range", RouteListeners::Native, RouteHandler::Range(RangeFormat::Lines)),
    route(
        Method::GET,
        "/v1/groups/{group}/kv/{key}",
        RouteListeners::NativeAndConsole,
        RouteHandler::Read(ReadRoute::Kv),
    ),
    route(Method::PUT, "/v1/groups/{group}/kv/{key}", RouteListeners::Native, RouteHandler::Put),
    route(Method::PATCH, "/v1/groups/{group}/kv/{key}", RouteListeners::Native, RouteHandler::Patch),
    route(Method::DELETE, "/v1/groups/{group}/kv/{key}", RouteListeners::Native, RouteHandler::Delete),
    route(Method::POST, "/v1/groups/{group}/mget", RouteListeners::Native, RouteHandler::Mget),
    route(Method::GET, "/v1/groups/{group}/keys", RouteListeners::NativeAndConsole, RouteHandler::Keys),
    route(Method::GET, "/v1/groups/{group}/range", RouteListeners::Native, RouteHandler::Range(RangeFormat::Lines)),
    route(Method::DELETE, "/v1/groups/{group}", RouteListeners::Native, RouteHandler::ClearGroup),
    route(Method::DELETE, "/v1/keys", RouteListeners::Native, RouteHandler::ClearKeys),
    route(Method::DELETE, "/v1/groups/{group}/keys", RouteListeners::Native, RouteHandler::ClearKeys),
    route(Method::DELETE, "/v1/tags/{key}", RouteListeners::Native, RouteHandler::ClearTag),
    route(Method::DELETE, "/v1/groups/{group}/tags/{key}", RouteListeners::Native, RouteHandler::ClearTag),
    route(Method::GET, "/_groupcache/{group}/{key}", RouteListeners::Native, RouteHandler::Read(ReadRoute::Peer)),
    route(Method::PUT, "/_groupcache/{group}/{key}", RouteListeners::Native, RouteHandler::PeerSet),
    route(Method::DELETE, "/_groupcache/{group}/{key}", RouteListeners::Native, RouteHandler::PeerRemove),
    route(Method::POST, "/_groupcache/{group}/{key}", RouteListeners::Native, RouteHandler::PeerPost),
    route(Method::POST, "/larder.peers.v1.Peers/{key}", RouteListeners::Native, RouteHandler::PeerGrpc),
    route(Method::GET, DATA, RouteListeners::Native, RouteHandler::Read(ReadRoute::Data)),
    route(Method::DELETE, DATA, RouteListeners::Native, RouteHandler::Delete),
    route(Method::GET, "/stats", RouteListeners::Both, RouteHandler::GroupcacheStats(GroupcacheStats::Group)),
    route(Method::GET, "/stats/main", RouteListeners::Both, RouteHandler::GroupcacheStats(GroupcacheStats::Main)),
    route(Method::GET, "/stats/hot", RouteListeners::Both, RouteHandler::GroupcacheStats(GroupcacheStats::Hot)),
    route(Method::GET, "/lookup", RouteListeners::Native, RouteHandler::Read(ReadRoute::Lookup)),
    route(Method::GET, "/v1/lookup", RouteListeners::Native, RouteHandler::Read(ReadRoute::Lookup)),
    route(Method::GET, "/", RouteListeners::Native, RouteHandler::Read(ReadRoute::Text)),
    route(Method::GET, "/v0/entity", RouteListeners::Native, RouteHandler::Read(ReadRoute::Entity)),
    route(Method::PUT, "/v0/entity", RouteListeners::Native, RouteHandler::Store),
    route(Method::DELETE, "/v0/entity", RouteListeners::Native, RouteHandler::Remove),
    route(Method::GET, "/v0/entities", RouteListeners::Native, RouteHandler::Range(RangeFormat::Entities)),
    // Below `item-prefix`, of which this is the default (`item_api`).
    route(Method::GET, "/cache/v1/item", RouteListeners::Native, RouteHandler::GetItem),
    route(Method::POST, "/cache/v1/item", RouteListeners::Native, RouteHandler::PostItem),
    route(Method::DELETE, "/cache/v1/item", RouteListeners::Native, RouteHandler::DeleteItem),
    route(Method::GET, "/cache/v1/keys", RouteListeners::Native, RouteHandler::ItemKeys),
    route(Method::GET, "/v1/stats", RouteListeners::Both, RouteHandler::Stats),
    route(Method::GET, "/v1/hot-keys", RouteListeners::Both, RouteHandler::HotKeys),
    route(Method::GET, "/v1/what-if", RouteListeners::Both, RouteHandler::WhatIf),
    route(Method::GET, "/v1/peers", RouteListeners::Both, RouteHandler::Peers),
    route(Method::GET, "/metrics", RouteListeners::Both, RouteHandler::Metrics),
    route(Method::GET, "/healthz", RouteListeners::Both, RouteHandler::Healthy),
    route(Method::GET, "/readyz", RouteListeners::Both, RouteHandler::Ready),
    route(Method::GET, "/openapi.json", RouteListeners::Both, RouteHandler::OpenApi),
    route(Method::GET, "/docs", RouteListeners::Both, RouteHandler::Docs),
    route(Method::GET, "/v1/log-level", RouteListeners::Admin, RouteHandler::LogLevel),
    route(Method::PUT, "/v1/log-level", RouteListeners::Admin, RouteHandler::SetLogLevel),
    route(Method::GET, "/v1/config/reload", RouteListeners::Admin, RouteHandler::ConfigDifferences),
    route(Method::POST, "/v1/config/reload", RouteListeners::Admin, RouteHandler::ReloadConfig),
    route(Method::GET, "/v1/faults", RouteListeners::Admin, RouteHandler::Faults),
    route(Method::POST, "/v1/faults", RouteListeners::Admin, RouteHandler::OrderFault),
    route(Method::DELETE, "/v1/faults", RouteListeners::Admin, RouteHandler::ClearFaults),
    route(Method::POST, "/v1/record", RouteListeners::Admin, RouteHandler::Record),
    route(Method::POST, "/v1/groups/{group}/reload", RouteListeners::Admin, RouteHandler::Reload),
    route(Method::GET, "/v1/groups/{group}/mode-rules", RouteListeners::Admin, RouteHandler::ModeRules),
    route(Method::PUT, "/v1/groups/{group}/mode-rules", RouteListeners::Admin, RouteHandler::SetModeRules),
    route(Method::DELETE, "/v1/groups/{group}/mode-rules", RouteListeners::Admin, RouteHandler::ResetModeRules),
    route(Method::GET, "/v1/store/backup", RouteListeners::Admin, RouteHandler::Backups),
    route(Method::POST, "/v1/store/backup", RouteListeners::Admin, RouteHandler::Backup),
    route(Method::GET, "/v1/snapshot", RouteListeners::Admin, RouteHandler::Snapshot),
    route(Method::POST, "/v1/snapshot", RouteListeners::Admin, RouteHandler::BeginSnapshot),
    route(Method::GET, "/", RouteListeners::Admin, RouteHandler::Console),
    route(Method::GET, "/console/{key}", RouteListeners::Admin, RouteHandler::ConsoleFile),
    route(Method::GET, "/v1/history", RouteListeners::Admin, RouteHandler::History),
    route(Method::GET, "/v1/events", RouteListeners::Admin, RouteHandler::Events),
    route(Method::GET, "/v1/live", RouteListeners::Admin, RouteHandler::Live),
    route(Method::GET, "/v1/slow-log", RouteListeners::Admin, RouteHandler::SlowLog),
    route(Method::GET, "/v1/contents", RouteListeners::Admin, RouteHandler::Contents),
    route(Method::GET, "/v1/commands", RouteListeners::Admin, RouteHandler::Commands),
    route(Method::GET, "/v1/commands/{key}", RouteListeners::Admin, RouteHandler::CommandTimes),
    route(Method::GET, "/v1/connections", RouteListeners::Admin, RouteHandler::Connections),
    route(Method::DELETE, "/v1/connections/{key}", RouteListeners::Admin, RouteHandler::KillConnection),
    route(Method::GET, "/v1/explain/{key}", RouteListeners::NativeAndConsole, RouteHandler::Explain),
    route(Method::GET, "/v1/groups/{group}/explain/{key}", RouteListeners::NativeAndConsole, RouteHandler::Explain),
    route(Method::GET, "/v1/config", RouteListeners::Admin, RouteHandler::Config),
];

impl Route {
    pub(crate) fn is_on(&self, role: ListenerRole) -> bool {
        match self.on {
            RouteListeners::Both | RouteListeners::NativeAndConsole => true,
            RouteListeners::Native => role == ListenerRole::Native,
            RouteListeners::Admin => role == ListenerRole::Admin,
        }
    }

    /// The routes with which its requests are timed.
    pub(crate) fn timed_with(&self) -> HttpRoute {
        use RouteHandler as H;
        match self.handler {
            H::Read(read) => read.timed_with(),
            _ if self.is_data() => HttpRoute::Data,
            H::Put | H::Patch | H::Delete => HttpRoute::Kv,
            H::Store | H::Remove => HttpRoute::Entity,
            H::GetItem | H::PostItem | H::DeleteItem | H::ItemKeys => HttpRoute::Item,
            H::Mget => HttpRoute::Mget,
            H::Keys | H::Range(_) | H::ClearGroup | H::ClearKeys | H::ClearTag => HttpRoute::Keys,
            H::PeerSet | H::PeerRemove | H::PeerPost | H::PeerGrpc => HttpRoute::Peer,
            H::Healthy | H::Ready => HttpRoute::Health,
            H::Metrics | H::Stats | H::GroupcacheStats(_) => HttpRoute::Metrics,
            _ if self.on == RouteListeners::Admin => HttpRoute::Admin,
            _ => HttpRoute::Other,
        }
    }

    /// Whether its path is `/data/{key}`.
    pub(crate) fn is_data(&self) -> bool {
        self.pattern == DATA
    }

    /// Whether it exists only where nodes share their caches. Without nodes, a read is what a
    /// groupcache client expects of any server.
    fn needs_nodes(&self) -> bool {
        self.is_between_nodes() && !self.is_safe()
    }

    /// Whether only nodes that share this cache may use it.
    pub(crate) fn is_between_nodes(&self) -> bool {
        use RouteHandler::{PeerGrpc, PeerPost, PeerRemove, PeerSet, Read};
        matches!(self.handler, PeerSet | PeerRemove | PeerPost | PeerGrpc | Read(ReadRoute::Peer))
    }

    /// What the rules of the user must allow.
    pub(crate) fn rights(&self) -> RouteRights {
        use RouteHandler as H;
        use RouteRights::{AnyKey, Command, InBody, Key, KeyOrAny, Nobody, Nodes, NodesOrGet};
        match self.handler {
            H::Read(ReadRoute::Peer) => NodesOrGet,
            H::PeerSet | H::PeerRemove | H::PeerPost | H::PeerGrpc => Nodes,
            H::Read(ReadRoute::Kv | ReadRoute::Data) => Key("get", None, KeyAccess::READ),
            H::Read(read @ (ReadRoute::Lookup | ReadRoute::Text | ReadRoute::Entity)) => {
                Key("get", Some(read.parameter()), KeyAccess::READ)
            }
            H::Put => Key("set", None, KeyAccess::WRITE),
            H::Patch => Key("set", None, KeyAccess::BOTH),
            H::Delete => Key("del", None, KeyAccess::WRITE),
            H::Store => Key("set", Some(ReadRoute::Entity.parameter()), KeyAccess::WRITE),
            H::Remove => Key("del", Some(ReadRoute::Entity.parameter()), KeyAccess::WRITE),
            H::Mget | H::GetItem | H::PostItem | H::DeleteItem => InBody,
            H::ClearKeys => KeyOrAny("del", "key", KeyAccess::WRITE),
            H::Keys => Command("scan"),
            H::ItemKeys => Command("keys"),
            H::Range(_) => AnyKey("scan", KeyAccess::READ),
            H::ClearGroup => AnyKey("flushdb", KeyAccess::WRITE),
            H::ClearTag => AnyKey("larder.cleartag", KeyAccess::WRITE),
            H::Healthy | H::Ready | H::OpenApi | H::Docs => Nobody,
            H::Peers | H::GroupcacheStats(_) | H::Metrics | H::Stats => Command("info"),
            H::Console
            | H::ConsoleFile
            | H::History
            | H::Events
            | H::Live
            | H::WhatIf
            | H::Commands
            | H::CommandTimes => Command("info"),
            H::Connections => Command("client|list"),
            H::KillConnection => Command("client|kill"),
            H::Explain => Key("larder.explain", None, KeyAccess::READ),
            H::LogLevel | H::ConfigDifferences | H::ModeRules | H::Config | H::Faults => Command("config|get"),
            H::SetLogLevel | H::ReloadConfig | H::SetModeRules | H::ResetModeRules | H::Reload => Command("config|set"),
            H::OrderFault | H::ClearFaults => Command("config|set"),
            H::Record => AnyKey("monitor", KeyAccess::READ),
            H::HotKeys => AnyKey("hotkeys|get", KeyAccess::READ),
            H::Contents => AnyKey("scan", KeyAccess::READ),
            H::SlowLog => AnyKey("slowlog|get", KeyAccess::READ),
            H::Snapshot | H::Backups => Command("lastsave"),
            H::Backup | H::BeginSnapshot => Command("bgsave"),
        }
    }

    /// The parameters that the query may have: a misspelt one must not change or list something
    /// else than meant. `None`: any, for plain reads, and for clients of other servers, which
    /// ignore what they do not know.
    pub(crate) fn parameters(&self) -> Option<&'static [&'static str]> {
        use RouteHandler as H;
        match self.handler {
            H::Put => Some(&["type", "ttl", "tag"]),
            H::Patch | H::Delete | H::Mget => Some(&[]),
            H::Read(ReadRoute::Entity) | H::Store | H::Remove => Some(&["id", "ack", "from"]),
            H::Range(RangeFormat::Entities) => Some(&["start", "end"]),
            H::Keys => Some(&["match", "cursor", "count"]),
            H::Range(RangeFormat::Lines) => Some(&["start", "end", "limit", "reverse"]),
            H::ClearKeys => Some(&["prefix", "key", "soft"]),
            H::ClearGroup | H::ClearTag => Some(&["soft"]),
            H::Backup => Some(&["name", "group", "wait"]),
            H::Backups => Some(&["group"]),
            H::BeginSnapshot => Some(&["wait"]),
            H::Record => Some(&["sample"]),
            H::HotKeys | H::Contents | H::SlowLog => Some(&["count"]),
            H::Connections => Some(&["count", "sort", "match"]),
            H::WhatIf => Some(&["hit-ratio"]),
            H::History => Some(&["resolution", "since"]),
            H::ClearFaults => Some(&["id"]),
            H::KillConnection | H::OrderFault | H::Commands => Some(&[]),
            _ => None,
        }
    }

    /// Looks for parameters that the route does not have.
    pub(crate) fn check_parameters(&self, query: &[u8]) -> Result<(), Problem> {
        let Some(known) = self.parameters() else { return Ok(()) };
        match target::pairs(query).find(|(name, _)| !known.iter().any(|known| known.as_bytes() == *name)) {
            None => Ok(()),
            Some((name, _)) => {
                let name = String::from_utf8_lossy(name);
                let has = if known.is_empty() { "none".to_owned() } else { format!("`{}`", known.join("`, `")) };
                let detail = format!("unknown parameter `{name}`: the parameters of this route are {has}");
                Err(Problem::of(ProblemKind::BadParameter, detail))
            }
        }
    }

    /// Whether it may change entries, as far as method and listener tell.
    pub(crate) fn writes_entries(&self) -> bool {
        self.method != Method::GET && self.on == RouteListeners::Native && self.handler != RouteHandler::Mget
    }

    /// Whether a browser may ask for it on behalf of a page from elsewhere.
    pub(crate) fn is_safe(&self) -> bool {
        self.method == Method::GET
    }

    /// The budget that a request draws on. Health checks draw on none: a busy server must not be
    /// taken for a dead one.
    pub(crate) fn scope(&self) -> Option<Scope> {
        match (self.handler, self.on) {
            (RouteHandler::Healthy | RouteHandler::Ready, _) => None,
            // One visit asks for all files at once, and they cost next to nothing.
            (RouteHandler::Console | RouteHandler::ConsoleFile, _) => None,
            (_, RouteListeners::Native | RouteListeners::NativeAndConsole) => Some(Scope::Data),
            (_, RouteListeners::Admin | RouteListeners::Both) => Some(Scope::Admin),
        }
    }
}

/// The variable parts of a path, still encoded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variables<'p> {
    pub(crate) group: Option<&'p [u8]>,
    pub(crate) key: &'p [u8],
}

fn matches<'p>(pattern: &str, path: &'p str) -> Option<Variables<'p>> {
    let mut variables = Variables::default();
    let (mut pattern, mut path) = (pattern, path);
    while let Some(open) = pattern.find('{') {
        path = path.strip_prefix(&pattern[..open])?;
        pattern = &pattern[open..];
        if pattern == "{key}" {
            variables.key = path.as_bytes();
            return Some(variables);
        }
        pattern = pattern.strip_prefix("{group}")?;
        let (group, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
        variables.group = Some(group.as_bytes());
        path = rest;
    }
    (pattern == path).then_some(variables)
}

/// The route for a method and path. `has_nodes`: other nodes may ask this one.
pub(crate) fn find<'p>(
    (role, has_nodes): (ListenerRole, bool),
    method: &Method,
    path: &'p str,
) -> Result<(&'static Route, Variables<'p>), Problem> {
    let wanted = if method == Method::HEAD { &Method::GET } else { method };
    let mut allow = String::new();
    for route in ROUTES.iter().filter(|route| route.is_on(role) && (has_nodes || !route.needs_nodes())) {
        let Some(variables) = matches(route.pattern, path) else { continue };
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
