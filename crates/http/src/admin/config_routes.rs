//! `/v1/config`: the settings and where each comes from. `/v1/config/reload`: reads the
//! configuration again, or says what that would change.
use crate::{
    connection::connection_context::ConnectionContext,
    messages::{
        problem_json::{Problem, ProblemKind},
        response_body::ResponseBody,
        response_writer,
    },
};
use http::Response;
use larder_config::{ConfigChange, ConfigChanges, ConfigError};
use larder_core::app::App;
use serde_json::json;
use std::sync::Arc;

/// `GET /v1/config`:
/// `{"settings":[{"name","table","section","value","origin","is_set","live","help"}]}`
pub(crate) fn settings(context: &ConnectionContext) -> Response<ResponseBody> {
    let settings = context.worker.app.settings_with_origins();
    response_writer::json(ResponseBody::full(json!({ "settings": settings }).to_string()))
}

/// `GET`: `{"changes":[{"setting","from","to"}],"needs_restart":[…]}`. Nothing changes.
pub(crate) async fn differences(context: &ConnectionContext) -> Result<Response<ResponseBody>, Problem> {
    answer(context, |app| app.config_changes()).await
}

/// `POST`: the same, and the changes are made. 422 names what is wrong with the file; nothing has
/// changed then.
pub(crate) async fn reload(context: &ConnectionContext) -> Result<Response<ResponseBody>, Problem> {
    answer(context, |app| app.reload()).await
}

/// Not on the core's own thread: files are read.
async fn answer(
    context: &ConnectionContext,
    change: impl FnOnce(&App) -> Result<ConfigChanges, ConfigError> + Send + 'static,
) -> Result<Response<ResponseBody>, Problem> {
    let app: Arc<App> = context.worker.app.clone();
    let changes = tokio::task::spawn_blocking(move || change(&app)).await;
    let refused = |why: String| Problem::of(ProblemKind::ConfigRefused, why);
    let changes = changes.map_err(|error| refused(error.to_string()))?.map_err(|error| refused(error.to_string()))?;
    let list =
        |changes: &mut dyn Iterator<Item = &ConfigChange>| changes.map(|change| json!(change)).collect::<Vec<_>>();
    let answer = json!({ "changes": list(&mut changes.live()), "needs_restart": list(&mut changes.restarts()) });
    Ok(response_writer::json(ResponseBody::full(answer.to_string())))
}
