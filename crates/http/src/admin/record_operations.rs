//! `POST /v1/record`: the recorded operations of a sample of the keys.
use crate::{
    connection::connection_context::ConnectionContext,
    messages::{
        problem_json::{Problem, ProblemKind},
        response_body::ResponseBody,
    },
};
use http::{HeaderValue, Response, header};
use larder_proto::http::target;

/// `POST /v1/record?sample=0.1`: the operations of this share of the keys since the last such
/// request, as [`Recorder`](larder_base::telemetry::Recorder) writes them.
pub(crate) fn record(context: &ConnectionContext, query: &[u8]) -> Result<Response<ResponseBody>, Problem> {
    let text = target::parameter(query, "sample").map_or("1".into(), String::from_utf8_lossy);
    let sample = text.parse().ok().filter(|sample| *sample > 0.0 && *sample <= 1.0);
    let sample = sample.ok_or_else(|| {
        Problem::of(ProblemKind::BadParameter, format!("`sample`: {text:?} is not a share above 0 and up to 1"))
    })?;
    let mut response = Response::new(ResponseBody::full(context.worker.app.telemetry.recorder.take(sample)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}
