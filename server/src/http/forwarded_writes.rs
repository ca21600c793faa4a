//! Writes that a replica forwards to its primary (`replica-writes = "forward"`, `primary-http`).
use super::{
    connection_context::ConnectionContext,
    problem_json::{Problem, ProblemKind},
    response_body::ResponseBody,
};
use crate::{config::ReplicaWrites, replica::ChangesAt};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header, request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::{net::TcpStream, time::timeout};

/// The field that a forwarded request has. Such a request goes no further.
const FORWARDED: HeaderName = HeaderName::from_static("larder-forwarded");
/// The field of the answer to it, by which the replica tells when it has the write: [`ChangesAt`].
const CHANGES: HeaderName = HeaderName::from_static("larder-changes");
/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(2);
/// How long the primary may take to answer.
const ANSWERING: Duration = Duration::from_secs(5);
/// What an answer holds at most besides a value.
const REST: usize = 1 << 20;
/// Fields that are about one connection (RFC 9110 section 7.6.1), or are written again for the
/// next.
const OF_ONE_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::EXPECT,
    header::HOST,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Whether a write that this replica does not take goes to the primary.
pub(super) fn forwards(context: &ConnectionContext, headers: &HeaderMap) -> bool {
    let (settings, replication) = (&context.worker.app.settings.replication, &context.worker.app.replication);
    settings.writes == ReplicaWrites::Forward
        && settings.primary_http.is_some()
        && !headers.contains_key(FORWARDED)
        // The address is that of the primary in the settings: another one was named since.
        && replication.primary() == settings.replica_of
}

/// The changes so far, for the answer to a forwarded request.
pub(super) fn add_changes(context: &ConnectionContext, headers: &mut HeaderMap) {
    if let Ok(place) = HeaderValue::from_str(&context.worker.app.replication.place().to_string()) {
        headers.insert(CHANGES, place);
    }
}

/// Whether a replica forwarded this request.
pub(super) fn is_forwarded(method: &Method, headers: &HeaderMap) -> bool {
    *method != Method::GET && headers.contains_key(FORWARDED)
}

/// Has the primary answer a request. Its answer comes once its write is here, or after a second.
///
/// # Errors
/// The primary does not answer.
pub(super) async fn forward(
    context: &ConnectionContext,
    head: &request::Parts,
    body: Bytes,
) -> Result<Response<ResponseBody>, Problem> {
    let app = &context.worker.app;
    let address = app.settings.replication.primary_http.as_ref();
    let address = address.ok_or_else(|| not_sent("no address", "primary-http is not set"))?;
    let shown = address.to_string();
    let connections = &context.http.primary;
    let mut connection = match connections.take() {
        Some(connection) => connection,
        None => {
            let connect = async {
                let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
                stream.set_nodelay(true)?;
                handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)
            };
            let (sender, connection) = match timeout(CONNECTING, connect).await {
                Ok(connected) => connected.map_err(|error| not_sent(&shown, &error.to_string()))?,
                Err(_) => return Err(not_sent(&shown, "no connection in time")),
            };
            tokio::task::spawn_local(async move {
                // The request that is under way gets the error, too.
                let _ = connection.await;
            });
            sender
        }
    };
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut request = Request::builder().method(&head.method).uri(target).header(header::HOST, &shown);
    if let Some(headers) = request.headers_mut() {
        copy(&head.headers, headers);
        headers.insert(FORWARDED, HeaderValue::from_static("1"));
    }
    let request = request.body(Full::new(body)).map_err(|error| not_sent(&shown, &error.to_string()))?;
    let limit = app.settings.max_value.saturating_add(REST);
    let answer = async {
        let response = connection.send_request(request).await.map_err(|error| error.to_string())?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, limit).collect().await.map_err(|error| error.to_string())?;
        Ok::<_, String>((head, body.to_bytes()))
    };
    let (answered, body) = match timeout(ANSWERING, answer).await {
        Ok(answered) => answered.map_err(|error| unanswered(&shown, &error))?,
        Err(_) => return Err(unanswered(&shown, "it did not answer in time")),
    };
    connections.put(connection);
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

/// Copies the fields that are not about one connection.
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

fn not_sent(address: &str, why: &str) -> Problem {
    Problem::of(ProblemKind::PrimaryUnavailable, format!("the primary at {address}: {why}; nothing was written"))
}

fn unanswered(address: &str, why: &str) -> Problem {
    Problem::of(
        ProblemKind::PrimaryUnavailable,
        format!("the primary at {address}: {why}; the write may have been made"),
    )
}
