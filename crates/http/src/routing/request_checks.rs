//! What a request must pass before its route's handler runs: the size of its head, the gate, its
//! user's rules, the page that it comes from, the role of this node.
use super::{
    route::{Route, RouteRights},
    route_request::RouteRequest,
};
use crate::{
    connection::connection_context::ConnectionContext,
    messages::problem_json::{Problem, ProblemKind},
};
use http::{HeaderMap, HeaderValue, Version, header, request, uri::Authority};
use larder_base::{
    identity::{Beyond, KeyAccess},
    lifecycle::throttle::{Allowance, Caller, CommandClass, Scope},
};
use larder_config::Categories;
use larder_core::gate::{self, Asked, Door};
use larder_proto::http::target;

/// HTTP/1.1 has one `Host`; HTTP/1.0 and HTTP/2 may lack it (RFC 9112, 3.2; RFC 9113, 8.3.1).
/// Proxies route by it: a second one could name another server than the first.
///
/// A page of another site that has given its own name the address of this machine (DNS rebinding)
/// is no page of another site to the browser. Only the name shows it.
pub(crate) fn check_host(context: &ConnectionContext, head: &request::Parts) -> Result<(), Problem> {
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let host = hosts.next();
    let detail = match host {
        None if head.version == Version::HTTP_11 => "Host is missing",
        Some(_) if hosts.next().is_some() => "Host is there twice",
        Some(host) if !is_host(host.as_bytes()) => "Host is not a host and a port",
        None | Some(_) => {
            let named = host.map(HeaderValue::as_bytes);
            let target = head.uri.authority().map(|authority| authority.as_str().as_bytes());
            return match named.into_iter().chain(target).find(|host| !context.allows_host(host)) {
                None => Ok(()),
                Some(host) => {
                    let host = String::from_utf8_lossy(host);
                    let detail = format!("this listener is not reached as `{host}` (setting `allowed-hosts`)");
                    Err(Problem::of(ProblemKind::HostNotAllowed, detail))
                }
            };
        }
    };
    Err(Problem::of(ProblemKind::BadHost, detail))
}

fn is_host(host: &[u8]) -> bool {
    let is_authority = |host: &[u8]| !host.contains(&b'@') && Authority::try_from(host).is_ok();
    // Empty for a target without an authority.
    host.is_empty() || is_authority(host)
}

/// Asks the gate whether a request may go on. What is left of its budget is returned if clients are
/// told. Keys in bodies are not known yet.
pub(crate) fn enter(
    context: &ConnectionContext,
    (headers, user): (&HeaderMap, Option<&str>),
    route: &Route,
    (path_key, query): (&[u8], &[u8]),
) -> Result<Option<Allowance>, Problem> {
    let worker = &context.worker;
    let Some(scope) = route.scope.filter(|_| gate::has_rules(worker)) else { return Ok(None) };
    let (name, category) = if route.writes_entries() { ("http-write", "write") } else { ("http-read", "read") };
    let class = CommandClass { name, categories: Categories::named(category).unwrap_or_default() };
    let mut scratch = Vec::new();
    let key = match route.rights {
        RouteRights::Key(_, Some(parameter), _) => {
            let key = target::parameter(query, parameter);
            key.and_then(|raw| target::decode_query(raw, &mut scratch).ok())
        }
        _ => target::decode_path(path_key, &mut scratch).ok(),
    };
    let asked = Asked {
        door: Door::Http,
        scope,
        caller: Caller { address: context.client_of(headers).ip, user },
        class: Some(class),
        keys: &mut key.into_iter(),
        is_for_entries: scope == Scope::Data,
    };
    gate::enter(worker, asked).map_err(Problem::refused)
}

/// Checks a request against the rules of its user. A key that cannot be read is the handler's to
/// refuse.
pub(crate) fn check_rights(request: &RouteRequest<'_>, rights: RouteRights) -> Result<(), Problem> {
    let everything = Beyond::Keys(KeyAccess::BOTH);
    match rights {
        RouteRights::Open | RouteRights::Item(_) | RouteRights::KeysInBody | RouteRights::Session => Ok(()),
        RouteRights::Nodes => request.user.check_command(request.worker, "set", everything),
        RouteRights::NodesOrGet => check_rights(request, RouteRights::Key("get", None, KeyAccess::READ)),
        RouteRights::Command(command) => request.user.check_command(request.worker, command, Beyond::Nothing),
        RouteRights::AnyKey(command, access) => {
            request.user.check_command(request.worker, command, Beyond::Keys(access))
        }
        RouteRights::KeyOrAny(command, parameter, access) if request.key_parameter(parameter).is_some() => {
            check_rights(request, RouteRights::Key(command, Some(parameter), access))
        }
        RouteRights::KeyOrAny(command, _, access) => check_rights(request, RouteRights::AnyKey(command, access)),
        RouteRights::Key(command, None, access) => {
            request.key().map_or(Ok(()), |key| request.allow(command, &key, access))
        }
        RouteRights::Key(command, Some(parameter), access) => match request.key_parameter(parameter) {
            Some(Ok(key)) => request.allow(command, &key, access),
            Some(Err(_)) | None => Ok(()),
        },
    }
}

/// A page of another site can make a browser send a change to any address that the browser reaches,
/// with the password that it knows. The browser says where the page is from: by `Sec-Fetch-Site`
/// (W3C Fetch Metadata) over HTTPS and to loopback, else by `Origin` (RFC 6454).
pub(crate) fn refuse_other_sites(head: &request::Parts) -> Result<(), Problem> {
    let value = |name: &str| head.headers.get(name).map(HeaderValue::as_bytes);
    let host = || head.uri.authority().map(|authority| authority.as_str().as_bytes()).or_else(|| value("host"));
    let is_same = match (value("sec-fetch-site"), value("origin")) {
        (Some(site), _) => matches!(site, b"same-origin" | b"none"),
        (None, None) => true,
        (None, Some(origin)) => {
            let authority = origin.windows(3).position(|part| part == b"://").map(|at| &origin[at + 3..]);
            authority.zip(host()).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
        }
    };
    match is_same {
        true => Ok(()),
        false => Err(Problem::of(ProblemKind::CrossSite, "a page of another site asks for a change")),
    }
}

/// Bytes of a request's head, as they were sent over HTTP/1.1.
pub(crate) fn head_size(head: &request::Parts) -> usize {
    let line = head.method.as_str().len()
        + head.uri.path_and_query().map_or(0, |target| target.as_str().len())
        + " HTTP/1.1\r\n\r\n".len();
    let fields = head.headers.iter();
    line + fields.map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
}
