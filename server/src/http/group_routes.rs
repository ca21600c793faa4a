//! Groups as a whole: a page of their keys, and clearing them.
use super::{
    problem::{Kind, Problem},
    read_answer,
    response_body::{Body, Writer},
    router::Call,
};
use crate::source::Scan;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Response, StatusCode};
use larder_proto::{
    glob,
    http::{target, text::Sink},
};
use std::ops::Bound;

const USUAL_COUNT: usize = 100;
/// How much text is written between two looks at the account.
const STEP: usize = 256 * 1024;
/// Each key looked at costs time under a shard's lock and room in the answer.
const MOST_COUNT: usize = 10_000;

/// `GET /v1/keys?match=GLOB&cursor=&count=`: `{"keys":[…],"cursor":"…"}`. About `count` keys are looked at, those that match
/// are listed; cursor `"0"` begins and ends. The keys of a store on this machine if that is the source, else the memory tier's.
pub(super) async fn page(call: &Call<'_>) -> Result<Response<Body>, Problem> {
    let mut scratch = Vec::new();
    let pattern = match target::parameter(call.query, "match") {
        None => None,
        Some(raw) => Some(
            target::decode_query(raw, &mut scratch)
                .map_err(|_| Problem::of(Kind::BadParameter, "`match` has a malformed % escape"))?,
        ),
    };
    let count = number(call.query, "count")?
        .map_or(USUAL_COUNT, |count| usize::try_from(count).unwrap_or(MOST_COUNT).clamp(1, MOST_COUNT));
    let mut body = Writer::with_capacity(64 + 16 * count);
    body.put(b"{\"keys\":[");
    let buffers = &call.worker.app.buffers;
    let mut charge = buffers.charge(crate::buffers::Kind::HttpOutput);
    let (mut charged, mut fits, mut first) = (STEP, true, true);
    let mut list = |key: &[u8]| {
        if fits && pattern.is_none_or(|pattern| glob::matches(pattern, key, false)) {
            if !std::mem::take(&mut first) {
                body.put(b",");
            }
            put_bytes(&mut body, Bytes::copy_from_slice(key));
            if body.text() > charged {
                charged = body.text() + STEP;
                fits = charge.try_resize(charged);
            }
        }
    };
    let next = match call.group.source.as_local() {
        Some(store) => {
            let (mut start, end) = glob::range(pattern);
            if let Some(last) = place(call.query)? {
                start = Bound::Excluded(last);
            }
            let scan = Scan { start, end, reverse: false, limit: count, max_bytes: PAGE_BYTES, keys_only: true };
            let page = store.scan(scan).await.map_err(|error| Problem::source(&error))?;
            page.entries.iter().for_each(|(key, _)| list(key));
            page.next.map_or_else(|| "0".into(), |last| format!("{PLACE}{}", BASE64_URL_SAFE_NO_PAD.encode(last)))
        }
        None => {
            let cursor = number(call.query, "cursor")?.unwrap_or(0);
            call.group.cache.tier().scan(cursor, count, call.now, |entry| list(entry.key)).to_string()
        }
    };
    if !fits {
        return Err(Problem::buffers_full("the page does not fit", buffers.limit()));
    }
    body.put(b"],\"cursor\":\"");
    body.put(next.as_bytes());
    body.put(b"\"}");
    charge.settle(body.text());
    Ok(read_answer::json(body.finish_charged(charge)))
}

/// What a cursor begins with that names a key, the last that was looked at.
const PLACE: char = 'k';
/// Of a page of a store's keys, which may be shorter than was asked for.
const PAGE_BYTES: usize = 1 << 20;

/// The key that the cursor names, if there is one.
fn place(query: &[u8]) -> Result<Option<Bytes>, Problem> {
    match target::parameter(query, "cursor") {
        None | Some(b"" | b"0") => Ok(None),
        Some([first, rest @ ..]) if *first == PLACE as u8 => match BASE64_URL_SAFE_NO_PAD.decode(rest) {
            Ok(key) => Ok(Some(key.into())),
            Err(_) => Err(Problem::of(Kind::BadParameter, "`cursor` is none that was given out")),
        },
        Some(_) => Err(Problem::of(Kind::BadParameter, "`cursor` is none that was given out")),
    }
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

pub(super) fn number(query: &[u8], name: &str) -> Result<Option<u64>, Problem> {
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
