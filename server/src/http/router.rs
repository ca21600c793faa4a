//! The table of routes, and what every request goes through before and after its route.
use super::{
    Context, Role, backup, group_routes, health_and_stats, key_routes, mget,
    problem::{Kind, Problem},
    range_routes::{self, Wording},
    read_answer::Reading,
    request_body::{self, Limit},
    response_body::Body,
};
use crate::{app::Worker, lifecycle::throttle::Scope, read::Group};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use larder_engine::Millis;
use larder_proto::http::target;
use larder_store::clock;
use std::rc::Rc;

/// One method of one path.
pub(super) struct Route {
    pub(super) method: Method,
    /// Literal segments; `{group}` is one segment, `{key}` all that follows. HEAD goes with GET.
    pub(super) pattern: &'static str,
    on: On,
    handler: Handler,
}

/// Listeners that have a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Native,
    Admin,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handler {
    Read(Reading),
    Put,
    Delete,
    /// Of `/v0/entity`.
    Store,
    /// Likewise.
    Remove,
    Mget,
    Keys,
    Walk(Wording),
    Clear,
    Healthy,
    Ready,
    Metrics,
    Stats,
    OpenApi,
    LogLevel,
    SetLogLevel,
    Record,
    Reload,
    Backup,
}

const fn route(method: Method, pattern: &'static str, on: On, handler: Handler) -> Route {
    Route { method, pattern, on, handler }
}

/// Every route there is. `openapi.json` describes the same ones, which a test sees to.
pub(super) static ROUTES: [Route; 29] = [
    route(Method::GET, "/v1/kv/{key}", On::Native, Handler::Read(Reading::Kv)),
    route(Method::PUT, "/v1/kv/{key}", On::Native, Handler::Put),
    route(Method::DELETE, "/v1/kv/{key}", On::Native, Handler::Delete),
    route(Method::POST, "/v1/mget", On::Native, Handler::Mget),
    route(Method::GET, "/v1/keys", On::Native, Handler::Keys),
    route(Method::GET, "/v1/range", On::Native, Handler::Walk(Wording::Lines)),
    route(Method::GET, "/v1/groups/{group}/kv/{key}", On::Native, Handler::Read(Reading::Kv)),
    route(Method::PUT, "/v1/groups/{group}/kv/{key}", On::Native, Handler::Put),
    route(Method::DELETE, "/v1/groups/{group}/kv/{key}", On::Native, Handler::Delete),
    route(Method::POST, "/v1/groups/{group}/mget", On::Native, Handler::Mget),
    route(Method::GET, "/v1/groups/{group}/keys", On::Native, Handler::Keys),
    route(Method::GET, "/v1/groups/{group}/range", On::Native, Handler::Walk(Wording::Lines)),
    route(Method::DELETE, "/v1/groups/{group}", On::Native, Handler::Clear),
    route(Method::GET, "/lookup", On::Native, Handler::Read(Reading::Lookup)),
    route(Method::GET, "/", On::Native, Handler::Read(Reading::Text)),
    route(Method::GET, "/v0/entity", On::Native, Handler::Read(Reading::Entity)),
    route(Method::PUT, "/v0/entity", On::Native, Handler::Store),
    route(Method::DELETE, "/v0/entity", On::Native, Handler::Remove),
    route(Method::GET, "/v0/entities", On::Native, Handler::Walk(Wording::Entities)),
    route(Method::GET, "/v1/stats", On::Both, Handler::Stats),
    route(Method::GET, "/metrics", On::Both, Handler::Metrics),
    route(Method::GET, "/healthz", On::Both, Handler::Healthy),
    route(Method::GET, "/readyz", On::Both, Handler::Ready),
    route(Method::GET, "/openapi.json", On::Both, Handler::OpenApi),
    route(Method::GET, "/v1/log-level", On::Admin, Handler::LogLevel),
    route(Method::PUT, "/v1/log-level", On::Admin, Handler::SetLogLevel),
    route(Method::POST, "/v1/record", On::Admin, Handler::Record),
    route(Method::POST, "/v1/groups/{group}/reload", On::Admin, Handler::Reload),
    route(Method::POST, "/v1/store/backup", On::Admin, Handler::Backup),
];

impl Route {
    fn is_on(&self, role: Role) -> bool {
        match self.on {
            On::Both => true,
            On::Native => role == Role::Native,
            On::Admin => role == Role::Admin,
        }
    }

    /// The budget that a request draws on. Health checks draw on none: a busy server must not be taken for a dead one.
    fn scope(&self) -> Option<Scope> {
        match (self.handler, self.on) {
            (Handler::Healthy | Handler::Ready, _) => None,
            (_, On::Native) => Some(Scope::Data),
            (_, On::Admin | On::Both) => Some(Scope::Admin),
        }
    }
}

/// The variable parts of a path, still encoded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Variables<'p> {
    group: Option<&'p [u8]>,
    key: &'p [u8],
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

/// A request on its way to its handler.
pub(super) struct Call<'r> {
    pub(super) worker: &'r Worker,
    pub(super) group: &'r Rc<Group>,
    /// The rest of the path, still encoded.
    pub(super) key: &'r [u8],
    pub(super) query: &'r [u8],
    pub(super) headers: &'r HeaderMap,
    pub(super) now: Millis,
}

/// Answers a request.
pub(super) async fn respond<B>(context: &Context, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes>,
{
    let is_head = request.method() == Method::HEAD;
    let mut response = match answer(context, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    if is_head {
        if let Some(len) = response.body().left() {
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(len));
        }
        *response.body_mut() = Body::empty();
    }
    response
}

async fn answer<B>(context: &Context, request: Request<B>) -> Result<Response<Body>, Problem>
where
    B: http_body::Body<Data = Bytes>,
{
    let settings = &context.worker.app.settings;
    let (head, body) = request.into_parts();
    if head_size(&head) > settings.max_headers {
        return Err(Problem::over(Kind::HeadTooLarge, "the head", "max-headers", settings.max_headers));
    }
    let (route, variables) = find(context.role, &head.method, head.uri.path())?;
    let query = head.uri.query().unwrap_or_default().as_bytes();
    if let (Some(throttle), Some(scope)) = (&context.worker.app.throttle, route.scope())
        && let Err(throttled) = throttle.check(scope, context.peer.ip())
    {
        context.worker.counters.http_throttled.add(1);
        return Ok(match route.handler {
            Handler::Read(reading) => key_routes::throttled(reading, query, &throttled),
            _ => Problem::throttled(&throttled).into_response(),
        });
    }
    let call = Call {
        worker: &context.worker,
        group: group(&context.worker, variables.group)?,
        key: variables.key,
        query,
        headers: &head.headers,
        now: clock::now(),
    };
    let at_most = |bytes, setting, kind| Limit { context, bytes, setting, kind, patience: settings.header_timeout };
    let small = at_most(settings.max_body, "max-body", Kind::BodyTooLarge);
    let value = at_most(settings.max_value, "max-value", Kind::ValueTooLarge);
    match route.handler {
        Handler::Read(reading) => Ok(key_routes::get(&call, reading).await),
        Handler::Put => {
            let put = key_routes::Put::parse(&call)?;
            put.run(&call, request_body::read(body, value).await?).await
        }
        Handler::Delete => key_routes::delete(&call).await,
        Handler::Store => {
            let key = call.parameter_key("id")?;
            key_routes::overwrite(&call, &key, Some(request_body::read(body, value).await?)).await
        }
        Handler::Remove => key_routes::overwrite(&call, &call.parameter_key("id")?, None).await,
        Handler::Walk(wording) => range_routes::walk(&call, wording).await,
        Handler::Mget => mget::mget(&call, request_body::read(body, small).await?).await,
        Handler::Keys => group_routes::page(&call).await,
        Handler::Clear => Ok(group_routes::clear(&call)),
        Handler::Healthy => Ok(health_and_stats::healthy()),
        Handler::Ready => health_and_stats::ready(context),
        Handler::Metrics => Ok(health_and_stats::metrics(context)),
        Handler::Stats => Ok(health_and_stats::stats(context)),
        Handler::OpenApi => Ok(health_and_stats::openapi()),
        Handler::LogLevel => Ok(health_and_stats::log_level(context)),
        Handler::Reload => health_and_stats::reload(context, call.group).await,
        Handler::Record => health_and_stats::record(context, query),
        Handler::Backup => backup::backup(context, query).await,
        Handler::SetLogLevel => health_and_stats::set_log_level(context, &request_body::read(body, small).await?),
    }
}

/// The route for a method and path.
fn find<'p>(role: Role, method: &Method, path: &'p str) -> Result<(&'static Route, Variables<'p>), Problem> {
    let wanted = if method == Method::HEAD { &Method::GET } else { method };
    let mut allow = String::new();
    for route in ROUTES.iter().filter(|route| route.is_on(role)) {
        let Some(variables) = matches(route.pattern, path) else { continue };
        if route.method == *wanted {
            return Ok((route, variables));
        }
        if !allow.is_empty() {
            allow.push_str(", ");
        }
        allow.push_str(if route.method == Method::GET { "GET, HEAD" } else { route.method.as_str() });
    }
    Err(if allow.is_empty() {
        Problem::of(Kind::NoSuchRoute, format!("there is nothing at {path}"))
    } else {
        Problem::method_not_allowed(&allow)
    })
}

fn group<'w>(worker: &'w Worker, name: Option<&[u8]>) -> Result<&'w Rc<Group>, Problem> {
    let Some(encoded) = name else { return Ok(&worker.groups[0]) };
    let mut scratch = Vec::new();
    let name = target::decode_path(encoded, &mut scratch).unwrap_or_default();
    worker
        .groups
        .iter()
        .find(|group| group.name.as_bytes() == name)
        .ok_or_else(|| Problem::of(Kind::NoSuchGroup, format!("there is no group `{}`", String::from_utf8_lossy(name))))
}

/// Bytes of a request's head, as they were sent over HTTP/1.1.
fn head_size(head: &http::request::Parts) -> usize {
    let line = head.method.as_str().len()
        + head.uri.path_and_query().map_or(0, |target| target.as_str().len())
        + " HTTP/1.1\r\n\r\n".len();
    let fields = head.headers.iter();
    line + fields.map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
}
