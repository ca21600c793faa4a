//! One request and its response, on a connection to one of the addresses.
use super::{
    address_attempts::{Failure, at_some_address},
    address_choice::AddressChoice,
    answer_meaning::{Meaning, of_read},
    connection_pool::{Connection, ConnectionPool},
    origin_settings::SharedAddress,
    response_body::{broken_off, read_body},
    response_freshness::ResponseFreshness,
    response_metadata::metadata,
    retry_after::retry_after,
};
use crate::source::{
    copy_metadata::{FreshUntil, Validators},
    fetch_result::FetchAnswer,
    source_error::SourceError,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header, response::Parts};
use http_body_util::Full;
use hyper::body::Incoming;
use larder_engine::Millis;
use larder_store::clock;
use tokio::time::Instant;

/// The answer to a fetch, by its deadline.
///
/// # Errors
/// See [`of_read`]; `Unavailable` also if no answer came, and `Throttled` if the origin asked not to be asked now.
pub(super) async fn answer(
    origin: &AddressChoice,
    key: &[u8],
    validators: Option<Validators>,
    deadline: Instant,
) -> Result<FetchAnswer, SourceError> {
    let read = Read { key, validators };
    let no_answer = |address: &SharedAddress, reason| address.unavailable(reason);
    at_some_address(origin, key, deadline, no_answer, async |pool, target| {
        exchange(origin, pool, &read, target, deadline).await
    })
    .await
}

/// A read of one key.
struct Read<'k> {
    key: &'k [u8],
    /// Of the copy that is held.
    validators: Option<Validators>,
}
impl Read<'_> {
    fn request(&self, target: &Uri, address: &SharedAddress) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = target.clone();
        let headers = request.headers_mut();
        headers.clone_from(&address.headers);
        if let Some(Validators { etag, last_modified }) = &self.validators {
            insert(headers, header::IF_NONE_MATCH, etag.as_deref());
            insert(headers, header::IF_MODIFIED_SINCE, last_modified.as_deref());
        }
        request
    }
    fn is_conditional(&self) -> bool {
        self.validators.as_ref().is_some_and(|with| with.etag.is_some() || with.last_modified.is_some())
    }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: Option<&[u8]>) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value).ok()) {
        headers.insert(name, value);
    }
}

async fn exchange(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    read: &Read<'_>,
    target: &Uri,
    deadline: Instant,
) -> Result<FetchAnswer, Failure> {
    let settings = &origin.settings;
    let address = pool.address();
    let asked = clock::now();
    let (connection, response) = send(origin, pool, || read.request(target, address), deadline).await?;
    let (head, body) = response.into_parts();
    let freshness = ResponseFreshness::of(&head.headers, asked, &settings.url.options.vary);
    let fresh = freshness.fresh;
    let (fresh, metadata) = match metadata(&head.headers, &freshness) {
        Some(metadata) => (fresh, metadata),
        None => (FreshUntil::NotKept, Default::default()),
    };
    let answer = match of_read(&head, read.is_conditional(), address) {
        Ok(Meaning::Value) => {
            let value = read_body(body, settings, address).await?;
            FetchAnswer::Copy { value, fresh, metadata }
        }
        // The body is of no interest. hyper reads what has come of it, and closes the connection if that is not all.
        Ok(Meaning::Absent) => FetchAnswer::Absent { fresh },
        Ok(Meaning::NotModified) => FetchAnswer::NotModified { fresh, metadata },
        Err(error) => {
            pool.give_back(connection);
            return Err(throttled(origin, address, read.key, &head, error).into());
        }
    };
    pool.give_back(connection);
    Ok(answer)
}

/// Honours `Retry-After`: of a 429 for the key, of a 503 for the address.
pub(super) fn throttled(
    origin: &AddressChoice,
    address: &SharedAddress,
    key: &[u8],
    head: &Parts,
    error: SourceError,
) -> SourceError {
    let now = clock::now();
    let asked_for = match head.status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => retry_after(&head.headers, now),
        _ => None,
    };
    let (Some(wait), SourceError::Unavailable(reason)) = (asked_for, &error) else { return error };
    let until = now.saturating_add(wait.as_millis() as Millis);
    match head.status {
        StatusCode::TOO_MANY_REQUESTS => origin.settings.waiting_keys.add(key, until, now),
        _ => address.rest_until(until),
    }
    SourceError::Throttled(reason.clone(), wait)
}

/// Sends the request on an idle connection; on a new one if there is none, or if it turns out that the origin has closed it.
async fn send(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    request: impl Fn() -> Request<Full<Bytes>>,
    deadline: Instant,
) -> Result<(Connection, Response<Incoming>), Failure> {
    let address = pool.address();
    if let Some(mut connection) = pool.take_idle().await {
        match within_first_byte(origin, connection.send_request(request())).await {
            Some(Ok(response)) => return Ok((connection, response)),
            // An answer, though not one of HTTP.
            Some(Err(error)) if error.is_parse() => return Err(address.unavailable(broken_off(&error)).into()),
            Some(Err(error)) if !origin.settings.health.may_retry() => {
                return Err(address.unavailable(broken_off(&error)).into());
            }
            Some(Err(_)) => {}
            None => return Err(address.unavailable(too_late(origin)).into()),
        }
    }
    let mut connection = origin.connect(pool, deadline).await.map_err(Failure::NotConnected)?;
    match within_first_byte(origin, connection.send_request(request())).await {
        Some(Ok(response)) => Ok((connection, response)),
        Some(Err(error)) => Err(address.unavailable(broken_off(&error)).into()),
        None => Err(address.unavailable(too_late(origin)).into()),
    }
}

/// `None` if the head of the response has not come within `source-first-byte-timeout`.
pub(super) async fn within_first_byte<T>(origin: &AddressChoice, response: impl Future<Output = T>) -> Option<T> {
    match origin.settings.url.options.first_byte_timeout {
        Some(limit) => tokio::time::timeout(limit, response).await.ok(),
        None => Some(response.await),
    }
}

/// Why it is not waited for any longer.
pub(super) fn too_late(origin: &AddressChoice) -> String {
    let limit = origin.settings.url.options.first_byte_timeout.unwrap_or_default();
    format!("no answer within {limit:?} (source-first-byte-timeout)")
}
