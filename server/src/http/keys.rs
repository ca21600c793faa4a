//! Groups as a whole: a page of their keys, and clearing them.
use super::{
    answer,
    body::{Body, Writer},
    problem::{Kind, Problem},
    router::Call,
};
use crate::{
    dispatch::glob,
    proto::http::{target, text::Sink},
};
use bytes::Bytes;
use http::{Response, StatusCode};

const USUAL_COUNT: usize = 100;
/// Each key looked at costs time under a shard's lock and room in the answer.
const MOST_COUNT: usize = 10_000;

/// `GET /v1/keys?match=GLOB&cursor=&count=`: `{"keys":[…],"cursor":"…"}`. About `count` keys are looked at, those that match
/// are listed; cursor `"0"` begins and ends. The memory tier's keys, not the source's.
pub(super) fn page(call: &Call<'_>) -> Result<Response<Body>, Problem> {
    let mut scratch = Vec::new();
    let pattern = match target::parameter(call.query, "match") {
        None => None,
        Some(raw) => Some(
            target::decode_query(raw, &mut scratch)
                .map_err(|_| Problem::of(Kind::BadParameter, "`match` has a malformed % escape"))?,
        ),
    };
    let cursor = number(call.query, "cursor")?.unwrap_or(0);
    let count = number(call.query, "count")?
        .map_or(USUAL_COUNT, |count| usize::try_from(count).unwrap_or(MOST_COUNT).clamp(1, MOST_COUNT));
    let mut body = Writer::with_capacity(64 + 16 * count);
    body.put(b"{\"keys\":[");
    let mut first = true;
    let next = call.group.cache.tier().scan(cursor, count, call.now, |entry| {
        if pattern.is_none_or(|pattern| glob::matches(pattern, entry.key, false)) {
            if !std::mem::take(&mut first) {
                body.put(b",");
            }
            put_bytes(&mut body, Bytes::copy_from_slice(entry.key));
        }
    });
    body.put(b"],\"cursor\":\"");
    body.put_number(next);
    body.put(b"\"}");
    Ok(answer::json(body.finish()))
}

/// Appends bytes as JSON without losing any: a string if they are UTF-8, otherwise `{"base64":"…"}`.
pub(super) fn put_bytes(body: &mut Writer, bytes: Bytes) {
    if std::str::from_utf8(&bytes).is_ok() {
        body.put_json(bytes);
    } else {
        body.put(b"{\"base64\":\"");
        body.put_base64(bytes);
        body.put(b"\"}");
    }
}

fn number(query: &[u8], name: &str) -> Result<Option<u64>, Problem> {
    let Some(raw) = target::parameter(query, name) else { return Ok(None) };
    if raw.is_empty() {
        return Ok(None);
    }
    let number = std::str::from_utf8(raw).ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Problem::of(Kind::BadParameter, format!("`{name}` is not a whole number")))
}

/// `DELETE /v1/groups/{group}`: empties the memory tier of a group. Its source keeps what it has.
pub(super) fn clear(call: &Call<'_>) -> Response<Body> {
    call.group.cache.tier().clear();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
