//! What a row of the table of routes says, and what follows from it.
use super::route_request::RouteRequest;
use crate::{
    compat::read_routes::ReadRoute,
    connection::connection_context::ListenerRole,
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        request_body::{BodyLimit, UnreadBody},
    },
};
use http::Method;
use larder_base::{identity::KeyAccess, lifecycle::throttle::Scope, telemetry::HttpRoute};
use larder_proto::http::target;
use std::pin::Pin;

/// One method of one path.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Literal segments; `{group}` is one segment, `{key}` all that follows. HEAD goes with GET.
    pub(crate) pattern: &'static str,
    pub(crate) on: RouteListeners,
    /// The budget that a request draws on. Health checks draw on none: a busy server must not be
    /// taken for a dead one. Nor do the console's files: one visit asks for all of them at once.
    pub(crate) scope: Option<Scope>,
    /// The routes with which its requests are timed.
    pub(crate) timed_with: HttpRoute,
    pub(crate) rights: RouteRights,
    pub(crate) parameters: Parameters,
    pub(crate) limit: BodyLimit,
    pub(crate) handler: Handler,
    pub(crate) about: About,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteListeners {
    Native,
    Admin,
    Both,
    /// Both, for the console's sake; requests count as those of clients, whichever listener they
    /// come to.
    NativeAndConsole,
}

pub(crate) type LaterAnswer<'r> = Pin<Box<dyn Future<Output = Answer> + 'r>>;

#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// The read of one key, whose errors have the form of the route, too.
    Read(ReadRoute),
    /// A function that waits for nothing.
    Now(fn(&RouteRequest<'_>) -> Answer),
    /// A function that waits, or reads the body.
    Later(for<'r> fn(&'r RouteRequest<'r>, UnreadBody<'r>) -> LaterAnswer<'r>),
}

/// What a route needs of the user's rules: a command of the command table, and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteRights {
    /// Nothing, and no user: anybody may ask.
    Open,
    /// The secret of nodes, or their certificate.
    Nodes,
    /// The secret or certificate of nodes, or the right to GET the key in the path where nodes have neither.
    NodesOrGet,
    /// A command on the key in the path, or in this parameter of the query.
    Key(&'static str, Option<&'static str>, KeyAccess),
    /// A command on the key in this parameter of the query. Without the parameter, it may touch any
    /// key.
    KeyOrAny(&'static str, &'static str, KeyAccess),
    /// A command on the item that the body or the query names. The handler checks it.
    Item(&'static str),
    /// The handler checks the keys that it finds in the body.
    KeysInBody,
    Command(&'static str),
    /// The session that runs the commands checks them.
    Session,
    /// A command that may touch any key.
    AnyKey(&'static str, KeyAccess),
}

/// Parameters of a route, by their names in the description. In the query, the name ends at the
/// first dot. Names with a capital are fields of the head, and `path-` is a part of the path.
pub(crate) struct Parameters {
    /// The query may have no others: a misspelt one must not change or list something else than
    /// meant. Plain reads may have any, and clients of other servers, which ignore what they do not
    /// know.
    pub(crate) has_only: bool,
    pub(crate) names: &'static [&'static str],
}

impl Parameters {
    pub(crate) fn in_query(&self) -> impl Iterator<Item = &'static str> {
        let is_in_query = |name: &&str| !name.starts_with("path-") && !name.starts_with(|c: char| c.is_uppercase());
        self.names.iter().copied().filter(is_in_query).map(|name| name.split('.').next().unwrap_or(name))
    }
}

pub(crate) struct About {
    pub(crate) tag: &'static str,
    /// That of OpenAPI. [`UNDESCRIBED`]: the path is that of another route.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    /// A request body of the description; empty: none.
    pub(crate) body: &'static str,
    /// `STATUS`, perhaps with a response of the description, or with a type and a text, between
    /// bars (`openapi.rs`).
    pub(crate) answers: &'static str,
}

/// The id of a route that is not in the description.
pub(crate) const UNDESCRIBED: &str = "undescribed";

/// The path that has the group `data` where there is one.
const DATA: &str = "/data/{key}";

impl Route {
    pub(crate) fn is_on(&self, role: ListenerRole) -> bool {
        match self.on {
            RouteListeners::Both | RouteListeners::NativeAndConsole => true,
            RouteListeners::Native => role == ListenerRole::Native,
            RouteListeners::Admin => role == ListenerRole::Admin,
        }
    }

    pub(crate) fn is_data(&self) -> bool {
        self.pattern == DATA
    }

    /// Whether it exists only where nodes share their caches. Without nodes, a read is what a
    /// groupcache client expects of any server.
    pub(crate) fn needs_nodes(&self) -> bool {
        self.is_between_nodes() && !self.is_safe()
    }

    /// Whether only nodes that share this cache may use it.
    pub(crate) fn is_between_nodes(&self) -> bool {
        matches!(self.rights, RouteRights::Nodes | RouteRights::NodesOrGet)
    }

    /// Whether it reads a key, which the memory tier or a source answers. Of the methods between
    /// nodes, that is the most frequent one.
    pub(crate) fn reads_key(&self) -> bool {
        let is_call = self.is_between_nodes() && self.pattern.starts_with("/larder.");
        matches!(self.handler, Handler::Read(_)) || self.rights == RouteRights::Item("get") || is_call
    }

    /// Looks for parameters that the route does not have.
    pub(crate) fn check_parameters(&self, query: &[u8]) -> Result<(), Problem> {
        if !self.parameters.has_only {
            return Ok(());
        }
        let known = || self.parameters.in_query();
        match target::pairs(query).find(|(name, _)| !known().any(|known| known.as_bytes() == *name)) {
            None => Ok(()),
            Some((name, _)) => {
                let name = String::from_utf8_lossy(name);
                let known = known().collect::<Vec<_>>();
                let has = if known.is_empty() { "none".to_owned() } else { format!("`{}`", known.join("`, `")) };
                let detail = format!("unknown parameter `{name}`: the parameters of this route are {has}");
                Err(Problem::of(ProblemKind::BadParameter, detail))
            }
        }
    }

    /// Whether it may change entries, as far as method and listener tell.
    pub(crate) fn writes_entries(&self) -> bool {
        let is_checked_later = matches!(self.rights, RouteRights::KeysInBody | RouteRights::Session);
        !self.is_safe() && self.on == RouteListeners::Native && !is_checked_later
    }

    /// Whether a browser may ask for it on behalf of a page from elsewhere.
    pub(crate) fn is_safe(&self) -> bool {
        self.method == Method::GET && self.rights != RouteRights::Session
    }
}

/// The variable parts of a path, still encoded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variables<'p> {
    pub(crate) group: Option<&'p [u8]>,
    pub(crate) key: &'p [u8],
}

pub(crate) fn matches<'p>(pattern: &str, path: &'p str) -> Option<Variables<'p>> {
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
