//! `/metrics` and `/v1/stats`: the counters of every worker, summed.
use super::{connection_context::ConnectionContext, response_body::ResponseBody, response_writer};
use crate::telemetry;
use http::{HeaderValue, Response, header};

/// `GET /metrics`: Prometheus text.
pub(super) fn metrics(context: &ConnectionContext) -> Response<ResponseBody> {
    let text = telemetry::prometheus_text(&context.worker.app.metrics());
    let mut response = Response::new(ResponseBody::full(text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// `GET /v1/stats`: the same numbers as JSON.
pub(super) fn stats(context: &ConnectionContext) -> Response<ResponseBody> {
    let json = telemetry::stats_json(&context.worker.app.metrics());
    response_writer::json(ResponseBody::full(json.to_string()))
}
