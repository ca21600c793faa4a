//! One request and its response, on a connection to one of the addresses.
use super::{
    address_choice::{AddressChoice, Tried},
    answer_meaning::has_value,
    connection_pool::{Connection, ConnectionPool},
    origin_settings::SharedAddress,
    request_target::request_target,
    response_body::{broken_off, read_body},
    response_freshness::ResponseFreshness,
    retry_after::retry_after,
};
use crate::source::{fetch_refusals::timeout_reason, fetch_result::FetchedValue, source_error::SourceError};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header, response::Parts};
use http_body_util::Empty;
use hyper::body::Incoming;
use larder_engine::Millis;
use larder_store::clock;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("larder/", env!("CARGO_PKG_VERSION")));

/// The answer to a fetch, by its deadline.
///
/// # Errors
/// See [`has_value`]; `Unavailable` also if no answer came, and `Throttled` if the origin asked not to be asked now.
pub(super) async fn answer(
    origin: &AddressChoice,
    key: &[u8],
    deadline: Instant,
) -> Result<Option<FetchedValue>, SourceError> {
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
        let exchange = exchange(origin, pool, key, &target, deadline);
        let exchanged = timeout_at(deadline, exchange).await.unwrap_or_else(|_| {
            let reason = timeout_reason(settings.limits.timeout, &settings.limits);
            Err(Failure::Final(pool.address().unavailable(reason)))
        });
        match exchanged {
            Ok(answer) => return Ok(answer),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::NotConnected(error)) => failed = Some(error),
        }
    }
}

/// Why a request got no answer.
enum Failure {
    /// Nothing was sent: another address may answer.
    NotConnected(SourceError),
    /// The answer, or what stands for it.
    Final(SourceError),
}
impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Failure {
        Failure::Final(error)
    }
}

async fn exchange(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    key: &[u8],
    target: &Uri,
    deadline: Instant,
) -> Result<Option<FetchedValue>, Failure> {
    let settings = &origin.settings;
    let address = pool.address();
    let _under_way = pool.begin();
    let asked = clock::now();
    let (connection, response) = send(origin, pool, target, deadline).await?;
    let (head, body) = response.into_parts();
    let value = match has_value(&head, address) {
        Ok(true) => Some(read_body(body, settings, address).await?),
        // The body is of no interest. hyper reads what has come of it, and closes the connection if that is not all.
        Ok(false) => None,
        Err(error) => {
            pool.give_back(connection);
            return Err(throttled(origin, address, key, &head, error).into());
        }
    };
    pool.give_back(connection);
    Ok(value.map(|value| {
        let expiry = match ResponseFreshness::of(&head.headers, asked) {
            ResponseFreshness::Unstated => None,
            ResponseFreshness::NotKept => Some(asked),
            ResponseFreshness::Until(at) => Some(at),
        };
        FetchedValue { value, expiry }
    }))
}

/// Honours `Retry-After`: of a 429 for the key, of a 503 for the address.
fn throttled(
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

/// The error of a request that is not sent because the origin asked for a rest.
fn resting(origin: &str, until: Millis, now: Millis) -> SourceError {
    let wait = Duration::from_millis(until.saturating_sub(now));
    SourceError::Throttled(format!("{origin}: asked not to be asked again for {wait:?} (Retry-After)").into(), wait)
}

/// Sends the request on an idle connection; on a new one if there is none, or if it turns out that the origin has closed it.
async fn send(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    target: &Uri,
    deadline: Instant,
) -> Result<(Connection, Response<Incoming>), Failure> {
    let address = pool.address();
    let request = || {
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = target.clone();
        let headers = request.headers_mut();
        headers.insert(header::HOST, address.authority.clone());
        headers.insert(header::USER_AGENT, USER_AGENT);
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        request
    };
    if let Some(mut connection) = pool.take_idle().await {
        match within_first_byte(origin, connection.send_request(request())).await {
            Some(Ok(response)) => return Ok((connection, response)),
            // An answer, though not one of HTTP.
            Some(Err(error)) if error.is_parse() => return Err(address.unavailable(broken_off(&error)).into()),
            Some(Err(error)) if !origin.settings.health.may_retry() => {
                return Err(address.unavailable(broken_off(&error)).into());
            }
            Some(Err(_)) => {}
            None => return Err(too_late(origin, address)),
        }
    }
    let mut connection = origin.connect(pool, deadline).await.map_err(Failure::NotConnected)?;
    match within_first_byte(origin, connection.send_request(request())).await {
        Some(Ok(response)) => Ok((connection, response)),
        Some(Err(error)) => Err(address.unavailable(broken_off(&error)).into()),
        None => Err(too_late(origin, address)),
    }
}

/// `None` if the head of the response has not come within `source-first-byte-timeout`.
async fn within_first_byte<T>(origin: &AddressChoice, response: impl Future<Output = T>) -> Option<T> {
    match origin.settings.url.options.first_byte_timeout {
        Some(limit) => tokio::time::timeout(limit, response).await.ok(),
        None => Some(response.await),
    }
}

fn too_late(origin: &AddressChoice, address: &SharedAddress) -> Failure {
    let limit = origin.settings.url.options.first_byte_timeout.unwrap_or_default();
    address.unavailable(format_args!("no answer within {limit:?} (source-first-byte-timeout)")).into()
}
