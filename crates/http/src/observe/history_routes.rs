//! `/v1/history` and `/v1/events`: the last hours of the metrics, and what has happened. `/v1/record`:
//! the operations on a sample of the keys.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_body::{BodyWriter, ResponseBody},
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use http::{HeaderValue, Response, header};
use larder_base::{
    buffers::BufferKind,
    telemetry::{Event, Resolution},
};
use larder_core::app::App;
use larder_proto::http::target;
use serde_json::{Value, json};
use std::sync::Arc;

/// `GET /v1/history?resolution=1s|10s|1m&since=UNIX_SECONDS`: rows of numbers, with a description
/// of their columns.
pub(crate) async fn history(request: &RouteRequest<'_>) -> Answer {
    let resolution = match target::parameter(request.query, "resolution") {
        None | Some(b"") => Resolution::Second,
        Some(name) => Resolution::ALL
            .into_iter()
            .find(|resolution| resolution.name().as_bytes() == name)
            .ok_or_else(|| Problem::of(ProblemKind::BadParameter, "expected a `resolution` of 1s, 10s or 1m"))?,
    };
    let since = request.number("since")?.unwrap_or(0);
    let app: Arc<App> = request.worker.app.clone();
    let mut charge = app.buffers.charge(BufferKind::HttpOutput);
    let expected = app.history.rows(resolution, since).expected_bytes();
    if !charge.try_resize(expected) {
        return Err(Problem::buffers_full("the history does not fit", app.buffers.limit()));
    }
    // Not on the core's own thread: rendering takes milliseconds.
    let text = tokio::task::spawn_blocking(move || app.history.rows(resolution, since).json()).await;
    let text = text.map_err(|error| Problem::of(ProblemKind::NotReady, error.to_string()))?;
    charge.settle(text.len());
    let mut body = BodyWriter::with_capacity(0);
    body.put_bytes(text.into());
    Ok(response_writer::json(body.finish_charged(charge)))
}

/// `GET /v1/events`: `{"events":[…]}`, the oldest first.
pub(crate) fn events(request: &RouteRequest<'_>) -> Answer {
    let events: Vec<Value> = request.worker.app.history.events.list().iter().map(Event::json).collect();
    response_writer::json_value(&json!({ "events": events }))
}

/// `POST /v1/record?sample=0.1`: the operations of this share of the keys since the last such
/// request, as [`Recorder`](larder_base::telemetry::Recorder) writes them.
pub(crate) fn record(request: &RouteRequest<'_>) -> Answer {
    let text = target::parameter(request.query, "sample").map_or("1".into(), String::from_utf8_lossy);
    let sample = text.parse().ok().filter(|sample| *sample > 0.0 && *sample <= 1.0);
    let sample = sample.ok_or_else(|| {
        Problem::of(ProblemKind::BadParameter, format!("`sample`: {text:?} is not a share above 0 and up to 1"))
    })?;
    let mut response = Response::new(ResponseBody::full(request.worker.app.telemetry.recorder.take(sample)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}
