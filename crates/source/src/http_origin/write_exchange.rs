//! A write that goes through to the origin: one `PUT` or `DELETE` of the key's URL.
use super::{
    address_attempts::{Failure, at_some_address},
    address_choice::AddressChoice,
    answer_meaning::of_write,
    connection_pool::ConnectionPool,
    exchange::throttled,
    origin_settings::SharedAddress,
    request_deadline::RequestDeadline,
    response_body::{discard_body, read_explanation},
    send_request::{Effect, send},
};
use crate::source_error::SourceError;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Full;

/// Stores `value`, or deletes the key; whether the origin had it, as far as its answer tells.
///
/// # Errors
/// See [`of_write`]; `Unavailable` if nothing was sent, `Lost` if no answer came.
pub(super) async fn write(
    origin: &AddressChoice,
    key: &[u8],
    value: Option<Bytes>,
    deadline: RequestDeadline,
) -> Result<bool, SourceError> {
    // Without an answer, it may have been sent.
    let no_answer = |address: &SharedAddress, reason| address.lost(reason);
    at_some_address(origin, key, deadline, no_answer, async |pool, target| {
        exchange(origin, pool, key, target, value.clone(), deadline).await
    })
    .await
}

fn complete(request: &mut Request<Full<Bytes>>, value: Option<Bytes>) {
    *request.method_mut() = if value.is_some() { Method::PUT } else { Method::DELETE };
    let Some(value) = value else { return };
    let headers = request.headers_mut();
    headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static("application/octet-stream"));
    // hyper leaves it out if the value is empty.
    headers.insert(header::CONTENT_LENGTH, value.len().into());
    *request.body_mut() = Full::new(value);
}

async fn exchange(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    key: &[u8],
    target: &Uri,
    value: Option<Bytes>,
    deadline: RequestDeadline,
) -> Result<bool, Failure> {
    let address = pool.address();
    let is_delete = value.is_none();
    let (connection, response) =
        send(origin, pool, target, Effect::Write, deadline, |request| complete(request, value.clone())).await?;
    let (head, body) = response.into_parts();
    let status = head.status;
    if is_delete && matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        discard_body(body, connection.is_http2());
        pool.give_back(connection);
        return Ok(false);
    }
    let text = match status.is_success() {
        true => {
            discard_body(body, connection.is_http2());
            String::new()
        }
        false => read_explanation(body).await,
    };
    pool.give_back(connection);
    of_write(status, &text, address).map_err(|error| throttled(origin, address, key, &head, error))?;
    Ok(is_delete || status != StatusCode::CREATED)
}
