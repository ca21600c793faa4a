//! Health, statistics, the description of the API, and control of the log.
use super::{
    Context,
    answer,
    body::Body,
    problem::{Kind, Problem},
};
use http::{Response, StatusCode};

/// `GET /healthz`: the process answers.
pub(super) fn healthy() -> Response<Body> {
    answer::text(StatusCode::OK, "ok\n")
}

/// `GET /readyz`
pub(super) fn ready(context: &Context) -> Result<Response<Body>, Problem> {
    if context.worker.app.drain.begun() {
        return Err(Problem::of(Kind::NotReady, "shutting down"));
    }
    Ok(answer::text(StatusCode::OK, "ready\n"))
}
pub(super) fn metrics(_context: &Context) -> Response<Body> {
    answer::text(StatusCode::OK, "")
}
pub(super) fn stats(_context: &Context) -> Response<Body> {
    answer::json(Body::full("{}"))
}
/// `GET /openapi.json`
pub(super) fn openapi() -> Response<Body> {
    answer::json(Body::full("{}"))
}
pub(super) fn log_level(_context: &Context) -> Response<Body> {
    answer::json(Body::full("{}"))
}
pub(super) fn set_log_level(_context: &Context, _body: &[u8]) -> Result<Response<Body>, Problem> {
    Ok(answer::json(Body::full("{}")))
}
