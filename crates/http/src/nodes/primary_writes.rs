//! Writes that a replica forwards to its primary (`replica-writes = "forward:URL"`).
//!
//! The replica has checked its client, and is the client of the primary: it sends the fields that
//! a write depends on, and its own `password`, that over TLS only. What says who the client is
//! (`Authorization`, `Cookie`, `X-Forwarded-For`) stays here.
use super::owner_requests::WRITE_FIELDS;
use crate::{
    connection::connection_context::ConnectionContext,
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_body::ResponseBody,
    },
    routing::route::Route,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request};
use http_body_util::Full;
use larder_base::{
    identity::DEFAULT_USER,
    outbound::{HttpFailure, HttpServer, Resend},
};
use larder_config::PrimaryHttp;
use larder_ring::replica::{ChangesAt, client_tls};
use std::time::Duration;
use tokio::time::Instant;

/// The field that a forwarded request has. Such a request goes no further.
const FORWARDED: HeaderName = HeaderName::from_static("larder-forwarded");
/// The field of the answer to it, by which the replica tells when it has the write: [`ChangesAt`].
const CHANGES: HeaderName = HeaderName::from_static("larder-changes");
const CONNECTING: Duration = Duration::from_secs(2);
/// From the request to the end of its answer.
const ANSWERING: Duration = Duration::from_secs(5);
/// What an answer holds at most besides a value.
const REST: usize = 1 << 20;
/// Fields of a request by which the logs of both processes are compared.
const TRACE_FIELDS: [HeaderName; 2] = [HeaderName::from_static("traceparent"), HeaderName::from_static("x-request-id")];
/// Fields of an answer that are about one connection (RFC 9110 section 7.6.1), or are written again
/// for the next.
const OF_ONE_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Whether a write that this replica does not take goes to the primary.
pub(crate) fn forwards(context: &ConnectionContext, route: &Route, headers: &HeaderMap) -> bool {
    let (settings, replication) = (&context.worker.app.settings.replication, &context.worker.app.replication);
    settings.writes.primary_http().is_some()
        // Nodes write at each other, with a secret of their own.
        && !route.is_between_nodes()
        && !headers.contains_key(FORWARDED)
        // The address is that of the primary in the settings: another one was named since.
        && replication.primary() == settings.replica_of
}

/// The changes so far, for the answer to a forwarded request.
pub(crate) fn add_changes(context: &ConnectionContext, headers: &mut HeaderMap) {
    if let Ok(place) = HeaderValue::from_str(&context.worker.app.replication.place().to_string()) {
        headers.insert(CHANGES, place);
    }
}

pub(crate) fn is_forwarded(method: &Method, headers: &HeaderMap) -> bool {
    *method != Method::GET && headers.contains_key(FORWARDED)
}

/// Has the primary answer a request. Its answer comes once its write is here, or after a second.
///
/// # Errors
/// The primary does not answer.
pub(crate) async fn forward(context: &ConnectionContext, head: &request::Parts, body: Bytes) -> Answer {
    let app = &context.worker.app;
    let address = app.settings.replication.writes.primary_http();
    let address = address.ok_or_else(|| not_sent("no address", "replica-writes names none"))?;
    let shown = address.to_string();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut request = Request::builder().method(&head.method).uri(target);
    if let Some(headers) = request.headers_mut() {
        insert_fields(&head.headers, headers);
        let host =
            HeaderValue::from_str(&address.0.authority()).map_err(|error| not_sent(&shown, &error.to_string()))?;
        headers.insert(header::HOST, host);
        headers.extend(login(context, address).map(|login| (header::AUTHORIZATION, login)));
    }
    let request = request.body(Full::new(body)).map_err(|error| not_sent(&shown, &error.to_string()))?;
    let server = HttpServer {
        host: &address.0.host,
        port: address.0.port,
        tls: &|| client_tls(&address.0, &[&b"http/1.1"[..]]),
        connect_timeout: CONNECTING,
        deadline: Instant::now() + ANSWERING,
        largest: app.settings.max_value.saturating_add(REST),
        buffers: &app.buffers,
    };
    let answer = context.http.primary.exchange(&server, || request.clone(), Resend::IfUnsent).await;
    let (answered, body) = answer.map_err(|failure| failed(&shown, &failure))?.into_parts();
    if answered.status == StatusCode::UNAUTHORIZED {
        return Err(not_sent(&shown, refused_login(context, address)));
    }
    let place = answered.headers.get(CHANGES).and_then(|place| place.to_str().ok());
    if let Some(place) = place.and_then(|place| place.parse::<ChangesAt>().ok()) {
        context.worker.forwarder.wait_for(place).await;
    }
    let mut response = Response::new(ResponseBody::full(body));
    *response.status_mut() = answered.status;
    copy(&answered.headers, response.headers_mut());
    response.headers_mut().remove(CHANGES);
    Ok(response)
}

/// The fields of a client's request that the primary gets.
fn insert_fields(sent: &HeaderMap, headers: &mut HeaderMap) {
    for name in WRITE_FIELDS.iter().chain(&TRACE_FIELDS) {
        for value in sent.get_all(name) {
            headers.append(name, value.clone());
        }
    }
    headers.insert(FORWARDED, HeaderValue::from_static("1"));
}

/// How this replica logs in at the primary: with its own `password`, over TLS only.
fn login(context: &ConnectionContext, primary: &PrimaryHttp) -> Option<HeaderValue> {
    let password = context.worker.app.settings.password.as_deref().filter(|_| primary.0.tls.is_some())?;
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("{DEFAULT_USER}:{password}")));
    let mut value = HeaderValue::try_from(basic).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn refused_login(context: &ConnectionContext, primary: &PrimaryHttp) -> &'static str {
    match (context.worker.app.settings.password.is_some(), primary.0.tls.is_some()) {
        (true, true) => "it refuses the password of this replica (setting `password`)",
        (true, false) => {
            "it asks for a password, which this replica sends over TLS only: write replica-writes as forward:https://host:port?ca=FILE"
        }
        (false, _) => "it asks for a password, and this replica has none (setting `password`)",
    }
}

/// Copies the fields of an answer that are not about one connection.
fn copy(from: &HeaderMap, to: &mut HeaderMap) {
    let named: Vec<&str> = from.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok()).collect();
    let is_named = |name: &HeaderName| {
        named.iter().flat_map(|names| names.split(',')).any(|other| other.trim().eq_ignore_ascii_case(name.as_str()))
    };
    for (name, value) in from {
        if !OF_ONE_CONNECTION.contains(name) && !is_named(name) {
            to.append(name, value.clone());
        }
    }
}

fn failed(address: &str, failure: &HttpFailure) -> Problem {
    match failure {
        HttpFailure::NotConnected(_) => not_sent(address, &failure.to_string()),
        _ => unavailable(address, &failure.to_string(), "the write may have been made"),
    }
}

fn not_sent(address: &str, why: &str) -> Problem {
    unavailable(address, why, "nothing was written")
}

fn unavailable(address: &str, why: &str, outcome: &str) -> Problem {
    Problem::of(ProblemKind::PrimaryUnavailable, format!("the primary at {address}: {why}; {outcome}"))
}
