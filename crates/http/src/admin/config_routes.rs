//! `/v1/config`: the settings and where each comes from. `/v1/config/reload`: reads the
//! configuration again, or says what that would change. `/v1/log-level`: the level of the log.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use bytes::Bytes;
use larder_config::{ConfigChange, ConfigChanges, ConfigError, LogLevel};
use larder_core::app::App;
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Handle;

/// `GET /v1/config`:
/// `{"settings":[{"name","table","section","value","origin","is_set","live","help"}]}`
pub(crate) fn settings(request: &RouteRequest<'_>) -> Answer {
    let settings = request.worker.app.settings_with_origins();
    response_writer::json_value(&json!({ "settings": settings }))
}

/// `GET`: `{"changes":[{"setting","from","to"}],"needs_restart":[…]}`. Nothing changes.
pub(crate) async fn differences(request: &RouteRequest<'_>) -> Answer {
    answer(request, |app| app.config_changes()).await
}

/// `POST`: the same, and the changes are made. 422 names what is wrong with the file; nothing has
/// changed then.
pub(crate) async fn reload(request: &RouteRequest<'_>) -> Answer {
    // It waits for the mirror's task and for writers, which other threads run, and this one.
    answer(request, |app| Handle::current().block_on(app.reload())).await
}

/// Not on the core's own thread: files are read.
async fn answer(
    request: &RouteRequest<'_>,
    change: impl FnOnce(&App) -> Result<ConfigChanges, ConfigError> + Send + 'static,
) -> Answer {
    let app: Arc<App> = request.worker.app.clone();
    let changes = tokio::task::spawn_blocking(move || change(&app)).await;
    let refused = |why: String| Problem::of(ProblemKind::ConfigRefused, why);
    let changes = changes.map_err(|error| refused(error.to_string()))?.map_err(|error| refused(error.to_string()))?;
    let list =
        |changes: &mut dyn Iterator<Item = &ConfigChange>| changes.map(|change| json!(change)).collect::<Vec<_>>();
    let answer = json!({ "changes": list(&mut changes.live()), "needs_restart": list(&mut changes.restarts()) });
    response_writer::json_value(&answer)
}

/// `GET /v1/log-level`: `{"level":"info"}`
pub(crate) fn log_level(request: &RouteRequest<'_>) -> Answer {
    let level = request.worker.app.telemetry.logs.level();
    response_writer::json_value(&json!({ "level": level.name() }))
}

/// `PUT /v1/log-level` with the level's name as the body, bare or as `{"level":"debug"}`. Holds
/// until the next start.
pub(crate) async fn set_log_level(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        level: String,
    }
    let name = match serde_json::from_slice::<Wanted>(&body) {
        Ok(wanted) => wanted.level,
        Err(_) => String::from_utf8_lossy(&body).trim().to_owned(),
    };
    let level = LogLevel::from_name(&name).ok_or_else(|| {
        Problem::of(ProblemKind::BadBody, format!("expected a log level, one of {}", LogLevel::NAMES.join(", ")))
    })?;
    request.worker.app.telemetry.logs.set_level(level);
    log_level(request)
}
