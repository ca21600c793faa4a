//! `GET /v1/slow-log`: the latest Redis commands that took long, and the latency events.
use crate::{
    messages::{
        problem_json::{Answer, Problem},
        response_body::BodyWriter,
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use larder_base::{buffers::BufferKind, telemetry::SlowEntry};
use larder_proto::{
    http::text::Sink,
    resp::{View, view},
};
use serde_json::{Value, json};

/// Entries if the client names no `count`.
const USUAL_COUNT: usize = 128;
const MOST_COUNT: usize = 10_000;

/// `GET /v1/slow-log?count=`: `{"slower_than_micros", "max_len", "entries": [{"id", "at", "micros",
/// "command": ["GET", "k"], "client", "client_name"}], "events": [{"name", "at", "latest_ms",
/// "longest_ms"}]}`. Times in milliseconds since the Unix epoch.
pub(crate) fn slow_log(request: &RouteRequest<'_>) -> Answer {
    let count = request.count(USUAL_COUNT, 0..=MOST_COUNT)?;
    let slow = &request.worker.app.telemetry.slow;
    let events = slow.events().into_iter().map(|event| {
        json!({
            "name": event.name,
            "at": event.at * 1000,
            "latest_ms": event.latest,
            "longest_ms": event.longest,
        })
    });
    let slower_than = json!(slow.logs_from().map(|from| from.as_micros() as u64));
    let (max_len, events) = (slow.max_len(), Value::from_iter(events));
    let buffers = &request.worker.app.buffers;
    let (mut body, mut charge) = (BodyWriter::with_capacity(1024), buffers.charge(BufferKind::HttpOutput));
    let head =
        format!("{{\"slower_than_micros\":{slower_than},\"max_len\":{max_len},\"events\":{events},\"entries\":[");
    body.put(head.as_bytes());
    for (index, entry) in slow.latest(count).iter().enumerate() {
        if index > 0 {
            body.put(b",");
        }
        body.put(described(entry).to_string().as_bytes());
        if !body.charge_all(&mut charge) {
            return Err(Problem::buffers_full("the list does not fit", buffers.limit()));
        }
    }
    body.put(b"]}");
    Ok(response_writer::json(body.finish_charged(charge)))
}

fn described(entry: &SlowEntry) -> Value {
    let mut command = Vec::new();
    if let Ok(View::Array(mut args)) = view(&entry.args) {
        while let Some(arg) = args.next_raw() {
            if let Ok(View::Bulk(text)) = view(arg) {
                command.push(String::from_utf8_lossy(text).into_owned());
            }
        }
    }
    json!({
        "id": entry.id,
        "at": entry.at.as_millis() as u64,
        "micros": entry.took.as_micros() as u64,
        "command": command,
        "client": entry.client.to_string(),
        "client_name": &*entry.name,
    })
}
