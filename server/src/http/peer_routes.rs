//! The routes between nodes, as groupcache-go v3 and mailgun's groupcache serve them. What comes here changes this node alone.
use super::{
    connection_context::ConnectionContext,
    peer_moves,
    problem_json::{Problem, ProblemKind},
    read_responses::{MESSAGE, ReadRoute, message_of},
    response_body::ResponseBody,
    response_writer,
    route_request::{RouteRequest, decode_key},
    tag_routes,
};
use crate::{
    peer::{
        CLEAR, GET_KEYS, GetKeysRequest, GetKeysResponse, GetResponse, HOTTEST, KeyAnswer, MEMBER, MOST_KEYS,
        REMOVE_KEYS, RING, SetRequest, bearer, of_expire, parse_remove_keys,
    },
    read::{Group, StartedRead, check_tags},
    source::{CopyMetadata, Fetch, SourceError},
    telemetry::RecordedOperation,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use larder_engine::{Attributes, Condition, Entry, Expiry, Millis, Write};
use larder_proto::http::{target, text::Sink};
use larder_store::clock;
use prost::Message;
use subtle::ConstantTimeEq as _;

/// Values that one answer carries, bytes; keys beyond are to be asked for alone.
const LARGEST_ANSWER: usize = 1 << 20;

/// Whether a request is from a node.
pub(super) fn check_node(context: &ConnectionContext, headers: &HeaderMap) -> Result<(), Problem> {
    let peers = &context.worker.app.settings.peers;
    if peers.tls.is_some() && !context.is_node {
        return Err(Problem::of(ProblemKind::NotAPeer, "the connection shows no certificate of peer-tls-ca"));
    }
    let Some(secret) = &peers.secret else { return Ok(()) };
    let shown = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    match shown.ct_eq(bearer(secret).as_bytes()).into() {
        true => Ok(()),
        false => Err(Problem::of(ProblemKind::NotAPeer, "`Authorization` does not show peer-secret")),
    }
}

/// `GET`: the value as a message, from the tier or from the source; never from a third node.
pub(super) async fn get(request: &RouteRequest<'_>) -> Response<ResponseBody> {
    if !answers(request) {
        return not_answered();
    }
    let route = ReadRoute::Peer;
    let key = match request.key() {
        Ok(key) => key,
        Err(problem) => return route.failed(None, problem),
    };
    request.note(RecordedOperation::Get, &key);
    note_asked(request);
    let mut batch = Vec::new();
    let begun = begin(request, &key, &mut batch);
    if !matches!(begun, StartedRead::Wait(_)) {
        request.answered_by_tier(&key);
    }
    if !batch.is_empty() {
        request.follow(&mut batch);
        request.group.source.fetch(&mut batch);
    }
    match end(request, &key, begun).await {
        Ok(Some(body)) => {
            let mut response = Response::new(ResponseBody::full(body));
            response.headers_mut().insert(header::CONTENT_TYPE, MESSAGE);
            response
        }
        Ok(None) => route.absent(&key),
        Err(error) => route.failed(Some(&key), Problem::source(&error)),
    }
}

/// Counts a read that another node asks.
fn note_asked(request: &RouteRequest<'_>) {
    if let Some(peers) = &request.group.peers {
        peers.asked(request.headers.get(RING).map(HeaderValue::as_bytes));
    }
}

/// Whether this node answers what its peers read: it does not before it has taken its keys over, nor once it has handed them over.
fn answers(request: &RouteRequest<'_>) -> bool {
    request.worker.app.peers.as_ref().is_none_or(|peers| peers.answers())
}

/// No groupcache node takes this status for an answer: it asks the next node, or its source.
fn not_answered() -> Response<ResponseBody> {
    response_writer::text(StatusCode::MISDIRECTED_REQUEST, "this node does not answer for its keys now\n")
}

/// Starts a read for another node.
fn begin(request: &RouteRequest<'_>, key: &[u8], batch: &mut Vec<Fetch>) -> StartedRead<Bytes> {
    let (group, instance) = (request.group, request.worker.app.instance);
    group.begin_for_peer(group.cache.key(key), request.now, batch, |entry| message(&entry, instance, request.now))
}

/// The message of what the tier has.
fn held(request: &RouteRequest<'_>, key: &[u8]) -> Option<Bytes> {
    let (group, instance) = (request.group, request.worker.app.instance);
    group.held_for_peer(group.cache.key(key), request.now, |entry| message(&entry, instance, request.now))
}

/// The message of a read that was started; `None`: there is no such key.
async fn end(request: &RouteRequest<'_>, key: &[u8], begun: StartedRead<Bytes>) -> Result<Option<Bytes>, SourceError> {
    let wait = match begun {
        StartedRead::Hit(body) => return Ok(Some(body)),
        StartedRead::Absent => return Ok(None),
        StartedRead::Wait(wait) => wait,
    };
    let Some(value) = Group::end(wait).await? else { return Ok(None) };
    let (group, instance, now) = (request.group, request.worker.app.instance, clock::now());
    let look = |entry: Entry<'_>| (entry.value.as_bytes() == value).then(|| message(&entry, instance, now));
    let held = match group.policy.serves(key) {
        true => group.cache.peek_stale(group.cache.key(key), now, look).flatten(),
        false => None,
    };
    Ok(Some(held.unwrap_or_else(|| GetResponse::not_held(value, &CopyMetadata::default()).encode_to_vec().into())))
}

/// `POST` to `_get-keys/`: several keys of one owner.
async fn get_keys(request: &RouteRequest<'_>, body: Bytes) -> Result<Response<ResponseBody>, Problem> {
    let GetKeysRequest { keys, held_only } = GetKeysRequest::decode(body)
        .map_err(|error| Problem::of(ProblemKind::BadBody, format!("the body is no GetKeysRequest: {error}")))?;
    if keys.len() > MOST_KEYS {
        return Err(Problem::of(ProblemKind::TooManyKeys, format!("{} keys, and at most {MOST_KEYS}", keys.len())));
    }
    keys.iter().try_for_each(|key| request.check_key(key))?;
    let mut batch = Vec::new();
    // A store has nothing to fetch from: its answers are there at once.
    let is_held_only = held_only == Some(true) && request.group.source.reads_through();
    let begun: Vec<_> = match is_held_only {
        true => keys.iter().map(|key| held(request, key).map(StartedRead::Hit)).collect(),
        false => keys.iter().map(|key| Some(begin(request, key, &mut batch))).collect(),
    };
    if !batch.is_empty() {
        request.group.source.fetch(&mut batch);
    }
    let (mut answers, mut size) = (Vec::with_capacity(keys.len()), 0);
    for (key, begun) in keys.iter().zip(begun) {
        request.note(RecordedOperation::Get, key);
        note_asked(request);
        let ended = match begun {
            Some(begun) => end(request, key, begun).await.map(Some),
            None => Ok(None),
        };
        let (status, body) = match ended {
            Ok(None) => (StatusCode::ACCEPTED, Bytes::new()),
            Ok(Some(Some(body))) if size + body.len() <= LARGEST_ANSWER => (StatusCode::OK, body),
            Ok(Some(Some(_))) => (StatusCode::PAYLOAD_TOO_LARGE, Bytes::new()),
            Ok(Some(None)) => (StatusCode::NOT_FOUND, Bytes::new()),
            Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string().into()),
        };
        size += body.len();
        answers.push(KeyAnswer { status: status.as_u16().into(), body });
    }
    let mut response = Response::new(ResponseBody::full(GetKeysResponse { answers }.encode_to_vec()));
    response.headers_mut().insert(header::CONTENT_TYPE, MESSAGE);
    Ok(response)
}

fn message(entry: &Entry<'_>, instance: u64, now: Millis) -> Bytes {
    let message = message_of(entry, instance, now);
    let mut body = Vec::with_capacity(message.encoded_len());
    message.put(&mut body, |body: &mut Vec<u8>| body.put(entry.value.as_bytes()));
    body.into()
}

/// `PUT`: the key has this value from now on. A node that neither owns the key nor is its only store forgets it: nobody would tell it of the next
/// value if that message were lost.
pub(super) fn set(request: &RouteRequest<'_>, body: Bytes) -> Result<Response<ResponseBody>, Problem> {
    let message = SetRequest::decode(body)
        .map_err(|error| Problem::of(ProblemKind::BadBody, format!("the body is no SetRequest: {error}")))?;
    let key = match message.key {
        Some(key) => key,
        None => Bytes::copy_from_slice(&request.key()?),
    };
    request.check_key(&key)?;
    let value = message.value.unwrap_or_default();
    let max = request.worker.app.settings.max_value;
    if value.len() > max {
        return Err(Problem::over(ProblemKind::ValueTooLarge, "the value", "max-value", max));
    }
    request.note(RecordedOperation::Set(value.len()), &key);
    let group = request.group;
    let write = Write {
        value: &value,
        expiry: match of_expire(message.expire) {
            Some(at) => group.policy.cap(&key, Some(at), request.now),
            None => group.policy.lifetime(&key),
        },
        attributes: Attributes::NONE,
        condition: Condition::Always,
    };
    let is_kept = group.peers.as_ref().is_none_or(|peers| peers.keeps(&key));
    let kept = is_kept && !group.policy.denies(&key) && !is_past(write.expiry, request.now);
    if !kept || group.cache.tier().set(group.cache.key(&key), write, request.now).is_err() {
        group.cache.invalidate(group.cache.key(&key));
    }
    Ok(done())
}

fn is_past(expiry: Expiry, now: Millis) -> bool {
    matches!(expiry, Expiry::At(at) if at <= now)
}

/// `DELETE`: a copy of the key is out of date.
pub(super) fn remove(request: &RouteRequest<'_>) -> Result<Response<ResponseBody>, Problem> {
    let key = request.key()?;
    request.note(RecordedOperation::Del, &key);
    request.group.cache.invalidate(request.group.cache.key(&key));
    Ok(done())
}

/// `POST` to `_get-keys/`: reads several keys; to `_remove-keys/`: the same for several keys; to `_clear/`: for a prefix or a tag, in constant time.
pub(super) async fn post(request: &RouteRequest<'_>, body: Bytes) -> Result<Response<ResponseBody>, Problem> {
    let route = String::from_utf8_lossy(request.key);
    if route == GET_KEYS {
        if !answers(request) {
            return Ok(not_answered());
        }
        return get_keys(request, body).await;
    }
    if route.starts_with(REMOVE_KEYS) {
        let keys = parse_remove_keys(&body).map_err(|reason| Problem::of(ProblemKind::BadBody, reason))?;
        if let Some(peers) = &request.group.peers {
            peers.asked_to_remove(keys.len());
        }
        for key in keys {
            request.group.cache.invalidate(request.group.cache.key(&key));
        }
        return Ok(done());
    }
    match &*route {
        HOTTEST => return peer_moves::hottest(request).await,
        MEMBER => return peer_moves::announced(request).await,
        _ => {}
    }
    if route != CLEAR {
        return Err(Problem::of(ProblemKind::NoSuchRoute, format!("there is nothing to POST to at {route}")));
    }
    let soft = tag_routes::is_soft(request)?;
    match target::parameter(request.query, "tag") {
        Some(tag) => {
            let tag = decode_key(tag, target::decode_query)?;
            check_tags(&[&tag]).map_err(|limit| Problem::of(ProblemKind::BadTag, limit))?;
            request.group.cache.tier().clear_tag(&tag, soft, request.now);
        }
        None => {
            let prefix = request.key_parameter("prefix").transpose()?.unwrap_or_default();
            tag_routes::clear_keys(request.group, &prefix, soft, request.now);
        }
    }
    Ok(done())
}

pub(super) fn done() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::OK;
    response
}
