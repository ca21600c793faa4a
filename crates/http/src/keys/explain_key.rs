//! `GET /v1/explain/{key}`: what is in memory for a key, and what a read of it would do.
use crate::{
    messages::{problem_json::Problem, response_body::ResponseBody, response_writer},
    routing::route_request::RouteRequest,
};
use http::Response;
use larder_core::read::{Fact, explain_key as explain};
use serde_json::{Map, Value};

/// The facts of LARDER.EXPLAIN as a JSON object, with `_` for `-` in their names. A tag that is not
/// UTF-8 is shown with U+FFFD.
pub(crate) fn explain_key(request: &RouteRequest<'_>) -> Result<Response<ResponseBody>, Problem> {
    let key = request.key()?;
    let (group, app) = (request.group, &request.worker.app);
    let is_up = app.groups.of(group).source.health().is_up();
    let facts = explain(group, group.cache.key(&key), is_up, request.now);
    let value = |fact: Fact| match fact {
        Fact::Text(text) => Value::from(text),
        Fact::Number(number) => Value::from(number),
        Fact::Tags(tags) => tags.iter().map(|tag| String::from_utf8_lossy(tag)).collect(),
    };
    let facts: Map<String, Value> =
        facts.into_iter().map(|(name, fact)| (name.replace('-', "_"), value(fact))).collect();
    Ok(response_writer::json(ResponseBody::full(Value::from(facts).to_string())))
}
