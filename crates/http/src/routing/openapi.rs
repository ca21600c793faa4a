//! `GET /openapi.json`: the description of every route (OpenAPI 3.1), made from the table of routes.
//! The responses, parameters and schemas that its rows name are in `openapi.json`.
use super::{
    route::{Route, UNDESCRIBED},
    route_request::RouteRequest,
};
use crate::{
    compat::redis_rest,
    item_api::TABLE_PREFIX,
    messages::{problem_json::Answer, response_writer},
};
use larder_config::Settings;
use serde_json::{Map, Value, json};

/// All but the paths.
const COMPONENTS: &str = include_str!("openapi.json");

/// `GET /openapi.json`. Paths begin as the settings `item-prefix` and `redis-http-prefix` say.
pub(crate) fn openapi(request: &RouteRequest<'_>, routes: &[Route]) -> Answer {
    response_writer::json_value(&description(routes, prefixes(&request.worker.app.settings)))
}

/// Prefixes in the table of routes, and those that the settings put there.
pub(crate) type Prefixes<'s> = [(&'static str, Option<&'s str>); 2];

#[cfg(test)]
pub(crate) const DEFAULT_PREFIXES: Prefixes<'static> =
    [(TABLE_PREFIX, Some(TABLE_PREFIX)), (redis_rest::TABLE_PREFIX, Some(redis_rest::TABLE_PREFIX))];

pub(crate) fn prefixes(settings: &Settings) -> Prefixes<'_> {
    let redis = settings.redis_http_prefix.as_deref().map(|prefix| prefix.trim_end_matches('/'));
    [(TABLE_PREFIX, settings.item_prefix.as_deref()), (redis_rest::TABLE_PREFIX, redis)]
}

pub(crate) fn description(routes: &[Route], prefixes: Prefixes<'_>) -> Value {
    let mut document: Value = serde_json::from_str(COMPONENTS).expect("valid JSON: a test reads it");
    for route in routes.iter().filter(|route| route.about.id != UNDESCRIBED) {
        let below = prefixes.iter().find_map(|(table, prefix)| Some((route.pattern.strip_prefix(table)?, prefix)));
        let path = match below {
            Some(("", Some(""))) => "/".to_owned(),
            Some((rest, Some(prefix))) => format!("{prefix}{rest}"),
            Some((_, None)) => continue,
            None => route.pattern.to_owned(),
        };
        document["paths"][path][route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    document
}

fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

fn operation(route: &Route) -> Value {
    let about = &route.about;
    let mut operation = json!({ "tags": [about.tag], "operationId": about.id, "summary": about.summary });
    if !about.description.is_empty() {
        operation["description"] = about.description.into();
    }
    let names = route.parameters.names;
    let has_key = route.pattern.contains("{key}") && !names.iter().any(|name| name.starts_with("path-"));
    let of_path = [("path-group", route.pattern.contains("{group}")), ("path-key", has_key)];
    let of_path = of_path.into_iter().filter_map(|(name, is_there)| is_there.then_some(name));
    let parameters: Vec<Value> =
        of_path.chain(names.iter().copied()).map(|name| reference("parameters", name)).collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if !about.body.is_empty() {
        operation["requestBody"] = reference("requestBodies", about.body);
    }
    operation["responses"] = about.answers.split(" | ").map(answer).collect::<Map<_, _>>().into();
    operation
}

/// A status and its response, from
///
/// - `4XX`: problems, those of 503 with the time to wait
/// - `200 value`: a response of the description
/// - `204 : text`: no body
/// - `200 json: text`: a JSON object; `200 History: text`: of this schema; `200 text/html: text`:
///   text of this type
fn answer(text: &str) -> (String, Value) {
    let (status, rest) = text.split_once(' ').unwrap_or((text, ""));
    let response = match rest.split_once(": ") {
        Some(("", description)) => json!({ "description": description }),
        Some((kind, description)) => {
            let (content_type, schema) = match kind {
                "json" => ("application/json", json!({ "type": "object" })),
                kind if kind.contains('/') => (kind, json!({ "type": "string" })),
                schema => ("application/json", reference("schemas", schema)),
            };
            json!({ "description": description, "content": { content_type: { "schema": schema } } })
        }
        None => reference(
            "responses",
            match (rest, status) {
                ("", "503") => "unavailable",
                ("", _) => "problem",
                (name, _) => name,
            },
        ),
    };
    (status.to_owned(), response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::route_table::ROUTES;

    #[test]
    fn every_row_but_the_console_is_described_once() {
        let document = description(ROUTES, DEFAULT_PREFIXES);
        let paths = document["paths"].as_object().expect("paths");
        let operations: usize = paths.values().map(|item| item.as_object().expect("a path item").len()).sum();
        assert_eq!(operations, ROUTES.len() - 1);
        assert_eq!(ROUTES.iter().filter(|route| route.about.id == UNDESCRIBED).count(), 1);
    }

    #[test]
    fn names_of_parameters_are_those_of_the_description() {
        let document = description(ROUTES, DEFAULT_PREFIXES);
        for (name, parameter) in document["components"]["parameters"].as_object().expect("parameters") {
            let expected = match name.split_once('-').filter(|(kind, _)| *kind == "path") {
                Some((_, "group")) => ("group", "path"),
                Some(_) => ("key", "path"),
                None if name.starts_with(|c: char| c.is_uppercase()) => (&**name, "header"),
                None => (name.split('.').next().expect("a name"), "query"),
            };
            let described = (parameter["name"].as_str(), parameter["in"].as_str());
            assert_eq!(described, (Some(expected.0), Some(expected.1)), "{name}");
        }
    }

    #[test]
    fn every_reference_in_the_description_leads_somewhere() {
        let document = description(ROUTES, DEFAULT_PREFIXES);
        fn check(root: &Value, node: &Value) {
            match node {
                Value::Object(map) => {
                    if let Some(target) = map.get("$ref").and_then(|target| target.as_str()) {
                        let pointer = target.strip_prefix('#').expect("a local reference");
                        assert!(root.pointer(pointer).is_some(), "{target}");
                    }
                    map.values().for_each(|node| check(root, node));
                }
                Value::Array(list) => list.iter().for_each(|node| check(root, node)),
                _ => {}
            }
        }
        check(&document, &document);
    }
}
