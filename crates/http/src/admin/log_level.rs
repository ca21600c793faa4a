//! `/v1/log-level`: reads and changes the level of the log at run time.
use crate::{
    connection::connection_context::ConnectionContext,
    messages::{
        problem_json::{Problem, ProblemKind},
        response_body::ResponseBody,
        response_writer,
    },
};
use http::Response;
use larder_config::LogLevel;

/// `GET /v1/log-level`: `{"level":"info"}`
pub(crate) fn log_level(context: &ConnectionContext) -> Response<ResponseBody> {
    let level = context.worker.app.telemetry.logs.level();
    response_writer::json(ResponseBody::full(format!("{{\"level\":\"{}\"}}", level.name())))
}

/// `PUT /v1/log-level` with the level's name as the body, bare or as `{"level":"debug"}`. Holds
/// until the next start.
pub(crate) fn set_log_level(context: &ConnectionContext, body: &[u8]) -> Result<Response<ResponseBody>, Problem> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        level: String,
    }
    let name = match serde_json::from_slice::<Wanted>(body) {
        Ok(wanted) => wanted.level,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let level = LogLevel::from_name(&name).ok_or_else(|| {
        Problem::of(ProblemKind::BadBody, format!("expected a log level, one of {}", LogLevel::NAMES.join(", ")))
    })?;
    context.worker.app.telemetry.logs.set_level(level);
    Ok(log_level(context))
}
