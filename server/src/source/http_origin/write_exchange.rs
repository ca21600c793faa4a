//! A write that goes through to the origin: one `PUT` or `DELETE` of the key's URL.
use super::{
    address_choice::{AddressChoice, Tried},
    answer_meaning::of_write,
    connection_pool::{Connection, ConnectionPool},
    exchange::{Failure, resting, throttled, too_late, within_first_byte},
    request_target::request_target,
    response_body::{broken_off, read_explanation},
};
use crate::source::{fetch_refusals::timeout_reason, source_error::SourceError};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::TrySendError};
use larder_store::clock;
use tokio::time::{Instant, timeout_at};

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
    let settings = &origin.settings;
    let asked = clock::now();
    if let Some(until) = settings.waiting_keys.until(key, asked) {
        return Err(resting(&settings.origin, until, asked));
    }
    let target = request_target(&settings.url, key).map_err(|reason| settings.refused(reason))?;
    let mut tried = Tried::default();
    let mut failed = None;
    loop {
        let Some(pool) = origin.choose(&mut tried, asked) else {
            let resting = || resting(&settings.origin, origin.rest_of_all(asked).unwrap_or(asked), asked);
            return Err(failed.unwrap_or_else(resting));
        };
        let address = pool.address();
        let mut request = Request::new(Full::new(value.clone().unwrap_or_default()));
        *request.method_mut() = if value.is_some() { Method::PUT } else { Method::DELETE };
        *request.uri_mut() = target.clone();
        request.headers_mut().clone_from(&address.headers);
        if let Some(value) = &value {
            let octets = HeaderValue::from_static("application/octet-stream");
            request.headers_mut().entry(header::CONTENT_TYPE).or_insert(octets);
            // hyper leaves it out if the value is empty.
            request.headers_mut().insert(header::CONTENT_LENGTH, value.len().into());
        }
        let _under_way = pool.begin();
        let exchanged = timeout_at(deadline, exchange(origin, pool, key, request, deadline)).await;
        match exchanged {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(Failure::Final(error))) => return Err(error),
            Ok(Err(Failure::NotConnected(error))) => failed = Some(error),
            // It may have been sent.
            Err(_) => return Err(address.lost(timeout_reason(settings.limits.timeout, &settings.limits))),
        }
    }
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
