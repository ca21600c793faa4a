//! `POST /v1/mget`: many keys in one request.
use super::mget_body::WantedKeys;
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_body::BodyWriter,
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use bytes::Bytes;
use larder_base::{buffers::BufferKind, identity::KeyAccess, telemetry::RecordedOperation};
use larder_core::read::{Group, StartedRead};
use larder_engine::Wait;
use larder_proto::http::text::Sink;

/// Longer values are not copied.
const COPIED: usize = 16 * 1024;
/// Bytes of text between two updates of the buffer account.
const STEP: usize = 256 * 1024;

enum Slot {
    Known(Option<Bytes>),
    Wait(Wait),
}

/// Answers `{"values":[…]}` in the order of the keys: null where there is no such key, a string
/// where the value is UTF-8, otherwise `{"base64":"…"}`. If the source fails for one key, the
/// request fails.
pub(crate) async fn mget(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    let keys = parse(&body, request.worker.app.settings.max_pipeline)?;
    let group = request.group;
    let mut batch = Vec::new();
    let mut slots = Vec::with_capacity(keys.len());
    let buffers = &request.worker.app.buffers;
    let mut charge = buffers.charge(BufferKind::HttpOutput);
    let full = || Problem::buffers_full("the answer does not fit", buffers.limit());
    let mut known = 0;
    request.enter_keys(keys.iter().map(Vec::as_slice))?;
    let one_table = group.one_table();
    for key in &keys {
        request.check_key(key)?;
        request.allow("mget", key, KeyAccess::READ)?;
        request.note(RecordedOperation::Get, key);
        let key = group.cache.key(key);
        let begun = group.begin(key, request.now, &mut batch, |entry| entry.value.to_bytes());
        slots.push(match begun {
            StartedRead::Hit(value) => {
                known += value.len().min(COPIED);
                Slot::Known(Some(value))
            }
            StartedRead::Absent => Slot::Known(None),
            StartedRead::Wait(wait) => Slot::Wait(wait),
        });
    }
    drop(one_table);
    if !charge.try_resize(known) {
        return Err(full());
    }
    if !batch.is_empty() {
        request.worker.fetch(group, &mut batch);
    }
    let mut body = BodyWriter::with_capacity(64 * keys.len());
    let mut separator: &[u8] = b"{\"values\":[";
    let mut charged = 0;
    for slot in slots {
        let value = match slot {
            Slot::Known(value) => value,
            Slot::Wait(wait) => Group::end(wait).await.map_err(|error| Problem::source(&error))?,
        };
        body.put(separator);
        separator = b",";
        match value {
            Some(value) => body.put_json_or_base64(value),
            None => body.put(b"null"),
        }
        if body.text() > charged + STEP {
            charged = body.text() + STEP;
            if !charge.try_resize(known + charged) {
                return Err(full());
            }
        }
    }
    body.put(if keys.is_empty() { b"{\"values\":[]}" } else { b"]}" });
    charge.resize(body.text());
    Ok(response_writer::json(body.finish_charged(charge)))
}

fn parse(body: &[u8], most: usize) -> Result<Vec<Vec<u8>>, Problem> {
    let bad = |why: String| Problem::of(ProblemKind::BadBody, format!("expected {{\"keys\":[…]}}: {why}"));
    let wanted = WantedKeys::parse(body).map_err(bad)?;
    if wanted.len() > most {
        return Err(Problem::over(ProblemKind::TooManyKeys, "the number of keys", "max-pipeline", most));
    }
    wanted.into_keys().map_err(bad)
}
