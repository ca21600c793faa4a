//! Responses to a read of one key, for the routes that do: `/v1/kv/{key}`, `/lookup?key=`,
//! `/?key=`, `/v0/entity?id=`, `/data/{id}` and the one between nodes.
//!
//! An entry of the tier is written in two ways: as bytes straight into the output
//! ([`ReadRoute::write_entry`], the fast path), and as a response for hyper ([`ReadRoute::found`]).
//! The names, order and values of the headers are the same; hyper adds `content-length` and `date`
//! at the end as [`end_head`] does, unless the source gave a date. Every other answer is a response
//! on both paths.
use super::{
    problem_json::{self, Problem, ProblemKind},
    response_body::{BodyWriter, ResponseBody},
    response_writer::{ROOM, TEXT, insert_own_type, text},
};
use crate::compat::data_content_type;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use larder_base::telemetry::HttpRoute;
use larder_core::read::message_of;
use larder_engine::{Entry, Millis, Value};
use larder_proto::{
    http::{
        cache_control, etag, json,
        text::{Date, Sink},
    },
    output::Output,
};
use larder_ring::peer::{GetResponse, PROTOBUF};
use larder_source::{CopyMetadataView, FreshUntil, ValueStream};
use larder_store::clock;
use prost::Message;

/// A route that reads one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadRoute {
    /// `/v1/kv/{key}`: bytes, with everything a cache wants to know.
    Kv,
    /// `/lookup?key=`: JSON.
    Lookup,
    /// `/?key=`: text.
    Text,
    /// `/v0/entity?id=`: bytes.
    Entity,
    /// `/data/{id}`: bytes, with a type.
    Data,
    /// `/_groupcache/{group}/{key}`: a message for another node.
    Peer,
}

impl ReadRoute {
    /// The routes with which its requests are timed.
    pub(crate) fn timed_with(self) -> HttpRoute {
        match self {
            ReadRoute::Kv => HttpRoute::Kv,
            ReadRoute::Lookup => HttpRoute::Lookup,
            ReadRoute::Text => HttpRoute::Text,
            ReadRoute::Entity => HttpRoute::Entity,
            ReadRoute::Data => HttpRoute::Data,
            ReadRoute::Peer => HttpRoute::Peer,
        }
    }
}

/// What the headers say about an entry. Times are in whole seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryMetadata {
    /// The entry's version.
    pub(crate) version: u64,
    /// Since its origin made it, or since it was stored.
    age: u64,
    /// Until it expires or stops being fresh; `None`: it does not.
    left: Option<u64>,
    /// From the moment from which `age` counts to the end; 0 for what is out of date.
    lifetime: Option<u64>,
    /// Since it is out of date: at least 1, because there is no `ttl=-0`.
    stale: Option<u64>,
    /// It was fetched for this request.
    fetched: bool,
    /// When it was looked at, ms.
    now: Millis,
}
impl EntryMetadata {
    /// An entry that was found.
    pub(crate) fn hit(entry: &Entry<'_>, now: Millis) -> EntryMetadata {
        let stale = entry.stale_since().map(|since| (now.saturating_sub(since) / 1000).max(1));
        let born = match entry.metadata() {
            [] => None,
            said => CopyMetadataView::read(said).born,
        };
        let age = now.saturating_sub(born.unwrap_or_else(|| entry.stored())) / 1000;
        let left = entry.expiry().map(|at| at.saturating_sub(now) / 1000);
        let (left, lifetime) = match (stale, born) {
            (Some(_), _) => (Some(0), Some(0)),
            (None, Some(born)) => (left, entry.expiry().map(|at| at.saturating_sub(born) / 1000)),
            // The moment of storing is known to a second or so: clients are told the rest exactly.
            (None, None) => (left, left.map(|left| age + left)),
        };
        EntryMetadata { version: entry.version(), age, left, lifetime, stale, fetched: false, now }
    }

    /// An entry that had to be fetched first. `is_new`: the source has just given it, so that it is
    /// not out of date, even if its lifetime is 0.
    pub(crate) fn fetched(entry: &Entry<'_>, now: Millis, is_new: bool) -> EntryMetadata {
        let about = EntryMetadata::hit(entry, now);
        EntryMetadata { fetched: true, stale: about.stale.filter(|_| !is_new), ..about }
    }

    /// `Cache-Status` up to the lifetime that is left, which is negative for what is out of date
    /// (RFC 9211, 2.4).
    #[inline]
    fn status(self) -> &'static [u8] {
        match (self.stale, self.fetched) {
            (None, false) => HIT,
            (None, true) => FETCHED,
            (Some(_), false) => STALE_HIT,
            // The fetch failed or took too long.
            (Some(_), true) => STALE_FETCH,
        }
    }

    #[inline]
    fn before_ttl(self) -> &'static [u8] {
        if self.stale.is_some() { b"; ttl=-" } else { b"; ttl=" }
    }

    /// The longest lifetime, in seconds, that a client is told: none of a copy that is out of date,
    /// whatever the source said about it (it may have been cleared softly).
    #[inline]
    fn at_most(self, said: &CopyMetadataView<'_>) -> Option<u64> {
        if self.stale.is_some() { Some(0) } else { said.max_age }
    }

    /// What follows [`before_ttl`](EntryMetadata::before_ttl): seconds.
    #[inline]
    fn ttl(self) -> Option<u64> {
        self.stale.or(self.left)
    }

    /// Adds the headers, as a 200 and a 304 carry them. `said`: what the source said about the
    /// copy.
    pub(crate) fn insert_into(self, headers: &mut HeaderMap, instance: u64, said: &CopyMetadataView<'_>) {
        headers.insert(header::ETAG, tag(self.version, instance));
        insert_validators(headers, said);
        headers.insert(header::AGE, self.age.into());
        insert_cache_control(headers, said, (self.at_most(said), self.lifetime));
        let mut status = Vec::with_capacity(48);
        status.put(self.status());
        if let Some(ttl) = self.ttl() {
            status.put(self.before_ttl());
            status.put_number(ttl);
        }
        headers.insert(CACHE_STATUS, ascii(status));
    }
}

/// Adds what the source said about a value that the tier does not hold, but for its content type.
/// `fresh_for`: until the end of its freshness, ms.
pub(crate) fn insert_said(
    headers: &mut HeaderMap,
    said: &CopyMetadataView<'_>,
    fresh_for: Option<Millis>,
    now: Millis,
) {
    insert_validators(headers, said);
    let age = said.born.map(|born| now.saturating_sub(born));
    // An answer that no cache has kept has no age.
    if let Some(age) = age.filter(|age| *age >= 1000 || !said.is_not_kept) {
        headers.insert(header::AGE, (age / 1000).into());
    }
    match said {
        CopyMetadataView { is_not_kept: true, cache_control: None, .. } => {
            headers.insert(header::CACHE_CONTROL, NO_STORE);
        }
        said => {
            let lifetime = fresh_for.map(|left| (age.unwrap_or(0) + left) / 1000);
            insert_cache_control(headers, said, (said.max_age, lifetime));
        }
    }
}

/// Other clients get other bytes of an encoded value.
pub(crate) fn insert_vary(headers: &mut HeaderMap, value: &ValueStream) {
    if value.encoding.is_some() {
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
}

fn insert_validators(headers: &mut HeaderMap, said: &CopyMetadataView<'_>) {
    let text = |field: Option<&[u8]>| field.and_then(|field| HeaderValue::from_bytes(field).ok());
    if let Some(tag) = text(said.etag) {
        headers.insert(header::ETAG, tag);
    }
    if let Some(date) = text(said.last_modified) {
        headers.insert(header::LAST_MODIFIED, date);
    }
    // A cache keeps the date of the answer (RFC 9110, 6.6.1); `Age` is what tells how old that is.
    if let Some(date) = text(said.date) {
        headers.insert(header::DATE, date);
    }
}

fn insert_cache_control(
    headers: &mut HeaderMap,
    said: &CopyMetadataView<'_>,
    (at_most, lifetime): (Option<u64>, Option<u64>),
) {
    let mut text = Vec::with_capacity(28);
    let says = cache_control::write(&mut text, b"", said.cache_control.unwrap_or_default(), at_most, lifetime);
    if says && let Ok(text) = HeaderValue::from_maybe_shared(Bytes::from(text)) {
        headers.insert(header::CACHE_CONTROL, text);
    }
}

/// The entity tag of a version. Versions start again with each process, so the instance number is
/// mixed in: a tag from another run of this server, or from another server, does not match.
pub(crate) fn tag(version: u64, instance: u64) -> HeaderValue {
    let mut text = Vec::with_capacity(18);
    etag::write(&mut text, version ^ instance);
    ascii(text)
}

/// RFC 9211.
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const HIT: &[u8] = b"larder; hit";
const FETCHED: &[u8] = b"larder; fwd=miss; stored";
const STALE_HIT: &[u8] = b"larder; hit; detail=stale";
const STALE_FETCH: &[u8] = b"larder; fwd=stale; detail=stale";
const PASSED_THROUGH: HeaderValue = HeaderValue::from_static("larder; fwd=miss; detail=too-large");
const ENCODED: HeaderValue = HeaderValue::from_static("larder; fwd=miss; detail=encoded");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NOT_STORED: HeaderValue = HeaderValue::from_static("larder; fwd=miss");

fn ascii(text: Vec<u8>) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(text)).expect("made of visible ASCII")
}

pub(crate) const MESSAGE: HeaderValue = HeaderValue::from_static(PROTOBUF);
pub(crate) const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

impl ReadRoute {
    /// The parameter that has the key, if the path has not.
    pub(crate) fn parameter(self) -> &'static str {
        match self {
            ReadRoute::Entity => "id",
            ReadRoute::Kv | ReadRoute::Lookup | ReadRoute::Text | ReadRoute::Data | ReadRoute::Peer => "key",
        }
    }

    /// Writes a whole response for an entry, from inside the engine's lookup. Returns the value
    /// instead, and writes nothing, if the value is too large to be encoded under the shard's
    /// lock.
    #[inline]
    pub(crate) fn write_entry(
        self,
        out: &mut Output,
        entry: &Entry<'_>,
        about: EntryMetadata,
        instance: u64,
        date: &[u8; Date::LEN],
    ) -> Option<Bytes> {
        let value = entry.value.as_bytes();
        match self {
            ReadRoute::Kv => {
                let mut date = Some(date);
                match entry.metadata() {
                    [] => {
                        out.reserve(ROOM + value.len());
                        out.put(b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\nx-content-type-options: nosniff\r\netag: ");
                        etag::write(out, about.version ^ instance);
                        out.put(b"\r\nage: ");
                        out.put_number(about.age);
                        if let Some(seconds) = about.lifetime {
                            out.put(b"\r\ncache-control: max-age=");
                            out.put_number(seconds);
                        }
                    }
                    said => {
                        out.reserve(ROOM + said.len() + value.len());
                        out.put(b"HTTP/1.1 200 OK\r\ncontent-type: ");
                        date = date.filter(|_| !put_said(out, said, &about, about.version ^ instance));
                    }
                }
                out.put(b"\r\ncache-status: ");
                out.put(about.status());
                if let Some(ttl) = about.ttl() {
                    out.put(about.before_ttl());
                    out.put_number(ttl);
                }
                end_dated_head(out, value.len(), date);
                put_value(out, &entry.value);
            }
            ReadRoute::Lookup => {
                if let Value::Large(_) = entry.value {
                    return Some(entry.value.to_bytes());
                }
                let len =
                    BEFORE_KEY.len() + json::len(entry.key) + BEFORE_VALUE.len() + json::len(value) + AFTER_FOUND.len();
                out.reserve(ROOM + len);
                out.put(b"HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=utf-8\r\nx-content-type-options: nosniff");
                end_head(out, len, date);
                out.put(BEFORE_KEY);
                json::write(out, entry.key);
                out.put(BEFORE_VALUE);
                json::write(out, value);
                out.put(AFTER_FOUND);
            }
            ReadRoute::Text | ReadRoute::Entity => {
                out.reserve(ROOM + value.len());
                out.put(match self {
                    ReadRoute::Entity => {
                        b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\nx-content-type-options: nosniff"
                    }
                    _ => &b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\nx-content-type-options: nosniff"[..],
                });
                end_head(out, value.len(), date);
                put_value(out, &entry.value);
            }
            ReadRoute::Data => {
                let (content_type, is_own) = data_content_type::of(entry.metadata(), value);
                out.reserve(ROOM + content_type.len() + value.len());
                out.put(b"HTTP/1.1 200 OK\r\ncontent-type: ");
                out.put(content_type);
                if is_own {
                    out.put(b"\r\nx-content-type-options: nosniff");
                }
                end_head(out, value.len(), date);
                put_value(out, &entry.value);
            }
            ReadRoute::Peer => put_message(out, entry, about.now, instance, date),
        }
        None
    }

    /// The value was found. `about` is `None` if the tier does not hold the fetched value; `said`
    /// is what the source said about it, as it is kept and as it reads.
    pub(crate) fn found(
        self,
        key: &[u8],
        value: Bytes,
        about: Option<EntryMetadata>,
        (kept, said): (&[u8], &CopyMetadataView<'_>),
        instance: u64,
    ) -> Response<ResponseBody> {
        let mut response = Response::default();
        let headers = response.headers_mut();
        match self {
            ReadRoute::Kv => {
                insert_type(headers, said.shown_type());
                match about {
                    Some(about) => about.insert_into(headers, instance, said),
                    None => {
                        insert_said(headers, said, None, clock::now());
                        headers.insert(CACHE_STATUS, NOT_STORED);
                    }
                }
                *response.body_mut() = ResponseBody::full(value);
            }
            ReadRoute::Lookup => {
                insert_own_type(headers, LOOKUP_JSON);
                let mut body = BodyWriter::with_capacity(ROOM + value.len().min(ROOM));
                body.put(BEFORE_KEY);
                json::write(&mut body, key);
                body.put(BEFORE_VALUE);
                body.put_json(value);
                body.put(AFTER_FOUND);
                *response.body_mut() = body.finish();
            }
            ReadRoute::Text | ReadRoute::Entity => {
                insert_own_type(headers, if self == ReadRoute::Entity { OCTETS } else { TEXT });
                *response.body_mut() = ResponseBody::full(value);
            }
            ReadRoute::Data => {
                let (content_type, is_own) = data_content_type::of(kept, &value);
                let content_type = HeaderValue::from_bytes(content_type).unwrap_or(OCTETS);
                match is_own {
                    true => insert_own_type(headers, content_type),
                    false => drop(headers.insert(header::CONTENT_TYPE, content_type)),
                }
                *response.body_mut() = ResponseBody::full(value);
            }
            ReadRoute::Peer => {
                insert_own_type(headers, MESSAGE);
                let message = GetResponse::not_held(value, kept, clock::now());
                *response.body_mut() = ResponseBody::full(message.encode_to_vec());
            }
        }
        response
    }

    /// Whether the value is the body as it is.
    pub(crate) fn gives_bytes(self) -> bool {
        matches!(self, ReadRoute::Kv | ReadRoute::Data | ReadRoute::Text | ReadRoute::Entity)
    }

    /// The value is too large to be kept, or encoded, and passes through to a route that
    /// [`gives_bytes`](ReadRoute::gives_bytes).
    pub(crate) fn passed_through(self, value: ValueStream, now: Millis) -> Response<ResponseBody> {
        let mut response = Response::default();
        let headers = response.headers_mut();
        match self {
            ReadRoute::Kv => {
                let said = value.metadata.encode();
                let mut said = CopyMetadataView::read(&said);
                said.is_not_kept |= value.fresh == FreshUntil::NotKept;
                insert_type(headers, said.shown_type());
                let fresh_for = match value.fresh {
                    FreshUntil::At(until) => Some(until.saturating_sub(now)),
                    FreshUntil::Policy | FreshUntil::NotKept => None,
                };
                insert_said(headers, &said, fresh_for, now);
                headers.insert(CACHE_STATUS, if value.encoding.is_some() { ENCODED } else { PASSED_THROUGH });
            }
            ReadRoute::Data => {
                insert_type(headers, value.metadata.content_type.as_deref());
            }
            ReadRoute::Lookup | ReadRoute::Text | ReadRoute::Entity | ReadRoute::Peer => {
                insert_own_type(headers, if self == ReadRoute::Text { TEXT } else { OCTETS });
            }
        }
        insert_vary(headers, &value);
        if let Some(codings) = value.encoding.as_deref().filter(|codings| *codings != b"identity")
            && let Ok(codings) = HeaderValue::from_bytes(codings)
        {
            headers.insert(header::CONTENT_ENCODING, codings);
        }
        *response.body_mut() = ResponseBody::streamed(value);
        response
    }

    /// There is no such key.
    pub(crate) fn absent(self, key: &[u8]) -> Response<ResponseBody> {
        match self {
            ReadRoute::Kv => Problem::new(ProblemKind::KeyNotFound).into_response(),
            ReadRoute::Lookup => lookup_failure(Some(key), StatusCode::NOT_FOUND),
            ReadRoute::Text | ReadRoute::Data | ReadRoute::Peer => text(StatusCode::NOT_FOUND, "Key not found"),
            ReadRoute::Entity => {
                let mut response = Response::new(ResponseBody::empty());
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
        }
    }

    /// The request is wrong, or cannot be answered now. `key` is the key, if it could be read.
    pub(crate) fn failed(self, key: Option<&[u8]>, problem: Problem) -> Response<ResponseBody> {
        if matches!(self, ReadRoute::Kv | ReadRoute::Entity) {
            return problem.into_response();
        }
        // Clients of these routes know 400 for a request that cannot be served. 502 says that the source
        // has refused it.
        let status = match problem.status() {
            status if status.is_client_error() => StatusCode::BAD_REQUEST,
            // Another node would load it itself after any other status.
            _ if self == ReadRoute::Peer => StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::BAD_GATEWAY => StatusCode::BAD_GATEWAY,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut response = match self {
            ReadRoute::Lookup => lookup_failure(key, status),
            _ => text(status, &problem.sentence()),
        };
        if let Some(wait) = problem.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, problem_json::retry_after(wait));
        }
        response
    }
}

/// A whole response with the message of an entry.
fn put_message(out: &mut Output, entry: &Entry<'_>, now: Millis, instance: u64, date: &[u8; Date::LEN]) {
    let message = message_of(entry, instance, now);
    out.reserve(ROOM + message.encoded_len());
    out.put(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\nx-content-type-options: nosniff");
    end_head(out, message.encoded_len(), date);
    message.put(out, |out| put_value(out, &entry.value));
}

/// The type that the source said, or else Larder's own.
fn insert_type(headers: &mut HeaderMap, said: Option<&[u8]>) {
    match said.and_then(|text| HeaderValue::from_bytes(text).ok()) {
        Some(said) => drop(headers.insert(header::CONTENT_TYPE, said)),
        None => insert_own_type(headers, OCTETS),
    }
}

/// What the clients of small HTTP proxies for Redis get from those, to the letter.
const LOOKUP_JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const BEFORE_KEY: &[u8] = b"{\"key\": ";
const BEFORE_VALUE: &[u8] = b", \"value\": ";
const AFTER_FOUND: &[u8] = b", \"status\": 200}";

/// Content type, validators, age and `Cache-Control` of an entry whose source said something about
/// it, up to the end of the line. True if that has a `Date`.
#[cold]
fn put_said(out: &mut Output, said: &[u8], about: &EntryMetadata, version: u64) -> bool {
    let said = CopyMetadataView::read(said);
    out.put(said.shown_type().unwrap_or(b"application/octet-stream\r\nx-content-type-options: nosniff"));
    out.put(b"\r\netag: ");
    match said.etag {
        Some(text) => out.put(text),
        None => etag::write(out, version),
    }
    if let Some(date) = said.last_modified {
        out.put(b"\r\nlast-modified: ");
        out.put(date);
    }
    if let Some(date) = said.date {
        out.put(b"\r\ndate: ");
        out.put(date);
    }
    out.put(b"\r\nage: ");
    out.put_number(about.age);
    let origin = said.cache_control.unwrap_or_default();
    cache_control::write(out, b"\r\ncache-control: ", origin, about.at_most(&said), about.lifetime);
    said.date.is_some()
}

fn end_head(out: &mut Output, len: usize, date: &[u8; Date::LEN]) {
    end_dated_head(out, len, Some(date));
}

fn end_dated_head(out: &mut Output, len: usize, date: Option<&[u8; Date::LEN]>) {
    out.put(b"\r\ncontent-length: ");
    out.put_number(len as u64);
    if let Some(date) = date {
        out.put(b"\r\ndate: ");
        out.put(date);
    }
    out.put(b"\r\n\r\n");
}

fn put_value(out: &mut Output, value: &Value<'_>) {
    match value {
        Value::Inline(bytes) => out.put(bytes),
        Value::Large(_) => out.put_shared(value.to_bytes()),
    }
}

/// `{"key": K, "value": null, "status": S}`
fn lookup_failure(key: Option<&[u8]>, status: StatusCode) -> Response<ResponseBody> {
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
    let mut response = Response::new(ResponseBody::full(body));
    *response.status_mut() = status;
    insert_own_type(response.headers_mut(), LOOKUP_JSON);
    response
}
