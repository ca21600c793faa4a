//! A write that goes through to the origin: one `PUT` or `DELETE` of the key's URL.
use super::{
    address_attempts::{Failure, at_some_address},
    address_choice::AddressChoice,
    answer_meaning::of_write,
    connection_pool::{Connection, ConnectionPool},
    exchange::{throttled, too_late, within_first_byte},
    origin_settings::SharedAddress,
    response_body::{broken_off, read_explanation},
};
use crate::source::source_error::SourceError;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::TrySendError};
use tokio::time::Instant;

/// Stores `value`, or deletes the key; whether the origin had it, as far as its answer tells.
///
/// # Errors
/// See [`of_write`]; `Unavailable` if nothing was sent, `Lost` if no answer came.
pub(super) async fn write(
    origin: &AddressChoice,
    key: &[u8],
    value: Option<Bytes>,
    deadline: Instant,
) -> Result<bool, SourceError> {
    // Without an answer, it may have been sent.
    let no_answer = |address: &SharedAddress, reason| address.lost(reason);
    at_some_address(origin, key, deadline, no_answer, async |pool, target| {
        let request = request(target, pool.address(), value.clone());
        exchange(origin, pool, key, request, deadline).await
    })
    .await
}

fn request(target: &Uri, address: &SharedAddress, value: Option<Bytes>) -> Request<Full<Bytes>> {
    let len = value.as_ref().map(Bytes::len);
    let mut request = Request::new(Full::new(value.unwrap_or_default()));
    *request.method_mut() = if len.is_some() { Method::PUT } else { Method::DELETE };
    *request.uri_mut() = target.clone();
    let headers = request.headers_mut();
    headers.clone_from(&address.headers);
    if let Some(len) = len {
        headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static("application/octet-stream"));
        // hyper leaves it out if the value is empty.
        headers.insert(header::CONTENT_LENGTH, len.into());
    }
    request
}

async fn exchange(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    key: &[u8],
    request: Request<Full<Bytes>>,
    deadline: Instant,
) -> Result<bool, Failure> {
    let address = pool.address();
    let is_delete = request.method() == Method::DELETE;
    let (connection, response) = send(origin, pool, request, deadline).await?;
    let (head, body) = response.into_parts();
    let status = head.status;
    if is_delete && matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        pool.give_back(connection);
        return Ok(false);
    }
    let text = match status.is_success() {
        // The body is of no interest.
        true => String::new(),
        false => read_explanation(body).await,
    };
    pool.give_back(connection);
    of_write(status, &text, address).map_err(|error| throttled(origin, address, key, &head, error))?;
    Ok(is_delete || status != StatusCode::CREATED)
}

/// Sends the request on an idle connection; on a new one if there is none, or if the idle one was closed before anything was sent.
async fn send(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    mut request: Request<Full<Bytes>>,
    deadline: Instant,
) -> Result<(Connection, Response<Incoming>), Failure> {
    let address = pool.address();
    if let Some(mut connection) = pool.take_idle().await {
        request = match sent(origin, pool, connection.try_send_request(request)).await? {
            Ok(response) => return Ok((connection, response)),
            Err(unsent) => unsent,
        };
    }
    let mut connection = origin.connect(pool, deadline).await.map_err(Failure::NotConnected)?;
    match sent(origin, pool, connection.try_send_request(request)).await? {
        Ok(response) => Ok((connection, response)),
        Err(_) => Err(address.unavailable("the connection was closed before anything was sent").into()),
    }
}

/// The response, or the request if nothing of it was sent.
async fn sent(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    response: impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>>>,
) -> Result<Result<Response<Incoming>, Request<Full<Bytes>>>, SourceError> {
    match within_first_byte(origin, response).await {
        Some(Ok(response)) => Ok(Ok(response)),
        Some(Err(mut error)) => match error.take_message() {
            Some(unsent) => Ok(Err(unsent)),
            None => Err(pool.address().lost(broken_off(error.error()))),
        },
        None => Err(pool.address().lost(too_late(origin))),
    }
}
