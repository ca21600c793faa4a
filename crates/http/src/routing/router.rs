//! What every request goes through before and after its route: limits, throttle, group, handler,
//! HEAD.
use super::{
    access_log::{self, LoggedRequest},
    request_checks::{check_host, check_rights, enter, head_size, refuse_other_sites},
    route::{Handler, Route, RouteRights},
    route_request::{GroupRequest, RouteRequest},
    route_table::find,
};
use crate::{
    compat::{
        read_routes::ReadRoute,
        redis_rest::{self, RedisPath},
    },
    connection::connection_context::{ConnectionContext, ListenerRole},
    item_api::{self, ItemPath},
    keys::key_routes,
    messages::{
        problem_json::{Answer, Problem, ProblemKind, insert_rate_limit},
        read_responses::OCTETS,
        request_body::{self, BodyLimit, UnreadBody},
        response_body::ResponseBody,
        response_writer::{NO_SNIFFING, SANDBOX},
    },
    nodes::{peer_routes, primary_writes},
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header, request};
use hyper::body::{Body as _, Incoming};
use larder_base::{
    lifecycle::throttle::{Allowance, Scope},
    special::Special,
    telemetry::HttpRoute,
};
use larder_core::{
    app::Worker,
    gate::{self, Door},
    read::Group,
};
use larder_proto::http::target;
use larder_store::clock;
use std::{
    pin::{Pin, pin},
    rc::Rc,
};

pub(crate) struct Answered {
    pub(crate) response: Response<ResponseBody>,
    pub(crate) timed_with: HttpRoute,
    /// If it will be logged: to be dropped when the response has been sent.
    pub(crate) logged: Option<LoggedRequest>,
}

pub(crate) async fn respond(context: &ConnectionContext, request: Request<Incoming>) -> Answered {
    let is_head = request.method() == Method::HEAD;
    if context.role == ListenerRole::Native
        && let Some(delay) = gate::delay(&context.worker, Door::Http)
    {
        tokio::time::sleep(delay).await;
    }
    let is_forwarded = primary_writes::is_forwarded(request.method(), request.headers());
    let mut logged = logged(context, &request);
    let (mut left, mut timed_with) = (None, HttpRoute::Other);
    let (head, body) = request.into_parts();
    let paths = (item_path(context, &head.uri), redis_path(context, &head.method, head.uri.path()));
    let of_items = paths.0.is_item().then(|| head.method.clone());
    let of_redis = matches!(paths.1, RedisPath::Here(_));
    let is_http2 = head.version == Version::HTTP_2;
    let mut body = pin!(body);
    let asked = (&head, paths, body.as_mut());
    let answered = answer(context, asked, logged.as_mut(), (&mut left, &mut timed_with)).await;
    if is_http2 && !body.is_end_stream() {
        request_body::discard(body).await;
    }
    let asks_for_login = answered.as_ref().is_err_and(|problem| problem.kind() == ProblemKind::LoginRequired);
    let mut response = match (answered, of_items) {
        (Ok(response), _) => response,
        (Err(problem), _) if of_redis => redis_rest::error_response(problem),
        (Err(problem), None) => problem.into_response(),
        (Err(problem), Some(method)) => item_api::error_response(&method, problem),
    };
    if context.role == ListenerRole::Admin {
        confine(response.headers_mut());
    }
    if let Some(allowance) = left {
        insert_rate_limit(response.headers_mut(), &allowance);
    }
    if asks_for_login {
        const SCHEMES: HeaderValue =
            HeaderValue::from_static("Basic realm=\"larder\", charset=\"UTF-8\", Bearer realm=\"larder\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, SCHEMES);
    }
    if is_forwarded {
        primary_writes::add_changes(context, response.headers_mut());
    }
    if let Some(logged) = &mut logged {
        logged.answered(response.status().as_u16());
    }
    if is_head {
        if let Some(len) = response.body().left() {
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(len));
        }
        *response.body_mut() = ResponseBody::empty();
    }
    Answered { response, timed_with, logged }
}

/// What the admin listener serves besides its own pages is data: no value may run in the name of the
/// console, whatever its source says that it is.
fn confine(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFFING);
    // Larder's pages have a policy each, and problems have this one.
    if headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        return;
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
    if let Some(content_type) = headers.get_mut(header::CONTENT_TYPE)
        && !is_data(content_type.as_bytes())
    {
        *content_type = OCTETS;
    }
}

/// Whether browsers show or save this content type and run nothing of it.
fn is_data(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let essence = essence.to_ascii_lowercase();
    let begins = |kind: &[u8]| essence.starts_with(kind);
    match &essence[..] {
        b"text/plain" | b"text/csv" | b"text/event-stream" | b"application/json" | b"application/x-ndjson" => true,
        b"application/openmetrics-text" | b"application/octet-stream" => true,
        other => other.ends_with(b"+json") || begins(b"image/") && !other.ends_with(b"+xml"),
    }
}

/// The path, which may be below the prefix of the item API.
fn item_path<'u>(context: &ConnectionContext, uri: &'u Uri) -> ItemPath<'u> {
    match context.role {
        ListenerRole::Native => item_api::of_path(uri.path(), context.worker.app.settings.item_prefix.as_deref()),
        ListenerRole::Admin => ItemPath::Other(uri.path()),
    }
}

/// The path, which may be below the prefix of Redis over HTTP.
fn redis_path<'p>(context: &ConnectionContext, method: &Method, path: &'p str) -> RedisPath<'p> {
    let settings = &context.worker.app.settings;
    if context.role == ListenerRole::Admin {
        return RedisPath::Other;
    }
    let role = (context.role, settings.peers.have_nodes());
    let of_items = || {
        let prefix = settings.item_prefix.as_deref();
        item_api::of_path(path, prefix).is_item() || item_api::meant_path(path, prefix).is_some()
    };
    redis_rest::of_path(path, settings.redis_http_prefix.as_deref(), || match find(role, method, path) {
        Ok(_) => true,
        // The start page is there for reads.
        Err(_) if path == "/" && *method == Method::POST => false,
        Err(problem) => problem.status() != StatusCode::NOT_FOUND || of_items(),
    })
}

/// Where a path that is no route means one of the item API.
fn item_redirect(context: &ConnectionContext, uri: &Uri) -> Option<Response<ResponseBody>> {
    let prefix = context.worker.app.settings.item_prefix.as_deref();
    let meant = item_api::meant_path(uri.path(), prefix).filter(|_| context.role == ListenerRole::Native)?;
    Some(item_api::redirect(&meant, uri.query().unwrap_or_default().as_bytes()))
}

fn logged(context: &ConnectionContext, request: &Request<Incoming>) -> Option<LoggedRequest> {
    let app = &context.worker.app;
    if !access_log::is_on(&context.worker) {
        return None;
    }
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    // A secret.
    let has_token =
        target::parameter(request.uri().query().unwrap_or_default().as_bytes(), redis_rest::TOKEN).is_some();
    let target = if has_token { request.uri().path() } else { target };
    let field = |name: &str| request.headers().get(name).map(HeaderValue::as_bytes);
    LoggedRequest::begin(app, context.client_of(request.headers()), (request.method().clone(), target), field)
}

async fn answer(
    context: &ConnectionContext,
    (head, (path, redis), body): (&request::Parts, (ItemPath<'_>, RedisPath<'_>), Pin<&mut Incoming>),
    logged: Option<&mut LoggedRequest>,
    (left, timed_with): (&mut Option<Allowance>, &mut HttpRoute),
) -> Answer {
    let settings = &context.worker.app.settings;
    if head_size(head) > settings.max_headers {
        return Err(Problem::over(ProblemKind::HeadTooLarge, "the head", "max-headers", settings.max_headers));
    }
    check_host(context, head)?;
    let no_such_route = || Problem::no_such_route(head.uri.path());
    let in_table = match &redis {
        RedisPath::Other => path.in_table(),
        RedisPath::Here(path) => Some(&**path),
        RedisPath::Elsewhere => None,
    };
    let found = in_table
        .ok_or_else(no_such_route)
        .and_then(|path| find((context.role, settings.peers.have_nodes()), &head.method, path));
    let (route, variables) = match found {
        Ok(found) => found,
        Err(problem) => {
            let redirect = match problem.status() {
                StatusCode::NOT_FOUND => item_redirect(context, &head.uri),
                _ => None,
            };
            return redirect.ok_or(problem);
        }
    };
    *timed_with = route.timed_with;
    if !route.is_safe() {
        refuse_other_sites(head)?;
    }
    let query = head.uri.query().unwrap_or_default().as_bytes();
    context.worker.judge();
    let user = match route.rights {
        RouteRights::Open => Ok(Rc::default()),
        RouteRights::Nodes | RouteRights::NodesOrGet if peer_routes::nodes_show_themselves(context) => {
            Ok(Rc::default())
        }
        // It is refused below, and verifying a password takes long.
        _ if route.scope == Some(Scope::Data) && context.worker.is_on(Special::Overload) => Ok(Rc::default()),
        _ => {
            let token = (route.rights == RouteRights::Session).then(|| redis_rest::token(query)).flatten();
            let header = head.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
            let header = header.or(token.as_deref());
            context.users.identify(&context.worker, header, context.client_of(&head.headers).ip).await
        }
    };
    // A request of an unknown user counts as well.
    let name = user.as_ref().ok().and_then(|user| user.name());
    let allowance = match (enter(context, (&head.headers, name), route, (variables.key, query)), &route.handler) {
        (Ok(allowance), _) => allowance,
        (Err(refused), Handler::Read(read)) => return Ok(key_routes::failed_early(*read, query, refused)),
        (Err(refused), _) => return Err(refused),
    };
    let user = user?;
    *left = allowance;
    let is_read = route.reads_key();
    let trace = match logged {
        Some(logged) => {
            logged.is_read = is_read;
            Some(logged.trace.clone())
        }
        None if is_read => access_log::trace_of(|name| head.headers.get(name).map(HeaderValue::as_bytes)),
        None => None,
    };
    let group = match group(&context.worker, route, variables.group) {
        Err(_) if route.is_between_nodes() => {
            return peer_routes::without_group(context, &head.headers, variables.group);
        }
        group => group?,
    };
    let now = clock::now();
    context.worker.longest_turn.begin(now, &context.worker.counters.longest_turn);
    let asked = GroupRequest { worker: &context.worker, group, query, now, user, trace };
    let request = RouteRequest { asked, context, key: variables.key, headers: &head.headers };
    check_rights(&request, route.rights)?;
    route.check_parameters(query)?;
    if path.has_slash() {
        return Ok(item_api::redirect(head.uri.path(), query));
    }
    if route.is_between_nodes() {
        peer_routes::check_node(context, &head.headers)?;
    }
    let body = UnreadBody { context, body, limit: route.limit, key: variables.key };
    if route.writes_entries()
        && let Err(read_only) = request.check_role()
    {
        if !primary_writes::forwards(context, route, &head.headers) {
            return Err(read_only);
        }
        let body = UnreadBody { limit: BodyLimit::Item, ..body }.read().await?;
        if let RouteRights::Item(command) = route.rights
            && let Some(refused) = item_api::refused_write(&request, command, &body)
        {
            return Ok(refused);
        }
        return primary_writes::forward(context, head, body).await;
    }
    match route.handler {
        Handler::Read(ReadRoute::Peer) => Ok(peer_routes::get(&request).await),
        Handler::Read(read) => Ok(key_routes::get(&request, read).await),
        Handler::Now(answer) => answer(&request),
        Handler::Later(answer) => answer(&request, body).await,
    }
}

fn group<'w>(worker: &'w Worker, route: &Route, name: Option<&[u8]>) -> Result<&'w Rc<Group>, Problem> {
    let Some(encoded) = name else {
        let settings = &worker.app.settings;
        let number = match route.scope {
            _ if route.is_data() => settings.data_group,
            Some(Scope::Data) => settings.http_group,
            Some(Scope::Admin) | None => 0,
        };
        return Ok(worker.groups.at(number));
    };
    let mut scratch = Vec::new();
    let name = target::decode_path(encoded, &mut scratch).unwrap_or_default();
    worker.groups.named(name).ok_or_else(|| {
        Problem::of(ProblemKind::NoSuchGroup, format!("there is no group `{}`", String::from_utf8_lossy(name)))
    })
}
