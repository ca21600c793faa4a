//! Responses written as HTTP/1.1 bytes, as hyper would write them; and the responses that are one
//! text or one JSON document.
use super::{problem_json::Answer, response_body::ResponseBody};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use larder_proto::{
    http::{
        etag,
        text::{Date, Sink},
    },
    output::Output,
};
use serde_json::Value;

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub(crate) const NO_SNIFFING: HeaderValue = HeaderValue::from_static("nosniff");
/// Nothing of the response runs as a page or in the name of this server.
pub(crate) const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox");
/// What a head needs at most, besides the body.
pub(crate) const ROOM: usize = 352;

/// Inserts a type that Larder chose. Browsers must not guess another one, nor run a value as a
/// script of a page of another site (`X-Content-Type-Options`, WHATWG Fetch).
pub(crate) fn insert_own_type(headers: &mut HeaderMap, content_type: HeaderValue) {
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFFING);
}

/// A line of text.
pub(crate) fn text(status: StatusCode, line: &str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(line.to_owned()));
    *response.status_mut() = status;
    insert_own_type(response.headers_mut(), TEXT);
    response
}

/// 204: done, and nothing to say.
pub(crate) fn no_content() -> Response<ResponseBody> {
    empty(StatusCode::NO_CONTENT)
}

pub(crate) fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = status;
    response
}

/// A JSON document that was made as a tree.
pub(crate) fn json_value(document: &Value) -> Answer {
    Ok(json(ResponseBody::full(document.to_string())))
}

pub(crate) fn json(document: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(document);
    insert_own_type(response.headers_mut(), JSON);
    response
}

/// Writes the head of a response to an HTTP/1.1 `GET` as hyper would. True if the body has to
/// follow in chunks (RFC 9112 section 7.1) because its length is not known.
pub(crate) fn write_head(out: &mut Output, response: &Response<ResponseBody>, date: &[u8; Date::LEN]) -> bool {
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
    if !response.headers().contains_key(header::DATE) {
        out.put(b"\r\ndate: ");
        out.put(date);
    }
    out.put(b"\r\n\r\n");
    response.body().left().is_none()
}

/// Writes a whole JSON document, as [`write_head`] and hyper would.
pub(crate) fn write_json(out: &mut Output, status: StatusCode, document: &[u8], date: &[u8; Date::LEN]) {
    out.reserve(ROOM + document.len());
    out.put(b"HTTP/1.1 ");
    out.put(status.as_str().as_bytes());
    out.put(b" ");
    out.put(status.canonical_reason().unwrap_or_default().as_bytes());
    out.put(b"\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\ncontent-length: ");
    out.put_number(document.len() as u64);
    out.put(b"\r\ndate: ");
    out.put(date);
    out.put(b"\r\n\r\n");
    out.put(document);
}

/// Writes a whole 204, with an entity tag if there is one.
pub(crate) fn write_no_content(out: &mut Output, tag: Option<u64>, date: &[u8; Date::LEN]) {
    out.reserve(ROOM);
    out.put(b"HTTP/1.1 204 No Content");
    if let Some(tag) = tag {
        out.put(b"\r\netag: ");
        etag::write(out, tag);
    }
    out.put(b"\r\ndate: ");
    out.put(date);
    out.put(b"\r\n\r\n");
}

/// Writes a whole response, whose body must be short and of known length.
pub(crate) fn write_whole(out: &mut Output, mut response: Response<ResponseBody>, date: &[u8; Date::LEN]) {
    let chunked = write_head(out, &response, date);
    debug_assert!(!chunked, "the length of a short body is known");
    while let Some(bytes) = response.body_mut().next() {
        out.put(&bytes);
    }
}
