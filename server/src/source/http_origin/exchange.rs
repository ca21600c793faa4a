//! One request and its response, on a connection to one of the addresses.
use super::{
    address_attempts::{Failure, at_some_address},
    address_choice::AddressChoice,
    answer_meaning::{Meaning, of_read},
    connection_pool::ConnectionPool,
    origin_settings::SharedAddress,
    response_body::{discard_body, read_body},
    response_freshness::ResponseFreshness,
    response_metadata::metadata,
    retry_after::retry_after,
    send_request::{Effect, send},
};
use crate::source::{
    copy_metadata::{FreshUntil, Validators},
    fetch_result::FetchAnswer,
    source_error::SourceError,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, header, response::Parts};
use http_body_util::Full;
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
    fn complete(&self, request: &mut Request<Full<Bytes>>) {
        if let Some(Validators { etag, last_modified }) = &self.validators {
            insert(request.headers_mut(), header::IF_NONE_MATCH, etag.as_deref());
            insert(request.headers_mut(), header::IF_MODIFIED_SINCE, last_modified.as_deref());
        }
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
    let (connection, response) =
        send(origin, pool, target, Effect::Read, deadline, |request| read.complete(request)).await?;
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
        Ok(Meaning::Absent) => {
            discard_body(body, connection.is_http2());
            FetchAnswer::Absent { fresh }
        }
        Ok(Meaning::NotModified) => FetchAnswer::NotModified { fresh, metadata },
        Err(error) => {
            discard_body(body, connection.is_http2());
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
