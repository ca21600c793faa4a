//! One request and its response, on a connection to one of the addresses.
use super::{
    address_attempts::{Failure, at_some_address},
    address_choice::AddressChoice,
    answer_meaning::{Meaning, codings, of_read},
    connection_pool::ConnectionPool,
    fast_exchange::{Exchanged, fast_exchange},
    not_modified::{add_held, names_other_value},
    origin_connection::Connection,
    origin_settings::SharedAddress,
    request_deadline::RequestDeadline,
    response_body::{discard_body, read_body},
    response_freshness::ResponseFreshness,
    response_metadata::metadata,
    retry_after::retry_after,
    send_request::{Effect, send},
};
use crate::{
    copy_metadata::{CopyMetadata, FreshUntil, Validators},
    fetch_refusals::encoded,
    fetch_result::FetchAnswer,
    request_trace::RequestTrace,
    source_error::SourceError,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, header, response::Parts};
use http_body_util::Full;
use hyper::body::Incoming;
use larder_base::buffers::{BufferKind, GrowingBuffer};
use larder_engine::Millis;
use larder_store::clock;
use std::sync::Arc;

/// W3C's name of what ties a request to the one that it is made for.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The answer to a fetch, by its deadline.
///
/// # Errors
/// See [`of_read`]; `Unavailable` also if no answer came, and `Throttled` if the origin asked not
/// to be asked now.
pub(super) async fn answer(
    origin: &AddressChoice,
    key: &[u8],
    validators: Option<Validators>,
    trace: Option<Arc<RequestTrace>>,
    deadline: RequestDeadline,
) -> Result<FetchAnswer, SourceError> {
    let mut read = Read { key, validators, trace };
    let no_answer = |address: &SharedAddress, reason| address.unavailable(reason);
    loop {
        let answer = at_some_address(origin, key, deadline, no_answer, async |pool, target| {
            exchange(origin, pool, &read, target, deadline).await
        });
        match answer.await? {
            Some(answer) => return Ok(answer),
            // Without validators there is no such answer.
            None => read.validators = None,
        }
    }
}

pub(super) struct Read<'k> {
    pub(super) key: &'k [u8],
    /// Of the copy that is held.
    pub(super) validators: Option<Validators>,
    pub(super) trace: Option<Arc<RequestTrace>>,
}
impl Read<'_> {
    pub(super) fn complete(&self, request: &mut Request<Full<Bytes>>) {
        if let Some(Validators { etag, last_modified, .. }) = &self.validators {
            insert(request.headers_mut(), header::IF_NONE_MATCH, etag.as_deref());
            insert(request.headers_mut(), header::IF_MODIFIED_SINCE, last_modified.as_deref());
        }
        insert(request.headers_mut(), TRACEPARENT, self.traceparent());
    }
    /// The request as it is sent over HTTP/1.1.
    pub(super) fn encoded(&self, target: &Uri, address: &SharedAddress) -> Vec<u8> {
        let target = target.path_and_query().map_or("/", |target| target.as_str());
        let fixed = &address.encoded_headers;
        let mut request = Vec::with_capacity(target.len() + fixed.len() + 128);
        for part in [b"GET ", target.as_bytes(), b" HTTP/1.1\r\n", fixed] {
            request.extend_from_slice(part);
        }
        if let Some(Validators { etag, last_modified, .. }) = &self.validators {
            encode(&mut request, &header::IF_NONE_MATCH, etag.as_deref());
            encode(&mut request, &header::IF_MODIFIED_SINCE, last_modified.as_deref());
        }
        encode(&mut request, &TRACEPARENT, self.traceparent());
        request.extend_from_slice(b"\r\n");
        request
    }
    fn traceparent(&self) -> Option<&[u8]> {
        self.trace.as_ref()?.traceparent.as_ref().map(|text| text.as_bytes())
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

fn encode(request: &mut Vec<u8>, name: &HeaderName, value: Option<&[u8]>) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value).ok()) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            request.extend_from_slice(part);
        }
    }
}

/// A response of which the head is read.
pub(super) struct Answered {
    pub(super) connection: Connection,
    /// The body that is the value; `None` if it means something else.
    pub(super) value: Option<Incoming>,
    /// Of the value, if it is encoded.
    pub(super) codings: Option<Box<[u8]>>,
    pub(super) fresh: FreshUntil,
    pub(super) metadata: CopyMetadata,
}

/// Sends the read to an address and reads the head of its response.
pub(super) async fn read_head(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    read: &Read<'_>,
    target: &Uri,
    deadline: RequestDeadline,
) -> Result<Answered, Failure> {
    let asked = clock::now();
    let (connection, response) =
        send(origin, pool, target, Effect::Read, deadline, |request| read.complete(request)).await?;
    let (head, body) = response.into_parts();
    let meaning = of_read(&head, read.is_conditional(), pool.address());
    let value = match meaning {
        Ok(Meaning::Value) => Some(body),
        _ => {
            discard_body(body, connection.is_http2());
            None
        }
    };
    match meaning {
        Ok(_) => {
            let freshness = ResponseFreshness::of(&head.headers, asked, &origin.settings.url.options.vary);
            let (fresh, metadata) = match metadata(&head.headers, &freshness) {
                Some(metadata) => (freshness.fresh, metadata),
                None => (FreshUntil::NotKept, CopyMetadata::default()),
            };
            Ok(Answered { connection, value, codings: codings(&head.headers), fresh, metadata })
        }
        Err(error) => {
            pool.give_back(connection);
            Err(throttled(origin, pool.address(), read.key, &head, error).into())
        }
    }
}

/// `None`: a 304 that is about another value than the copy that is held.
async fn exchange(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    read: &Read<'_>,
    target: &Uri,
    deadline: RequestDeadline,
) -> Result<Option<FetchAnswer>, Failure> {
    let settings = &origin.settings;
    let address = pool.address();
    let asked = clock::now();
    let exchanged = match address.tls {
        None => fast_exchange(origin, pool, read, target, deadline).await?,
        Some(_) => {
            let sent = send(origin, pool, target, Effect::Read, deadline, |request| read.complete(request));
            let (connection, response) = Box::pin(sent).await?;
            Exchanged::Head(connection, response)
        }
    };
    let (mut head, body) = match exchanged {
        Exchanged::Whole(head, body) => (head, ResponseBody::Whole(body)),
        Exchanged::Head(connection, response) => {
            let (head, body) = response.into_parts();
            (head, ResponseBody::Coming(connection, body))
        }
    };
    let mut meaning = of_read(&head, read.is_conditional(), address);
    // Most readers of a key learn nothing of an encoding: they would take the bytes for the value.
    if let (Ok(Meaning::Value), Some(codings)) = (&meaning, codings(&head.headers)) {
        meaning = Err(encoded(&codings));
    }
    let mut is_of_held = true;
    if let (Ok(Meaning::NotModified), Some(held)) = (&meaning, &read.validators) {
        is_of_held = !names_other_value(&head.headers, held);
        add_held(&mut head.headers, held);
    }
    let freshness = ResponseFreshness::of(&head.headers, asked, &settings.url.options.vary);
    let (fresh, metadata) = match metadata(&head.headers, &freshness) {
        Some(metadata) => (freshness.fresh, metadata),
        None => (FreshUntil::NotKept, Default::default()),
    };
    let value = match body {
        ResponseBody::Whole(body) => settings.buffers.count(BufferKind::Fetched, GrowingBuffer::Heap(body)),
        ResponseBody::Coming(connection, body) => {
            let value = match &meaning {
                Ok(Meaning::Value) => Box::pin(read_body(body, settings, address)).await?,
                Ok(Meaning::NotModified) => Bytes::new(),
                Ok(Meaning::Absent) | Err(_) => {
                    discard_body(body, connection.is_http2());
                    Bytes::new()
                }
            };
            pool.give_back(connection);
            value
        }
    };
    match meaning {
        Ok(Meaning::Value) => Ok(Some(FetchAnswer::Copy { value, fresh, metadata })),
        Ok(Meaning::Absent) => Ok(Some(FetchAnswer::Absent { fresh })),
        Ok(Meaning::NotModified) => Ok(is_of_held.then_some(FetchAnswer::NotModified { fresh, metadata })),
        Err(error) => Err(throttled(origin, address, read.key, &head, error).into()),
    }
}

/// The body of a response whose head is here.
enum ResponseBody {
    Whole(Vec<u8>),
    Coming(Connection, Incoming),
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
