//! Reads of one key in the forms that clients of other servers know: `/lookup?key=`, `/?key=`,
//! `/v0/entity?id=`, `/data/{id}` and the one between nodes. `/v1/kv/{key}` is one of the routes
//! here; its own form is in `read_responses`.
use crate::messages::{
    problem_json::{self, Problem, ProblemKind},
    read_responses::{
        EntryMetadata, OCTETS, end_head, insert_found, insert_passed, insert_type, insert_vary, put_value, write_kv,
    },
    response_body::{BodyWriter, ResponseBody},
    response_writer::{self, ROOM, TEXT, insert_own_type, text},
};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use larder_base::telemetry::HttpRoute;
use larder_core::read::message_of;
use larder_engine::{Entry, Millis, Value};
use larder_proto::{
    http::{
        json, target,
        text::{Date, Sink},
    },
    output::Output,
};
use larder_ring::peer::{GetResponse, PROTOBUF};
use larder_source::{CopyMetadataView, ValueStream};
use larder_store::clock;
use prost::Message;

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
    /// The route of another server's clients that a target asks for, and its key, still encoded
    /// (`None`: it is missing). The general path knows the other parameters of an entity.
    pub(crate) fn of_target<'t>(path: &'t [u8], query: &'t [u8]) -> Option<(ReadRoute, Option<&'t [u8]>)> {
        if let Some(key) = path.strip_prefix(b"/data/") {
            return Some((ReadRoute::Data, Some(key)));
        }
        let route = match path {
            b"/lookup" | b"/v1/lookup" => ReadRoute::Lookup,
            b"/" => ReadRoute::Text,
            b"/v0/entity" if !query.contains(&b'&') => ReadRoute::Entity,
            _ => return None,
        };
        Some((route, target::parameter(query, route.parameter())))
    }

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

pub(crate) const MESSAGE: HeaderValue = HeaderValue::from_static(PROTOBUF);

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
            ReadRoute::Kv => write_kv(out, entry, about, about.version ^ instance, date),
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
                let (content_type, is_own) = data_type(entry.metadata(), value);
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
                insert_found(headers, about, said, instance);
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
                let (content_type, is_own) = data_type(kept, &value);
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
            ReadRoute::Kv => insert_passed(headers, &value, now),
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

    pub(crate) fn absent(self, key: &[u8]) -> Response<ResponseBody> {
        match self {
            ReadRoute::Kv => Problem::new(ProblemKind::KeyNotFound).into_response(),
            ReadRoute::Lookup => lookup_failure(Some(key), StatusCode::NOT_FOUND),
            ReadRoute::Text | ReadRoute::Data | ReadRoute::Peer => text(StatusCode::NOT_FOUND, "Key not found"),
            ReadRoute::Entity => response_writer::empty(StatusCode::NOT_FOUND),
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

/// What the clients of small HTTP proxies for Redis get from those, to the letter.
const LOOKUP_JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const BEFORE_KEY: &[u8] = b"{\"key\": ";
const BEFORE_VALUE: &[u8] = b", \"value\": ";
const AFTER_FOUND: &[u8] = b", \"status\": 200}";

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

const DATA_JSON: &[u8] = b"application/json";
const DATA_TEXT: &[u8] = b"text/plain; charset=utf-8";

/// The content type of `/data/{id}`: what the source said the value is (`said`), else JSON if it begins
/// and ends like an object or an array, else text; and whether the source said nothing.
#[inline]
fn data_type<'e>(said: &'e [u8], value: &[u8]) -> (&'e [u8], bool) {
    let said = if said.is_empty() { None } else { CopyMetadataView::read(said).shown_type() };
    let is_json = || {
        let value = value.trim_ascii();
        matches!((value.first(), value.last()), (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')))
    };
    said.map_or_else(|| (if is_json() { DATA_JSON } else { DATA_TEXT }, true), |said| (said, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_source::CopyMetadata;

    #[test]
    fn the_source_knows_best() {
        let said = CopyMetadata { content_type: Some(b"image/png".as_slice().into()), ..CopyMetadata::default() };
        assert_eq!(data_type(&said.encode(), b"{}"), (&b"image/png"[..], false));
        let nothing = CopyMetadata { etag: Some(b"\"1\"".as_slice().into()), ..CopyMetadata::default() };
        for said in [&nothing.encode()[..], b""] {
            assert!(
                [&b"{}"[..], b"[1]", b" {\"a\":1}\n"].iter().all(|value| data_type(said, value) == (DATA_JSON, true))
            );
            assert!(
                [&b""[..], b"abc", b"[note] all is well", b"1", b"{"]
                    .iter()
                    .all(|value| data_type(said, value) == (DATA_TEXT, true))
            );
        }
    }
}
