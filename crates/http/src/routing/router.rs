//! What every request goes through before and after its route: limits, throttle, group, handler,
//! HEAD.
use super::{
    access_log::{self, LoggedRequest},
    docs_page, openapi,
    request_checks::{
        check_host, check_rights, check_role, client, count_against_limits, head_size, refuse_other_sites,
    },
    route_request::{RouteRequest, not_empty},
    route_table::{Route, RouteHandler, RouteRights, find},
};
use crate::{
    admin::{
        config_routes, connection_routes, fault_routes, group_control, log_level, mode_rules, record_operations,
        snapshot_routes, store_backup,
    },
    compat::{entity_replicas::WantedAcks, groupcache_stats::groupcache_stats},
    connection::connection_context::{ConnectionContext, ListenerRole},
    console,
    item_api::{self, ItemPath},
    keys::{
        document_routes, explain_key,
        key_routes::{self, PutRequest},
        list_keys, mget, range_routes, tag_routes,
    },
    messages::{
        problem_json::{Problem, ProblemKind},
        rate_limit_headers,
        read_responses::{OCTETS, ReadRoute},
        request_body::{self, BodyLimit},
        response_body::ResponseBody,
        response_writer::{NO_SNIFFING, SANDBOX},
    },
    nodes::{grpc_service, owner_requests, peer_routes, primary_writes},
    observe::{
        command_numbers, contents_route, health, history_routes, hot_key_lists, live_stream, metrics_and_stats,
        peer_status, slow_log_route, what_if,
    },
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header, request};
use larder_base::{
    lifecycle::{
        faults::FaultPlace,
        queue_delay::Admission,
        throttle::{Allowance, Scope},
    },
    telemetry::HttpRoute,
};
use larder_core::{app::Worker, read::Group};
use larder_proto::http::target;
use larder_ring::peer::AT_OWNER;
use larder_store::clock;
use std::{pin::pin, rc::Rc};

/// Commands that another node sends together have twice `max-value`, or this if that is more (as
/// from a client of the Redis protocol).
const LONGEST_COMMANDS: usize = 256 * 1024 * 1024;

/// What a request was answered with.
pub(crate) struct Answered {
    pub(crate) response: Response<ResponseBody>,
    /// The routes with which it is timed.
    pub(crate) timed_with: HttpRoute,
    /// If it will be logged: to be dropped when the response has been sent.
    pub(crate) logged: Option<LoggedRequest>,
}

/// Answers a request.
pub(crate) async fn respond<B>(context: &ConnectionContext, request: Request<B>) -> Answered
where
    B: http_body::Body<Data = Bytes>,
{
    let is_head = request.method() == Method::HEAD;
    if context.role == ListenerRole::Native
        && let Some(delay) = context.worker.app.faults.delay(FaultPlace::Http, clock::now())
    {
        tokio::time::sleep(delay).await;
    }
    let is_forwarded = primary_writes::is_forwarded(request.method(), request.headers());
    let mut logged = logged(context, &request);
    let of_items = item_path(context, request.uri()).is_item().then(|| request.method().clone());
    let (mut left, mut timed_with) = (None, HttpRoute::Other);
    let (head, body) = request.into_parts();
    let is_http2 = head.version == Version::HTTP_2;
    let mut body = pin!(body);
    let answered = answer(context, head, body.as_mut(), logged.as_mut(), (&mut left, &mut timed_with)).await;
    if is_http2 && !body.is_end_stream() {
        request_body::discard(body).await;
    }
    let asks_for_login = answered.as_ref().is_err_and(Problem::asks_for_login);
    let mut response = match (answered, of_items) {
        (Ok(response), _) => response,
        (Err(problem), None) => problem.into_response(),
        (Err(problem), Some(method)) => item_api::error_response(&method, problem),
    };
    if context.role == ListenerRole::Admin {
        confine(response.headers_mut());
    }
    if let Some(allowance) = left {
        rate_limit_headers::insert(response.headers_mut(), &allowance);
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

/// Where a path that is no route means one of the item API.
fn item_redirect(context: &ConnectionContext, uri: &Uri) -> Option<Response<ResponseBody>> {
    let prefix = context.worker.app.settings.item_prefix.as_deref();
    let meant = item_api::meant_path(uri.path(), prefix).filter(|_| context.role == ListenerRole::Native)?;
    Some(item_api::redirect(&meant, uri.query().unwrap_or_default().as_bytes()))
}

/// The request, if it will be logged.
fn logged<B>(context: &ConnectionContext, request: &Request<B>) -> Option<LoggedRequest> {
    let app = &context.worker.app;
    if !access_log::is_on(app) {
        return None;
    }
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    let field = |name: &str| request.headers().get(name).map(HeaderValue::as_bytes);
    LoggedRequest::begin(app, client(context, request.headers()), (request.method().clone(), target), field)
}

async fn answer<B>(
    context: &ConnectionContext,
    head: request::Parts,
    body: B,
    logged: Option<&mut LoggedRequest>,
    (left, timed_with): (&mut Option<Allowance>, &mut HttpRoute),
) -> Result<Response<ResponseBody>, Problem>
where
    B: http_body::Body<Data = Bytes>,
{
    let settings = &context.worker.app.settings;
    if head_size(&head) > settings.max_headers {
        return Err(Problem::over(ProblemKind::HeadTooLarge, "the head", "max-headers", settings.max_headers));
    }
    check_host(context, &head)?;
    let path = item_path(context, &head.uri);
    let no_such_route = || Problem::no_such_route(head.uri.path());
    let found = path
        .in_table()
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
    *timed_with = route.timed_with();
    if !route.is_safe() {
        refuse_other_sites(&head)?;
    }
    let query = head.uri.query().unwrap_or_default().as_bytes();
    if route.scope() == Some(Scope::Data) && context.worker.queue_delay.admission() == Admission::Nothing {
        context.worker.counters.http_overloaded.add(1);
        return match route.handler {
            RouteHandler::Read(read) => Ok(key_routes::failed_early(read, query, Problem::overloaded())),
            _ => Err(Problem::overloaded()),
        };
    }
    let user = match route.rights() {
        RouteRights::Nobody => Rc::default(),
        RouteRights::Nodes | RouteRights::NodesOrGet if peer_routes::nodes_show_themselves(context) => Rc::default(),
        _ => {
            let header = head.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
            match context.users.identify(&context.worker, header, client(context, &head.headers).ip).await {
                Ok(user) => user,
                Err(problem) => {
                    // What is refused counts as well.
                    let counted = count_against_limits(context, (&head.headers, None), route, (variables.key, query));
                    counted.map_err(|throttled| {
                        context.worker.counters.http_throttled.add(1);
                        Problem::throttled(&throttled)
                    })?;
                    return Err(problem);
                }
            }
        }
    };
    match count_against_limits(context, (&head.headers, user.name()), route, (variables.key, query)) {
        Ok(allowance) => *left = allowance,
        Err(throttled) => {
            context.worker.counters.http_throttled.add(1);
            return match route.handler {
                RouteHandler::Read(read) => Ok(key_routes::failed_early(read, query, Problem::throttled(&throttled))),
                _ => Err(Problem::throttled(&throttled)),
            };
        }
    }
    let is_read = matches!(route.handler, RouteHandler::Read(_) | RouteHandler::GetItem | RouteHandler::PeerGrpc);
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
    let request = RouteRequest {
        worker: &context.worker,
        group,
        key: variables.key,
        query,
        headers: &head.headers,
        now,
        user,
        trace,
    };
    check_rights(&request, route.rights())?;
    route.check_parameters(query)?;
    let at_most = |bytes, setting, kind| BodyLimit {
        context,
        bytes,
        setting,
        kind,
        patience: context.worker.app.live.header_timeout(),
    };
    let small = at_most(settings.max_body, "max-body", ProblemKind::BodyTooLarge);
    let value = at_most(settings.max_value, "max-value", ProblemKind::ValueTooLarge);
    // With the key and the rest of the message.
    let message = at_most(settings.max_value + settings.max_key + 1024, "max-value", ProblemKind::ValueTooLarge);
    // With the rest of the object, and the key's characters as escapes.
    let item = at_most(settings.max_value + 6 * settings.max_key + 1024, "max-value", ProblemKind::ValueTooLarge);
    if path.has_slash() {
        return Ok(item_api::redirect(head.uri.path(), query));
    }
    if route.is_between_nodes() {
        peer_routes::check_node(context, &head.headers)?;
    }
    let may_write = || match route.writes_entries() {
        true => check_role(&context.worker, request.group),
        false => Ok(()),
    };
    if may_write().is_err() && primary_writes::forwards(context, route, &head.headers) {
        let body = request_body::read(body, item).await?;
        if let Some(refused) = primary_writes::refused(&request, route.handler, &body) {
            return Ok(refused);
        }
        return primary_writes::forward(context, &head, body).await;
    }
    may_write()?;
    match route.handler {
        RouteHandler::Read(ReadRoute::Peer) => Ok(peer_routes::get(&request).await),
        RouteHandler::Read(read) => {
            // This node has every write that its replicas have: more of them know nothing better.
            if read == ReadRoute::Entity {
                WantedAcks::parse(&request)?;
            }
            Ok(key_routes::get(&request, read).await)
        }
        RouteHandler::PeerSet => peer_routes::set(&request, request_body::read(body, message).await?),
        RouteHandler::PeerRemove => peer_routes::remove(&request),
        RouteHandler::PeerGrpc => Ok(grpc_service::call(&request, request_body::read(body, message).await?).await),
        RouteHandler::PeerPost => {
            // Commands have several values, and `max-buffers` bounds them.
            let commands =
                at_most(2 * settings.max_value.max(LONGEST_COMMANDS / 2), "max-value", ProblemKind::ValueTooLarge);
            let limit = if request.key == AT_OWNER.as_bytes() { commands } else { message };
            peer_routes::post(&request, request_body::read(body, limit).await?).await
        }
        RouteHandler::Put => {
            let put = PutRequest::parse(&request)?;
            let value = request_body::read(body, value).await?;
            // The role may have changed while the body came.
            may_write()?;
            match owner_requests::at_owner(&request, &head.method, &value).await? {
                Some(response) => Ok(response),
                None => put.run(&request, value).await,
            }
        }
        RouteHandler::Patch => {
            let patch = request_body::read(body, value).await?;
            match owner_requests::at_owner(&request, &head.method, &patch).await? {
                Some(response) => Ok(response),
                None => document_routes::patch(&request, patch).await,
            }
        }
        RouteHandler::Delete => {
            if route.is_data() {
                not_empty(request.key()?)?;
            }
            match owner_requests::at_owner(&request, &head.method, &Bytes::new()).await? {
                Some(response) => Ok(response),
                None => key_routes::delete(&request).await,
            }
        }
        RouteHandler::Store => {
            let (key, acks) = (request.parameter_key("id")?, WantedAcks::parse(&request)?);
            let value = request_body::read(body, value).await?;
            may_write()?;
            let stored = key_routes::overwrite(&request, &key, Some(value)).await?;
            acks.wait(&request).await.map(|()| stored)
        }
        RouteHandler::Remove => {
            let (key, acks) = (request.parameter_key("id")?, WantedAcks::parse(&request)?);
            let removed = key_routes::overwrite(&request, &key, None).await?;
            acks.wait(&request).await.map(|()| removed)
        }
        RouteHandler::Range(format) => range_routes::range(&request, format).await,
        RouteHandler::Mget => mget::mget(&request, request_body::read(body, small).await?).await,
        RouteHandler::Keys => list_keys::list_keys(&request).await,
        RouteHandler::PostItem => Ok(item_api::post_item(&request, request_body::read(body, item).await?).await),
        RouteHandler::GetItem => Ok(item_api::get_item(&request, request_body::read(body, small).await?).await),
        RouteHandler::DeleteItem => Ok(item_api::delete_item(&request, request_body::read(body, small).await?).await),
        RouteHandler::ItemKeys => Ok(item_api::list_item_keys(&request, request_body::read(body, small).await?).await),
        RouteHandler::ClearGroup => tag_routes::clear_group(&request).await,
        RouteHandler::ClearKeys => tag_routes::clear_keys(&request).await,
        RouteHandler::ClearTag => tag_routes::clear_tag(&request).await,
        RouteHandler::Healthy => Ok(health::healthy()),
        RouteHandler::Ready => health::ready(context),
        RouteHandler::Metrics => Ok(metrics_and_stats::metrics(context, request.headers)),
        RouteHandler::GroupcacheStats(which) => Ok(groupcache_stats(context, which)),
        RouteHandler::Peers => peer_status::peers(context, &request),
        RouteHandler::Stats => Ok(metrics_and_stats::stats(context)),
        RouteHandler::OpenApi => Ok(openapi::openapi(settings.item_prefix.as_deref())),
        RouteHandler::Docs => Ok(docs_page::docs_page(settings.item_prefix.as_deref())),
        RouteHandler::Console => Ok(console::page(&request)),
        RouteHandler::ConsoleFile => console::file(&request),
        RouteHandler::History => history_routes::history(&request).await,
        RouteHandler::Events => Ok(history_routes::events(&request)),
        RouteHandler::Live => Ok(live_stream::live(&request)),
        RouteHandler::Connections => connection_routes::connections(&request),
        RouteHandler::KillConnection => connection_routes::kill(&request),
        RouteHandler::Explain => explain_key::explain_key(&request),
        RouteHandler::Config => Ok(config_routes::settings(context)),
        RouteHandler::LogLevel => Ok(log_level::log_level(context)),
        RouteHandler::ConfigDifferences => config_routes::differences(context).await,
        RouteHandler::ReloadConfig => config_routes::reload(context).await,
        RouteHandler::Reload => group_control::reload(context, request.group).await,
        RouteHandler::Faults => Ok(fault_routes::faults(&request)),
        RouteHandler::OrderFault => fault_routes::order(&request, &request_body::read(body, small).await?),
        RouteHandler::ClearFaults => fault_routes::clear(&request),
        RouteHandler::HotKeys => hot_key_lists::hot_keys(context, &request),
        RouteHandler::Contents => contents_route::contents(context, &request),
        RouteHandler::SlowLog => slow_log_route::slow_log(&request),
        RouteHandler::Commands => Ok(command_numbers::commands(&request)),
        RouteHandler::CommandTimes => command_numbers::command(&request),
        RouteHandler::WhatIf => what_if::what_if(&request),
        RouteHandler::Record => record_operations::record(context, query),
        RouteHandler::Snapshot => Ok(snapshot_routes::status(context)),
        RouteHandler::BeginSnapshot => snapshot_routes::begin(context, query).await,
        RouteHandler::Backup => store_backup::backup(context, query).await,
        RouteHandler::Backups => store_backup::backups(context, query),
        RouteHandler::ModeRules => Ok(mode_rules::mode_rules(&request)),
        RouteHandler::SetModeRules => mode_rules::set_mode_rules(&request, &request_body::read(body, small).await?),
        RouteHandler::ResetModeRules => mode_rules::reset_mode_rules(&request),
        RouteHandler::SetLogLevel => log_level::set_log_level(context, &request_body::read(body, small).await?),
    }
}

fn group<'w>(worker: &'w Worker, route: &Route, name: Option<&[u8]>) -> Result<&'w Rc<Group>, Problem> {
    let Some(encoded) = name else {
        let settings = &worker.app.settings;
        let number = match route.scope() {
            _ if route.is_data() => settings.data_group,
            Some(Scope::Data) => settings.http_group,
            Some(Scope::Admin) | None => 0,
        };
        return Ok(worker.groups.at(number));
    };
    let mut scratch = Vec::new();
    let name = target::decode_path(encoded, &mut scratch).unwrap_or_default();
    worker.groups.named(&name).ok_or_else(|| {
        Problem::of(ProblemKind::NoSuchGroup, format!("there is no group `{}`", String::from_utf8_lossy(name)))
    })
}
