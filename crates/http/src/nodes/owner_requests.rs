//! Writes of keys that another node owns, where the nodes' memory tiers are one store: sent to the
//! owner, and run as such. Decision 0051.
use crate::{
    compat::read_routes::MESSAGE,
    keys::{
        document_routes,
        key_routes::{self, PutRequest},
    },
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        request_body::UnreadBody,
        response_body::ResponseBody,
    },
    routing::route_request::{GroupRequest, RouteRequest, not_empty},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use larder_redis::{NodeRefusal, run_for_node};
use larder_ring::peer::{HeaderField, HttpWrite, OwnerAnswer, OwnerRequest};
use prost::Message;
use std::rc::Rc;

/// The fields that a write depends on.
pub(crate) const WRITE_FIELDS: [HeaderName; 5] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::CONTENT_TYPE,
    HeaderName::from_static("cache-tag"),
    HeaderName::from_static("surrogate-key"),
];

/// `PUT` of a key: made where its owner is.
pub(crate) async fn put(request: &RouteRequest<'_>, body: UnreadBody<'_>) -> Answer {
    let put = PutRequest::parse(request)?;
    let value = body.read().await?;
    // The role may have changed while the body came.
    request.check_role()?;
    match at_owner(request, "PUT", &value).await? {
        Some(response) => Ok(response),
        None => put.run(request, value).await,
    }
}

/// `PATCH` of a key: made where its owner is.
pub(crate) async fn patch(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    match at_owner(request, "PATCH", &body).await? {
        Some(response) => Ok(response),
        None => document_routes::patch(request, body).await,
    }
}

/// `DELETE` of a key: made where its owner is.
pub(crate) async fn delete(request: &RouteRequest<'_>) -> Answer {
    match at_owner(request, "DELETE", &Bytes::new()).await? {
        Some(response) => Ok(response),
        None => key_routes::delete(request).await,
    }
}

pub(crate) async fn delete_data(request: &RouteRequest<'_>) -> Answer {
    not_empty(request.key()?)?;
    delete(request).await
}

/// The response of the key's owner. `None`: that is this node, or one that knows no such requests,
/// or the group has a source.
async fn at_owner(
    request: &RouteRequest<'_>,
    method: &str,
    body: &Bytes,
) -> Result<Option<Response<ResponseBody>>, Problem> {
    let Some(peers) = request.group.peers.as_ref().filter(|peers| peers.is_store()) else { return Ok(None) };
    let owner = peers.owner(&request.key()?);
    if owner.is_self {
        return Ok(None);
    }
    let sent = |name: &HeaderName| {
        let values = request.headers.get_all(name).into_iter();
        let name = name.as_str().to_owned();
        values.map(move |value| HeaderField { name: name.clone(), value: Bytes::copy_from_slice(value.as_bytes()) })
    };
    let write = HttpWrite {
        method: method.to_string(),
        key: Bytes::copy_from_slice(request.key),
        query: Bytes::copy_from_slice(request.query),
        fields: WRITE_FIELDS.iter().flat_map(sent).collect(),
        body: body.clone(),
    };
    let sent = OwnerRequest { write: Some(write), ..OwnerRequest::default() };
    match peers.at_owner(&owner, sent).await.map_err(|error| Problem::source(&error))? {
        Some(answer) => Ok(Some(response(answer))),
        None if PutRequest::is_plain(request) => Ok(None),
        None => Err(Problem::of(
            ProblemKind::BadParameter,
            format!("the key's owner, peer {}, is not a Larder: it takes values alone, and a `ttl`", owner.name),
        )),
    }
}

fn response(answer: OwnerAnswer) -> Response<ResponseBody> {
    let body = if answer.body.is_empty() { ResponseBody::empty() } else { ResponseBody::full(answer.body) };
    let mut response = Response::new(body);
    let status = u16::try_from(answer.status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    *response.status_mut() = status.unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = headers(&answer.fields);
    response
}

/// Fields that cannot be are left out.
fn headers(fields: &[HeaderField]) -> HeaderMap {
    let parsed = fields.iter().filter_map(|field| {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_maybe_shared(field.value.clone()).ok()?))
    });
    let mut headers = HeaderMap::new();
    for (name, value) in parsed {
        headers.append(name, value);
    }
    headers
}

/// `POST` to `_at-owner/`: runs what another node sends for keys of this one.
pub(crate) async fn run(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    let sent = OwnerRequest::decode(body)
        .map_err(|error| Problem::of(ProblemKind::BadBody, format!("the body is not an OwnerRequest: {error}")))?;
    let answer = match (sent.commands, sent.write) {
        (Some(commands), None) => run_commands(request, &commands, sent.is_transaction, sent.resp3).await?,
        (None, Some(write)) => run_write(request, write).await?,
        _ => return Err(Problem::of(ProblemKind::BadBody, "an OwnerRequest has either commands or a write")),
    };
    let mut response = Response::new(ResponseBody::full(answer.encode_to_vec()));
    response.headers_mut().insert(header::CONTENT_TYPE, MESSAGE);
    Ok(response)
}

async fn run_commands(
    request: &RouteRequest<'_>,
    commands: &[u8],
    is_transaction: bool,
    resp3: bool,
) -> Result<OwnerAnswer, Problem> {
    if !request.group.is_default() {
        return Err(Problem::of(ProblemKind::NoSuchGroup, "Redis commands concern the group `default` alone"));
    }
    Ok(match run_for_node(request.worker, commands, is_transaction, resp3).await {
        Ok(body) => OwnerAnswer { status: 200, body, ..OwnerAnswer::default() },
        Err(NodeRefusal::NotTheOwner) => not_the_owner(),
        Err(NodeRefusal::Malformed(reason)) => {
            OwnerAnswer { status: 200, body: format!("-ERR {reason}\r\n").into(), ..OwnerAnswer::default() }
        }
    })
}

fn not_the_owner() -> OwnerAnswer {
    OwnerAnswer { status: OwnerAnswer::NOT_THE_OWNER, ..OwnerAnswer::default() }
}

async fn run_write(request: &RouteRequest<'_>, write: HttpWrite) -> Result<OwnerAnswer, Problem> {
    let headers = headers(&write.fields);
    // The rules of the user were applied where it is connected.
    let asked = GroupRequest {
        worker: request.worker,
        group: request.group,
        query: &write.query,
        now: request.now,
        user: Rc::default(),
        trace: None,
    };
    let inner = RouteRequest { asked, context: request.context, key: &write.key, headers: &headers };
    let key = inner.key()?;
    if !request.group.peers.as_ref().is_some_and(|peers| peers.is_store() && peers.serves(&key)) {
        return Ok(not_the_owner());
    }
    let mut response = answer(&inner, &write.method, write.body).await.unwrap_or_else(Problem::into_response);
    let fields = response.headers().iter().map(|(name, value)| HeaderField {
        name: name.as_str().to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    });
    let (status, fields) = (response.status().as_u16().into(), fields.collect());
    let mut body = Vec::new();
    while let Some(part) = response.body_mut().next() {
        body.extend_from_slice(&part);
    }
    Ok(OwnerAnswer { status, fields, body: body.into() })
}

async fn answer(request: &RouteRequest<'_>, method: &str, body: Bytes) -> Answer {
    let max = request.worker.app.settings.max_value;
    if body.len() > max {
        return Err(Problem::over(ProblemKind::ValueTooLarge, "the body", "max-value", max));
    }
    match method {
        "PUT" => PutRequest::parse(request)?.run(request, body).await,
        "PATCH" => document_routes::patch(request, body).await,
        "DELETE" => key_routes::delete(request).await,
        _ => Err(Problem::of(ProblemKind::MethodNotAllowed, format!("{method} is not run for another node"))),
    }
}
