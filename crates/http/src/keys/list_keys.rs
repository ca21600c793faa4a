//! `GET /v1/keys`: the keys of a group, page by page.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_body::BodyWriter,
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use larder_base::buffers::BufferKind;
use larder_proto::{
    glob::{self, Pace},
    http::{target, text::Sink},
};
use larder_source::Scan;
use std::ops::Bound;

/// Keys that are looked at if the client names no `count`.
const USUAL_COUNT: usize = 100;
/// Patterns up to this length are compared with many keys at a time.
const SHORT: usize = 64;
/// Each key looked at costs time under a shard's lock and room in the answer.
const MOST_COUNT: usize = 10_000;

/// `GET /v1/keys?match=GLOB&cursor=&count=`: `{"keys":[…],"cursor":"…"}`. EntryMetadata `count`
/// keys are looked at, those that match are listed; cursor `"0"` begins and ends. The keys of a
/// store on this machine if that is the source, else the memory tier's.
pub(crate) async fn list_keys(request: &RouteRequest<'_>) -> Answer {
    let mut scratch = Vec::new();
    let pattern = match target::parameter(request.query, "match") {
        None => None,
        Some(raw) => Some(
            target::decode_query(raw, &mut scratch)
                .map_err(|_| Problem::of(ProblemKind::BadParameter, "`match` has a malformed % escape"))?,
        ),
    };
    let count = request.count(USUAL_COUNT, 1..=MOST_COUNT)?;
    let mut body = BodyWriter::with_capacity(64 + 16 * count);
    body.put(b"{\"keys\":[");
    let buffers = &request.worker.app.buffers;
    let mut charge = buffers.charge(BufferKind::HttpOutput);
    let (mut fits, mut first) = (true, true);
    let mut pace = pattern.map(Pace::new);
    let mut append = |key: &[u8], pace: &mut Option<Pace<'_>>| {
        if fits && request.lists(key) && pace.as_mut().is_none_or(|pace| pace.matches(key)) {
            if !std::mem::take(&mut first) {
                body.put(b",");
            }
            body.put_json_or_base64(Bytes::copy_from_slice(key));
            fits = body.charge_all(&mut charge);
        }
    };
    let next = match request.group.source.as_local() {
        Some(store) => {
            let (mut start, end) = glob::range(pattern);
            if let Some(last) = last_key(request.query)? {
                start = Bound::Excluded(last);
            }
            // Those of a page are compared in one turn.
            let max_bytes = PAGE_BYTES * SHORT / pattern.map_or(0, <[u8]>::len).max(SHORT);
            let scan = Scan { start, end, reverse: false, limit: count, max_bytes, keys_only: true };
            let page = store.scan(scan).await.map_err(|error| Problem::source(&error))?;
            page.entries.iter().for_each(|(key, _)| append(key, &mut pace));
            page.next.map_or_else(|| "0".into(), |last| format!("{KEY_CURSOR}{}", BASE64_URL_SAFE_NO_PAD.encode(last)))
        }
        None => {
            let (mut cursor, mut left) = (request.number("cursor")?.unwrap_or(0), count);
            loop {
                let some = left.min(pace.as_ref().map_or(left, Pace::group));
                let tier = &mut request.group.cache.tier();
                cursor = tier.scan(cursor, some, request.now, |entry| append(entry.key, &mut pace));
                left -= some;
                // A page of long keys may have fewer.
                if cursor == 0 || left == 0 || pace.as_mut().is_some_and(Pace::is_turn_over) {
                    break;
                }
            }
            cursor.to_string()
        }
    };
    if !fits {
        return Err(Problem::buffers_full("the page does not fit", buffers.limit()));
    }
    body.put(b"],\"cursor\":\"");
    body.put(next.as_bytes());
    body.put(b"\"}");
    Ok(response_writer::json(body.finish_charged(charge)))
}

/// First character of a cursor that names a key: the last key that was looked at.
const KEY_CURSOR: char = 'k';
/// Bytes of a page of a store's keys. Such a page may have fewer keys than the client asked for.
const PAGE_BYTES: usize = 1 << 20;

/// The key that the cursor names, if there is one.
fn last_key(query: &[u8]) -> Result<Option<Bytes>, Problem> {
    match target::parameter(query, "cursor") {
        None | Some(b"" | b"0") => Ok(None),
        Some([first, rest @ ..]) if *first == KEY_CURSOR as u8 => match BASE64_URL_SAFE_NO_PAD.decode(rest) {
            Ok(key) => Ok(Some(key.into())),
            Err(_) => Err(Problem::of(ProblemKind::BadParameter, "`cursor` is none that was given out")),
        },
        Some(_) => Err(Problem::of(ProblemKind::BadParameter, "`cursor` is none that was given out")),
    }
}
