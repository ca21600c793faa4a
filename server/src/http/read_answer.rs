//! What reading one key answers, for the four routes that do: `/v1/kv/{key}`, `/lookup?key=`, `/?key=` and `/v0/entity?id=`.
//!
//! What the tier holds is worded twice, once as bytes straight into the output ([`Reading::write_held`], the fast path) and once as a
//! response for hyper ([`Reading::found`]); the names, order and values of the headers are the same, and hyper adds
//! `content-length` and `date` at the end as [`end_head`] does. Everything else is a response on both paths.
use super::{
    problem::{self, Kind, Problem},
    response_body::{Body, Writer},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use larder_engine::{Entry, Millis, Value};
use larder_proto::{
    http::{
        etag, json,
        text::{Date, Sink},
    },
    output::Output,
};
use larder_units::show_duration;
use std::time::Duration;

/// A route that reads one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// `/v1/kv/{key}`: bytes, with everything a cache wants to know.
    Kv,
    /// `/lookup?key=`: JSON.
    Lookup,
    /// `/?key=`: text.
    Text,
    /// `/v0/entity?id=`: bytes.
    Entity,
}

/// What is said about an entry besides its value. Times are in whole seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    /// The entry's version.
    pub(super) version: u64,
    /// Since it was stored.
    age: u64,
    /// Until it expires; `None`: it does not.
    left: Option<u64>,
    /// It was fetched for this request.
    fetched: bool,
}
impl About {
    /// An entry that was found.
    pub(super) fn hit(entry: &Entry<'_>, now: Millis) -> About {
        About {
            version: entry.version(),
            age: now.saturating_sub(entry.stored()) / 1000,
            left: entry.expiry().map(|at| at.saturating_sub(now) / 1000),
            fetched: false,
        }
    }

    /// An entry that had to be fetched first.
    pub(super) fn fetched(entry: &Entry<'_>, now: Millis) -> About {
        About { fetched: true, ..About::hit(entry, now) }
    }

    fn status(self) -> &'static [u8] {
        if self.fetched { FETCHED } else { HIT }
    }

    /// Adds the headers, as a 200 and a 304 carry them.
    pub(super) fn insert_into(self, headers: &mut HeaderMap, instance: u64) {
        headers.insert(header::ETAG, tag(self.version, instance));
        headers.insert(header::AGE, self.age.into());
        let mut status = Vec::with_capacity(48);
        status.put(self.status());
        if let Some(left) = self.left {
            let mut max_age = Vec::with_capacity(28);
            max_age.put(b"max-age=");
            max_age.put_number(left);
            headers.insert(header::CACHE_CONTROL, ascii(max_age));
            status.put(b"; ttl=");
            status.put_number(left);
        }
        headers.insert(CACHE_STATUS, ascii(status));
    }
}

/// The entity tag of a version. Versions begin anew with each process, so its instance number is mixed in: a tag of another
/// life of this server, or of another server, does not match.
pub(super) fn tag(version: u64, instance: u64) -> HeaderValue {
    let mut text = Vec::with_capacity(18);
    etag::write(&mut text, version ^ instance);
    ascii(text)
}

/// RFC 9211.
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const HIT: &[u8] = b"larder; hit";
const FETCHED: &[u8] = b"larder; fwd=miss; stored";
const NOT_STORED: HeaderValue = HeaderValue::from_static("larder; fwd=miss");

fn ascii(text: Vec<u8>) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(text)).expect("made of visible ASCII")
}

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

impl Reading {
    /// The parameter that has the key; [`Kv`](Reading::Kv) has it in the path.
    pub(super) fn parameter(self) -> &'static str {
        match self {
            Reading::Entity => "id",
            Reading::Kv | Reading::Lookup | Reading::Text => "key",
        }
    }

    /// Writes a whole response for what the tier holds, from inside the engine's lookup. Gives the value back if it is so large that it
    /// must not be encoded under the shard's lock; nothing is written then.
    #[inline]
    pub(super) fn write_held(
        self,
        out: &mut Output,
        entry: &Entry<'_>,
        about: About,
        instance: u64,
        date: &[u8; Date::LEN],
    ) -> Option<Bytes> {
        let value = entry.value.as_bytes();
        match self {
            Reading::Kv => {
                out.reserve(ROOM + value.len());
                out.put(b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\netag: ");
                etag::write(out, about.version ^ instance);
                out.put(b"\r\nage: ");
                out.put_number(about.age);
                let mut left = itoa::Buffer::new();
                let left = about.left.map(|seconds| left.format(seconds).as_bytes());
                if let Some(left) = left {
                    out.put(b"\r\ncache-control: max-age=");
                    out.put(left);
                }
                out.put(b"\r\ncache-status: ");
                out.put(about.status());
                if let Some(left) = left {
                    out.put(b"; ttl=");
                    out.put(left);
                }
                end_head(out, value.len(), date);
                put_value(out, &entry.value);
            }
            Reading::Lookup => {
                if let Value::Large(_) = entry.value {
                    return Some(entry.value.to_bytes());
                }
                let len =
                    BEFORE_KEY.len() + json::len(entry.key) + BEFORE_VALUE.len() + json::len(value) + AFTER_FOUND.len();
                out.reserve(ROOM + len);
                out.put(b"HTTP/1.1 200 OK\r\ncontent-type: application/json");
                end_head(out, len, date);
                out.put(BEFORE_KEY);
                json::write(out, entry.key);
                out.put(BEFORE_VALUE);
                json::write(out, value);
                out.put(AFTER_FOUND);
            }
            Reading::Text | Reading::Entity => {
                out.reserve(ROOM + value.len());
                out.put(match self {
                    Reading::Entity => b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream",
                    _ => &b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8"[..],
                });
                end_head(out, value.len(), date);
                put_value(out, &entry.value);
            }
        }
        None
    }

    /// The value was found. `about` is `None` if the tier does not hold what was fetched.
    pub(super) fn found(self, key: &[u8], value: Bytes, about: Option<About>, instance: u64) -> Response<Body> {
        let mut response = Response::default();
        let headers = response.headers_mut();
        match self {
            Reading::Kv => {
                headers.insert(header::CONTENT_TYPE, OCTETS);
                match about {
                    Some(about) => about.insert_into(headers, instance),
                    None => {
                        headers.insert(CACHE_STATUS, NOT_STORED);
                    }
                }
                *response.body_mut() = Body::full(value);
            }
            Reading::Lookup => {
                headers.insert(header::CONTENT_TYPE, JSON);
                let mut body = Writer::with_capacity(ROOM + value.len().min(ROOM));
                body.put(BEFORE_KEY);
                json::write(&mut body, key);
                body.put(BEFORE_VALUE);
                body.put_json(value);
                body.put(AFTER_FOUND);
                *response.body_mut() = body.finish();
            }
            Reading::Text | Reading::Entity => {
                headers.insert(header::CONTENT_TYPE, if self == Reading::Entity { OCTETS } else { TEXT });
                *response.body_mut() = Body::full(value);
            }
        }
        response
    }

    /// There is no such key.
    pub(super) fn absent(self, key: &[u8]) -> Response<Body> {
        match self {
            Reading::Kv => Problem::new(Kind::KeyNotFound).into_response(),
            Reading::Lookup => lookup_failure(Some(key), StatusCode::NOT_FOUND),
            Reading::Text => text(StatusCode::NOT_FOUND, "Key not found"),
            Reading::Entity => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
        }
    }

    /// The request is wrong, or cannot be answered now. `key` is what was understood of the key.
    pub(super) fn failed(self, key: Option<&[u8]>, problem: Problem) -> Response<Body> {
        if matches!(self, Reading::Kv | Reading::Entity) {
            return problem.into_response();
        }
        // Clients of these routes know 400 for a request that cannot be served. 502 says that the source has refused it.
        let status = match problem.status() {
            status if status.is_client_error() => StatusCode::BAD_REQUEST,
            StatusCode::BAD_GATEWAY => StatusCode::BAD_GATEWAY,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut response = match self {
            Reading::Lookup => lookup_failure(key, status),
            _ => text(status, &problem.sentence()),
        };
        if let Some(wait) = problem.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, problem::retry_after(wait));
        }
        response
    }
}

/// What a head needs at most, besides the body.
const ROOM: usize = 320;

const BEFORE_KEY: &[u8] = b"{\"key\": ";
const BEFORE_VALUE: &[u8] = b", \"value\": ";
const AFTER_FOUND: &[u8] = b", \"status\": 200}";

fn end_head(out: &mut Output, len: usize, date: &[u8; Date::LEN]) {
    out.put(b"\r\ncontent-length: ");
    out.put_number(len as u64);
    out.put(b"\r\ndate: ");
    out.put(date);
    out.put(b"\r\n\r\n");
}

fn put_value(out: &mut Output, value: &Value<'_>) {
    match value {
        Value::Inline(bytes) => out.put(bytes),
        Value::Large(_) => out.put_shared(value.to_bytes()),
    }
}

/// `{"key": K, "value": null, "status": S}`
fn lookup_failure(key: Option<&[u8]>, status: StatusCode) -> Response<Body> {
    let mut body = Vec::new();
    body.put(BEFORE_KEY);
    match key {
        Some(key) => json::write(&mut body, key),
        None => body.put(b"null"),
    }
    body.put(BEFORE_VALUE);
    body.put(b"null, \"status\": ");
    body.put(status.as_str().as_bytes());
    body.put(b"}");
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// A line of text.
pub(super) fn text(status: StatusCode, line: &str) -> Response<Body> {
    let mut response = Response::new(Body::full(line.to_owned()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
    response
}

/// A JSON document.
pub(super) fn json(document: Body) -> Response<Body> {
    let mut response = Response::new(document);
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// Writes the head of a response to an HTTP/1.1 `GET` as hyper would. True if the body has to follow in chunks (RFC 9112
/// section 7.1) because its length is not known.
pub(super) fn write_head(out: &mut Output, response: &Response<Body>, date: &[u8; Date::LEN]) -> bool {
    let status = response.status();
    out.reserve(ROOM);
    out.put(b"HTTP/1.1 ");
    out.put(status.as_str().as_bytes());
    out.put(b" ");
    out.put(status.canonical_reason().unwrap_or_default().as_bytes());
    for (name, value) in response.headers() {
        out.put(b"\r\n");
        out.put(name.as_str().as_bytes());
        out.put(b": ");
        out.put(value.as_bytes());
    }
    match response.body().left() {
        // It has no body, and must not say how long that is (RFC 9110 section 8.6).
        _ if status == StatusCode::NO_CONTENT => {}
        Some(len) => {
            out.put(b"\r\ncontent-length: ");
            out.put_number(len);
        }
        None => out.put(b"\r\ntransfer-encoding: chunked"),
    }
    out.put(b"\r\ndate: ");
    out.put(date);
    out.put(b"\r\n\r\n");
    response.body().left().is_none()
}

/// Writes a whole response, whose body must be short and of known length.
pub(super) fn write_whole(out: &mut Output, mut response: Response<Body>, date: &[u8; Date::LEN]) {
    let chunked = write_head(out, &response, date);
    debug_assert!(!chunked, "the length of a short body is known");
    while let Some(bytes) = response.body_mut().next() {
        out.put(&bytes);
    }
}

/// The connection is closed because it held the most when all buffers together had come to `max-buffers`.
pub(super) fn cut(limit: usize) -> Response<Body> {
    let mut response = Problem::buffers_full("the connection held the most", limit).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A client did not finish a request's head within this time.
pub(super) fn head_timeout(limit: Duration) -> Response<Body> {
    let limit = show_duration(limit);
    let detail = format!("the head was not complete after {limit} (setting `header-timeout`)");
    let mut response = Problem::of(Kind::HeadTimeout, detail).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
