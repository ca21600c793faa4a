//! The routes between nodes, as groupcache-go v3 and mailgun's groupcache serve them. What comes
//! here changes this node alone.
use super::owner_requests;
use crate::{
    compat::read_routes::{MESSAGE, ReadRoute},
    connection::connection_context::ConnectionContext,
    keys::tag_routes,
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_body::ResponseBody,
        response_writer,
    },
    routing::{
        request_user::note_failed,
        route_request::{RouteRequest, decode_key},
    },
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use larder_base::{identity::Credential, telemetry::RecordedOperation};
use larder_core::read::{PeerRequest, check_tags};
use larder_proto::http::target;
use larder_ring::peer::{
    AT_OWNER, CLEAR, ClearScope, GET_KEYS, GetKeysRequest, GetKeysResponse, HOTTEST, HottestKeys, MEMBER, MOST_KEYS,
    MemberMove, NodeReply, NodeRequest, PeerChange, REMOVE_KEYS, RING, SetRequest, bearer, no_such_group, of_expire,
    parse_remove_keys,
};
use prost::Message;
use subtle::ConstantTimeEq as _;

/// Whether nodes show a secret or a certificate. Otherwise clients of their routes must be users
/// like others.
pub(crate) fn nodes_show_themselves(context: &ConnectionContext) -> bool {
    let peers = &context.worker.app.settings.peers;
    peers.secret.is_some() || peers.tls.is_some()
}

pub(crate) fn check_node(context: &ConnectionContext, headers: &HeaderMap) -> Result<(), Problem> {
    let peers = &context.worker.app.settings.peers;
    if peers.tls.is_some() && !context.is_node {
        return Err(Problem::of(ProblemKind::NotAPeer, "the connection shows no certificate of peer-tls-ca"));
    }
    let Some(secret) = &peers.secret else { return Ok(()) };
    let no_peer = || Problem::of(ProblemKind::NotAPeer, "`Authorization` does not show peer-secret");
    let shown = headers.get(header::AUTHORIZATION).ok_or_else(no_peer)?;
    let is_right = bool::from(shown.as_bytes().ct_eq(bearer(secret).as_bytes()));
    if is_right && context.has_shown_secret.get() {
        return Ok(());
    }
    let guess = (Credential::PeerSecret, context.client_of(headers).ip);
    if let Some(wait) = context.worker.app.users.wait(guess.0, guess.1) {
        return Err(Problem::too_many_logins(wait));
    }
    context.has_shown_secret.set(is_right);
    if !is_right {
        note_failed(&context.worker, guess, "");
        return Err(no_peer());
    }
    Ok(())
}

/// What a node is told that asks for a group which this one lacks. The status is none that another
/// node takes for an answer about a key: it asks the next node, or its source.
pub(crate) fn without_group(context: &ConnectionContext, headers: &HeaderMap, encoded: Option<&[u8]>) -> Answer {
    check_node(context, headers)?;
    let mut scratch = Vec::new();
    let name = target::decode_path(encoded.unwrap_or_default(), &mut scratch).unwrap_or_default();
    let mut text = no_such_group(&String::from_utf8_lossy(name));
    text.push('\n');
    Ok(response_writer::text(StatusCode::MISDIRECTED_REQUEST, &text))
}

/// What the request asks, whatever carries it.
pub(crate) fn asked<'r>(request: &'r RouteRequest<'_>) -> PeerRequest<'r> {
    PeerRequest {
        group: request.group,
        now: request.now,
        instance: request.worker.app.instance,
        ring: request.headers.get(RING).map(HeaderValue::as_bytes),
        trace: request.trace.as_ref(),
    }
}

/// Checks what a node asks, shows it to the recorder, and does it.
pub(crate) async fn run(
    request: &RouteRequest<'_>,
    asked: PeerRequest<'_>,
    what: NodeRequest,
) -> Result<NodeReply, Problem> {
    let check = |key: &Bytes, operation| {
        request.check_key(key)?;
        request.note(operation, key);
        Ok(())
    };
    match &what {
        NodeRequest::Get { key, .. } => check(key, RecordedOperation::Get)?,
        NodeRequest::GetMany { keys, .. } => {
            if keys.len() > MOST_KEYS {
                let detail = format!("{} keys, and at most {MOST_KEYS}", keys.len());
                return Err(Problem::of(ProblemKind::TooManyKeys, detail));
            }
            keys.iter().try_for_each(|key| check(key, RecordedOperation::Get))?;
        }
        NodeRequest::Tell(PeerChange::Set { key, value, .. }) => {
            let max = request.worker.app.settings.max_value;
            if value.len() > max {
                return Err(Problem::over(ProblemKind::ValueTooLarge, "the value", "max-value", max));
            }
            check(key, RecordedOperation::Set(value.len()))?;
        }
        NodeRequest::Tell(PeerChange::Remove(key)) => check(key, RecordedOperation::Del)?,
        NodeRequest::Tell(PeerChange::Clear { scope: ClearScope::Tag(tag), .. }) => {
            check_tags(&[&**tag]).map_err(|limit| Problem::of(ProblemKind::BadTag, limit))?;
        }
        NodeRequest::Hottest { .. } | NodeRequest::Announce { .. } if asked.group.peers.is_none() => {
            return Err(Problem::of(ProblemKind::NoSuchRoute, "this group shares nothing"));
        }
        _ => {}
    }
    Ok(asked.run(what).await)
}

/// Does it, and answers that it is done.
async fn tell(request: &RouteRequest<'_>, change: PeerChange) -> Answer {
    run(request, asked(request), NodeRequest::Tell(change)).await?;
    Ok(done())
}

/// `GET`: the value as a message, from the tier or from the source; never from a third node.
pub(crate) async fn get(request: &RouteRequest<'_>) -> Response<ResponseBody> {
    let asked = asked(request);
    if !asked.is_answered() {
        return not_answered();
    }
    let route = ReadRoute::Peer;
    let key = match request.key() {
        Ok(key) => key,
        Err(problem) => return route.failed(None, problem),
    };
    request.note(RecordedOperation::Get, &key);
    match asked.get(&key).await {
        Ok(Some(body)) => message(body),
        Ok(None) => route.absent(&key),
        Err(error) => route.failed(Some(&key), Problem::source(&error)),
    }
}

fn message(body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(body));
    response_writer::insert_own_type(response.headers_mut(), MESSAGE);
    response
}

/// No groupcache node takes this status for an answer: it asks the next node, or its source.
fn not_answered() -> Response<ResponseBody> {
    response_writer::text(StatusCode::MISDIRECTED_REQUEST, "this node does not answer for its keys now\n")
}

/// `POST` to `_get-keys/`: several keys of one owner.
async fn get_keys(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    let asked = asked(request);
    if !asked.is_answered() {
        return Ok(not_answered());
    }
    let GetKeysRequest { keys, held_only } = GetKeysRequest::decode(body)
        .map_err(|error| Problem::of(ProblemKind::BadBody, format!("the body is not a GetKeysRequest: {error}")))?;
    let what = NodeRequest::GetMany { keys, held_only: held_only == Some(true), epoch: 0 };
    let answers = run(request, asked, what).await?.answers;
    Ok(message(GetKeysResponse { answers }.encode_to_vec().into()))
}

/// `PUT`: the key has this value from now on.
pub(crate) async fn set(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    let message = SetRequest::decode(body)
        .map_err(|error| Problem::of(ProblemKind::BadBody, format!("the body is not a SetRequest: {error}")))?;
    let key = match message.key {
        Some(key) => key,
        None => Bytes::copy_from_slice(&request.key()?),
    };
    let (value, expiry) = (message.value.unwrap_or_default(), of_expire(message.expire));
    tell(request, PeerChange::Set { key, value, expiry }).await
}

/// `DELETE`: a copy of the key is out of date.
pub(crate) async fn remove(request: &RouteRequest<'_>) -> Answer {
    tell(request, PeerChange::Remove(Bytes::copy_from_slice(&request.key()?))).await
}

/// `POST` to `_at-owner/`: runs commands or a write; to `_get-keys/`: reads several keys; to
/// `_remove-keys/`: the same for several keys; to `_clear/`: for a prefix or a tag, in constant
/// time.
pub(crate) async fn post(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    let route = String::from_utf8_lossy(request.key);
    if route.starts_with(REMOVE_KEYS) {
        return remove_keys(request, &body).await;
    }
    match &*route {
        GET_KEYS => get_keys(request, body).await,
        HOTTEST => hottest(request).await,
        MEMBER => announced(request).await,
        CLEAR => clear(request).await,
        AT_OWNER if !asked(request).is_answered() => Ok(not_answered()),
        AT_OWNER => owner_requests::run(request, body).await,
        _ => Err(Problem::of(ProblemKind::NoSuchRoute, format!("there is nothing to POST to at {route}"))),
    }
}

async fn remove_keys(request: &RouteRequest<'_>, body: &[u8]) -> Answer {
    let keys = parse_remove_keys(body).map_err(|reason| Problem::of(ProblemKind::BadBody, reason))?;
    if let Some(peers) = &request.group.peers {
        peers.asked_to_remove(keys.len());
    }
    for key in keys {
        asked(request).run(NodeRequest::Tell(PeerChange::Remove(key))).await;
    }
    Ok(done())
}

async fn clear(request: &RouteRequest<'_>) -> Answer {
    let soft = tag_routes::is_soft(request)?;
    let scope = match target::parameter(request.query, "tag") {
        Some(tag) => ClearScope::Tag(Bytes::copy_from_slice(&decode_key(tag, target::decode_query)?)),
        None => {
            let prefix = request.key_parameter("prefix").transpose()?.unwrap_or_default();
            ClearScope::Prefix(Bytes::copy_from_slice(&prefix))
        }
    };
    tell(request, PeerChange::Clear { scope, soft }).await
}

pub(crate) fn done() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::OK;
    response
}

/// `POST _hottest/?of=NAME&bytes=N`: the hottest keys that a node is to have from this one.
async fn hottest(request: &RouteRequest<'_>) -> Answer {
    let of = name_of(request)?;
    let max_bytes = request.number("bytes")?.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let keys = run(request, asked(request), NodeRequest::Hottest { of, max_bytes }).await?.keys;
    let mut response = Response::new(ResponseBody::full(HottestKeys { keys }.encode_to_vec()));
    response.headers_mut().insert(header::CONTENT_TYPE, MESSAGE);
    Ok(response)
}

/// `POST _member/?of=NAME&is=serving|leaving|left&hash=HASH`: what a node says about itself. The
/// answer says how this node hashes keys. To `leaving` it comes once the keys of this group are here.
async fn announced(request: &RouteRequest<'_>) -> Answer {
    let of = name_of(request)?;
    let what = target::parameter(request.query, "is").and_then(MemberMove::from_name);
    let what = what.ok_or_else(|| Problem::of(ProblemKind::BadParameter, "`is` must be serving, leaving or left"))?;
    let hash = request.key_parameter("hash").transpose()?.unwrap_or_default();
    let hash = String::from_utf8_lossy(&hash).into_owned();
    let ours = run(request, asked(request), NodeRequest::Announce { of, what, hash }).await?.hash;
    Ok(response_writer::text(StatusCode::OK, &ours))
}

fn name_of(request: &RouteRequest<'_>) -> Result<String, Problem> {
    let name = request.key_parameter("of").transpose()?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&name).into_owned())
}
