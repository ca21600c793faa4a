//! `GET /openapi.json`: the description of every route.
use crate::{
    item_api::TABLE_PREFIX,
    messages::{response_body::ResponseBody, response_writer},
};
use http::Response;
use std::borrow::Cow;

/// `GET /openapi.json`. The item API's paths begin as the setting `item-prefix` says.
pub(crate) fn openapi(item_prefix: Option<&str>) -> Response<ResponseBody> {
    response_writer::json(match description(item_prefix) {
        Cow::Borrowed(text) => ResponseBody::full(text),
        Cow::Owned(text) => ResponseBody::full(text),
    })
}

/// The same as text.
pub(crate) fn description(item_prefix: Option<&str>) -> Cow<'static, str> {
    match item_prefix {
        None | Some(TABLE_PREFIX) => OPENAPI.into(),
        Some(prefix) => {
            let begin = |prefix: &str| format!("    \"{prefix}/");
            OPENAPI.replace(&begin(TABLE_PREFIX), &begin(prefix)).into()
        }
    }
}

/// The description of every route (OpenAPI 3.1), written by hand.
const OPENAPI: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use crate::routing::route_table::ROUTES;
    use std::collections::BTreeSet;

    #[test]
    fn the_description_and_the_table_have_the_same_routes() {
        let document: serde_json::Value = serde_json::from_str(super::OPENAPI).expect("valid JSON");
        let paths = document["paths"].as_object().expect("paths");
        let described: BTreeSet<_> = paths
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().expect("a path item").keys();
                methods.filter(|key| *key != "parameters").map(move |method| (path.clone(), method.to_uppercase()))
            })
            .collect();
        let mut table = BTreeSet::new();
        for route in &ROUTES {
            // HEAD goes with GET everywhere; the introduction says so once.
            table.insert((route.pattern.to_owned(), route.method.to_string()));
        }
        assert_eq!(described, table);
    }

    #[test]
    fn the_parameters_that_are_checked_are_those_of_the_description() {
        let document: serde_json::Value = serde_json::from_str(super::OPENAPI).expect("valid JSON");
        for route in &ROUTES {
            let item = &document["paths"][route.pattern];
            let operation = &item[route.method.as_str().to_ascii_lowercase()];
            let lists = [&item["parameters"], &operation["parameters"]];
            let described = lists.iter().filter_map(|list| list.as_array()).flatten().map(|parameter| {
                let target = parameter["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
                target.map_or(parameter, |pointer| document.pointer(pointer).expect("a parameter"))
            });
            let names = described
                .filter(|parameter| parameter["in"] == "query")
                .map(|parameter| parameter["name"].as_str().expect("a name").to_owned());
            let names: BTreeSet<String> = names.collect();
            if let Some(known) = route.parameters() {
                let known: BTreeSet<String> = known.iter().map(|name| (*name).to_owned()).collect();
                assert_eq!(names, known, "{} {}", route.method, route.pattern);
            }
        }
    }

    #[test]
    fn every_reference_in_the_description_leads_somewhere() {
        let document: serde_json::Value = serde_json::from_str(super::OPENAPI).expect("valid JSON");
        fn check(root: &serde_json::Value, node: &serde_json::Value) {
            match node {
                serde_json::Value::Object(map) => {
                    if let Some(target) = map.get("$ref").and_then(|target| target.as_str()) {
                        let pointer = target.strip_prefix('#').expect("a local reference");
                        assert!(root.pointer(pointer).is_some(), "{target}");
                    }
                    map.values().for_each(|node| check(root, node));
                }
                serde_json::Value::Array(list) => list.iter().for_each(|node| check(root, node)),
                _ => {}
            }
        }
        check(&document, &document);
    }
}
