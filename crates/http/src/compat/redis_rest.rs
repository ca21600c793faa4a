//! Redis over HTTP, as `@upstash/redis` and edge functions speak it: `POST /redis` with a command as
//! a JSON array, `/redis/pipeline`, `/redis/multi-exec`, and `/redis/set/key/value?EX=10`.
//!
//! Commands run in a session of the Redis door, with its rights, limits and errors. A request is a
//! connection of its own, which ends with the answer.
use super::redis_json::{Commands, Part, Replies, Strings, write_error, write_reply};
use crate::{
    messages::{
        problem_json::{Answer, OVERLOAD_RETRY, Problem, ProblemKind, retry_after},
        request_body::UnreadBody,
        response_body::ResponseBody,
        response_writer,
    },
    routing::{request_user::basic_credentials, route_request::RouteRequest},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use larder_base::{
    buffers::{BufferCharge, BufferKind},
    lifecycle::queue_delay::OVERLOADED,
};
use larder_core::app::Worker;
use larder_proto::{
    http::target,
    resp::{View, encode},
};
use larder_redis::connection::{RequestClient, RequestSession};
use std::{borrow::Cow, net::Ipv4Addr, time::Duration};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, split};

/// The parameter of the query that has the token of clients which cannot set a header.
pub(crate) const TOKEN: &str = "_token";

/// The prefix in the table of routes and in `openapi.json`; the default of `redis-http-prefix`.
pub(crate) const TABLE_PREFIX: &str = "/redis";

/// A path of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RedisPath<'p> {
    /// Of another route, or of none.
    Other,
    /// One of these routes: the path in the table.
    Here(Cow<'p, str>),
    /// It would be one of these, but the prefix is another one, or off.
    Elsewhere,
}

/// `has_route`: whether another route has the path.
pub(crate) fn of_path<'p>(path: &'p str, prefix: Option<&str>, has_route: impl FnOnce() -> bool) -> RedisPath<'p> {
    let below = |prefix: &str| path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match prefix {
        Some(TABLE_PREFIX) if below(TABLE_PREFIX).is_some() => RedisPath::Here(path.into()),
        Some("/") if below(TABLE_PREFIX).is_none() && has_route() => RedisPath::Other,
        Some("/") => RedisPath::Here([TABLE_PREFIX, if path == "/" { "" } else { path }].concat().into()),
        Some(prefix) if below(prefix).is_some() => {
            RedisPath::Here([TABLE_PREFIX, below(prefix).unwrap_or_default()].concat().into())
        }
        _ if below(TABLE_PREFIX).is_some() => RedisPath::Elsewhere,
        _ => RedisPath::Other,
    }
}

/// Why commands have no answer.
pub(super) enum Failure {
    /// An error of the commands, like Redis writes it: 400.
    Command(String),
    Problem(Problem),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure::Problem(problem)
    }
}
impl From<String> for Failure {
    fn from(error: String) -> Failure {
        Failure::Command(error)
    }
}

type Ran = Result<Response<ResponseBody>, Failure>;

fn answer(ran: Ran) -> Answer {
    ran.or_else(|failure| match failure {
        Failure::Command(error) => {
            let mut response = document(StatusCode::OK, |out| write_error(out, error.as_bytes()));
            set_status(&mut response, error.as_bytes());
            Ok(response)
        }
        Failure::Problem(problem) => Err(problem),
    })
}

/// Sets the status of an error reply, which tells HTTP clients what to do about it, and when.
fn set_status(response: &mut Response<ResponseBody>, error: &[u8]) {
    let status = error_status(error);
    *response.status_mut() = status;
    let wait = match status {
        StatusCode::TOO_MANY_REQUESTS => throttled_for(error),
        StatusCode::SERVICE_UNAVAILABLE => Some(OVERLOAD_RETRY),
        _ => None,
    };
    if let Some(wait) = wait {
        response.headers_mut().insert(header::RETRY_AFTER, retry_after(wait));
    }
}

/// The time at the end of `ERR throttled: … retry after 20 ms`.
fn throttled_for(error: &[u8]) -> Option<Duration> {
    let text = str::from_utf8(error).ok()?.strip_suffix(" ms")?;
    Some(Duration::from_millis(text.rsplit(' ').next()?.parse().ok()?))
}

fn error_status(error: &[u8]) -> StatusCode {
    let begins = |start: &str| error.starts_with(start.as_bytes());
    if begins("NOAUTH ") || begins("WRONGPASS ") {
        StatusCode::UNAUTHORIZED
    } else if begins("NOPERM ") {
        StatusCode::FORBIDDEN
    } else if begins("ERR throttled: ") {
        StatusCode::TOO_MANY_REQUESTS
    } else if error.strip_prefix(b"ERR ") == Some(OVERLOADED.as_bytes()) || error.ends_with(b"(max-buffers)") {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::BAD_REQUEST
    }
}

fn document(status: StatusCode, write: impl FnOnce(&mut Vec<u8>)) -> Response<ResponseBody> {
    let mut text = Vec::new();
    write(&mut text);
    let mut response = response_writer::json(ResponseBody::full(text));
    *response.status_mut() = status;
    response
}

/// `POST /redis`
pub(crate) async fn command(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    let mut commands = no_commands(request);
    answer(match commands.read(&body, Part::Command) {
        Ok(()) => one(request, commands).await,
        Err(error) => Err(error.into()),
    })
}

/// `GET /redis/COMMAND/ARGUMENT…?OPTION=VALUE`. Any page can make a browser send it, and not every
/// browser says which page it was: without a token it only reads.
pub(crate) async fn get_path(request: &RouteRequest<'_>) -> Answer {
    let header = request.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    // A browser adds `Basic` by itself, and a page knows no token that was verified.
    let bearer =
        header.is_some_and(|header| header.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer ")));
    let has_token = bearer || request.user.is_known() && token(request.query).is_some();
    answer(path(request, Bytes::new(), !has_token).await)
}

/// `POST /redis/COMMAND/ARGUMENT…?OPTION=VALUE`. A body is one more argument.
pub(crate) async fn post_path(request: &RouteRequest<'_>, body: UnreadBody<'_>) -> Answer {
    let body = body.read().await?;
    answer(path(request, body, false).await)
}

async fn path(request: &RouteRequest<'_>, body: Bytes, only_reads: bool) -> Ran {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let bad = || Problem::of(ProblemKind::BadParameter, "the path or the query has a wrong %-escape");
    for segment in request.key.split(|byte| *byte == b'/') {
        parts.push(target::decode_path(segment, &mut Vec::new()).map_err(|_| bad())?.to_vec());
    }
    if super::redis_events::is_stream(&parts[0]) {
        return super::redis_events::follow(request, &parts).await;
    }
    if !body.is_empty() {
        parts.push(body.to_vec());
    }
    for (name, value) in target::pairs(request.query).filter(|(name, _)| *name != TOKEN.as_bytes()) {
        for part in [name, value].into_iter().filter(|part| !part.is_empty()) {
            parts.push(target::decode_query(part, &mut Vec::new()).map_err(|_| bad())?.to_vec());
        }
    }
    let mut commands = no_commands(request);
    commands.push(&parts)?;
    if only_reads && !commands.only_read {
        return Err("ERR a GET without a token can only read: use POST, or send a token".to_owned().into());
    }
    one(request, commands).await
}

async fn one(request: &RouteRequest<'_>, commands: Commands) -> Ran {
    let replies = run(request, commands).await?;
    let mut is_result = false;
    let mut response = write(request, &replies, |replies, out, strings| is_result = put_next(out, replies, strings))?;
    if !is_result {
        match replies.all().next() {
            Some(View::Error(text)) => set_status(&mut response, text),
            _ => *response.status_mut() = StatusCode::BAD_REQUEST,
        }
    }
    Ok(response)
}

/// `POST /redis/pipeline`
pub(crate) async fn pipeline(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    answer(run_pipeline(request, &body).await)
}

async fn run_pipeline(request: &RouteRequest<'_>, body: &[u8]) -> Ran {
    let commands = several(request, body, false)?;
    let count = commands.count;
    let replies = run(request, commands).await?;
    write(request, &replies, |replies, out, strings| {
        for number in 0..count {
            out.push(if number == 0 { b'[' } else { b',' });
            put_next(out, replies, strings);
        }
        out.push(b']');
    })
}

/// `POST /redis/multi-exec`
pub(crate) async fn transaction(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    answer(run_transaction(request, &body).await)
}

async fn run_transaction(request: &RouteRequest<'_>, body: &[u8]) -> Ran {
    let mut commands = several(request, body, true)?;
    let count = commands.count;
    commands.bytes.splice(0..0, encode(&[b"MULTI"]));
    commands.bytes.extend(encode(&[b"EXEC"]));
    let replies = run(request, commands).await?;
    let mut is_result = false;
    let mut response = write(request, &replies, |replies, out, strings| match replies.nth(count + 1) {
        Some(View::Array(values)) => {
            is_result = true;
            for (number, value) in values.enumerate() {
                out.push(if number == 0 { b'[' } else { b',' });
                write_reply(out, value, strings);
            }
            out.push(b']');
        }
        Some(View::Error(text)) => write_error(out, text),
        _ => write_error(out, NO_REPLY.as_bytes()),
    })?;
    if !is_result {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    Ok(response)
}

fn no_commands(request: &RouteRequest<'_>) -> Commands {
    Commands::new(request.worker.app.buffers.charge(BufferKind::HttpInput))
}

fn several(request: &RouteRequest<'_>, body: &[u8], is_transaction: bool) -> Result<Commands, String> {
    let mut commands = Commands { is_transaction, ..no_commands(request) };
    commands.read(body, Part::Commands)?;
    match commands.count {
        0 if is_transaction => Err("ERR empty transaction request".to_owned()),
        0 => Err("ERR empty pipeline request".to_owned()),
        _ => Ok(commands),
    }
}

pub(super) const NO_REPLY: &str = "ERR the command had no reply, because its session was closed";

fn put_next(out: &mut Vec<u8>, replies: &mut Replies<'_>, strings: Strings) -> bool {
    match replies.next() {
        Some(reply) => write_reply(out, reply, strings),
        None => {
            write_error(out, NO_REPLY.as_bytes());
            false
        }
    }
}

/// Replies, on the account of the buffers.
struct KeptReplies {
    bytes: Vec<u8>,
    /// Where those of the request's commands begin.
    start: usize,
    charge: BufferCharge,
}

impl KeptReplies {
    fn all(&self) -> Replies<'_> {
        Replies(&self.bytes[self.start..])
    }
}

/// Begins a session for the client of the request. A login where the Redis behind has the users is
/// a command before the others: the bytes.
///
/// # Errors
/// `Authorization` is no Basic one.
pub(super) fn session(request: &RouteRequest<'_>) -> Result<(RequestSession, Vec<u8>), Problem> {
    let (worker, context) = (&request.context.worker, request.context);
    let (mut user, mut login) = (request.user.login().cloned(), Vec::new());
    if worker.app.upstream_rights.is_some() {
        user = None;
        if let Some(header) = request.headers.get(header::AUTHORIZATION) {
            let (name, password) = basic_credentials(header.as_bytes())?;
            login = encode(&[b"AUTH", &name, &password]);
        }
    }
    let client = context.client_of(request.headers);
    let ends = ((client.ip, client.port.unwrap_or(0)).into(), (Ipv4Addr::UNSPECIFIED, 0).into());
    let certificate = context.users.certificate_user().map(Into::into);
    let state = &context.http.redis;
    let client =
        RequestClient { ends, user, certificate, access: state.access(worker, has_logged_in(request)).clone() };
    Ok((RequestSession::begin(worker, &state.pool, client), login))
}

/// Whether the client has shown a password, a token or a certificate, and it was verified.
fn has_logged_in(request: &RouteRequest<'_>) -> bool {
    let shows = request.headers.contains_key(header::AUTHORIZATION) || token(request.query).is_some();
    // A user without one has any password.
    let is_verified = request.user.user().is_some_and(|user| !user.has_no_password());
    // A certificate says who the client is only where the request names no other user.
    if shows { is_verified } else { request.context.users.has_certificate(request.worker) }
}

/// Runs the commands as the client of the request.
async fn run(request: &RouteRequest<'_>, commands: Commands) -> Result<KeptReplies, Failure> {
    const STEP: usize = 16 * 1024;
    let buffers = &request.worker.app.buffers;
    let mut kept = KeptReplies { bytes: Vec::new(), start: 0, charge: buffers.charge(BufferKind::HttpOutput) };
    let (mut session, login) = session(request)?;
    let (mut from, mut to) = split(&mut session.pipe);
    let send = async {
        // Fails when the session ends early. Its replies, or their lack, say that.
        let _ = to.write_all(&login).await;
        let _ = to.write_all(&commands.bytes).await;
        let _ = to.shutdown().await;
        Ok::<(), Problem>(())
    };
    let receive = async {
        loop {
            if kept.bytes.capacity() - kept.bytes.len() < STEP {
                let more = kept.bytes.len().max(STEP);
                if !kept.charge.try_resize(kept.bytes.len() + more) {
                    return Err(Problem::buffers_full("the replies do not fit", buffers.limit()));
                }
                kept.bytes.reserve_exact(more);
            }
            if !matches!(from.read_buf(&mut kept.bytes).await, Ok(read) if read > 0) {
                return Ok(());
            }
        }
    };
    let exchange = async { tokio::try_join!(send, receive) };
    // A command that waits (BLPOP) ends with its client.
    tokio::select! {
        done = exchange => { done?; }
        () = request.context.client_watch.clone().look() => {}
    }
    if !login.is_empty() {
        let mut replies = Replies(&kept.bytes);
        if let Some(View::Error(text)) = replies.next() {
            return Err(String::from_utf8_lossy(text).into_owned().into());
        }
        kept.start = kept.bytes.len() - replies.0.len();
    }
    Ok(kept)
}

/// Writes a document of the replies, on the account of the buffers.
fn write(
    request: &RouteRequest<'_>,
    replies: &KeptReplies,
    put: impl FnOnce(&mut Replies<'_>, &mut Vec<u8>, Strings),
) -> Ran {
    let strings = strings(request.headers);
    Ok(charged(request.worker, replies.bytes.len(), |out| put(&mut replies.all(), out, strings))?)
}

/// Writes a document of replies of so many bytes, on the account of the buffers.
fn charged(worker: &Worker, replies: usize, put: impl FnOnce(&mut Vec<u8>)) -> Result<Response<ResponseBody>, Problem> {
    let buffers = &worker.app.buffers;
    let mut charge = buffers.charge(BufferKind::HttpOutput);
    let full = || Problem::buffers_full("the answer does not fit", buffers.limit());
    // Most documents are about as long as their replies.
    if !charge.try_resize(2 * replies) {
        return Err(full());
    }
    let response = document(StatusCode::OK, |out| {
        out.reserve(replies + 32);
        put(out);
    });
    match charge.try_resize(response.body().left().unwrap_or(0) as usize) {
        true => Ok(response),
        false => Err(full()),
    }
}

/// The answer to a GET that has this value, or this error.
pub(crate) fn answer_get(
    worker: &Worker,
    got: &Result<Option<Bytes>, Vec<u8>>,
    strings: Strings,
) -> Response<ResponseBody> {
    let (reply, len) = match got {
        Ok(Some(value)) => (View::Bulk(value), value.len()),
        Ok(None) => (View::Null, 0),
        Err(error) => (View::Error(error), error.len()),
    };
    let answered = charged(worker, len, |out| _ = write_reply(out, reply, strings));
    let mut response = answered.unwrap_or_else(error_response);
    if let Err(error) = got {
        set_status(&mut response, error);
    }
    response
}

/// How the client wants strings.
fn strings(headers: &HeaderMap) -> Strings {
    match headers.get("upstash-encoding").map(HeaderValue::as_bytes) {
        Some(encoding) if encoding.eq_ignore_ascii_case(b"base64") => Strings::Base64,
        _ => Strings::Text,
    }
}

/// The token in the query, as the header that it stands for.
pub(crate) fn token(query: &[u8]) -> Option<Vec<u8>> {
    let token = target::parameter(query, TOKEN)?;
    Some([b"Bearer ", target::decode_query(token, &mut Vec::new()).ok()?].concat())
}

/// A problem, as clients of these routes read errors.
pub(crate) fn error_response(problem: Problem) -> Response<ResponseBody> {
    let text = problem.sentence();
    let mut response = problem.into_response();
    let (_, error) = document(StatusCode::OK, |out| write_error(out, text.as_bytes())).into_parts();
    *response.body_mut() = error;
    response_writer::insert_own_type(response.headers_mut(), HeaderValue::from_static("application/json"));
    response
}
