//! The public suites for JSONPath, JSON Patch and JSON, which `tests/install_tools` installs from npm.
use larder_document::{Edited, Patch, Path, apply, compact, find};
use serde_json::{Value, json};
use std::path::Path as FilePath;

/// Paths of the suite for JSONPath that Larder answers in another way, and why.
const DIFFERENT: [(&str, &str); 1] = [("$.1", "RedisJSON takes any name after a dot")];

fn suite(file: &str) -> Value {
    serde_json::from_str(&contents(file)).expect("a suite")
}

fn contents(file: &str) -> String {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/json/node_modules").join(file);
    let text = std::fs::read_to_string(&path);
    text.unwrap_or_else(|error| panic!("{}: {error}; run tests/install_tools", path.display()))
}

fn text(value: &Value) -> Vec<u8> {
    compact(value.to_string().as_bytes()).expect("it is JSON")
}

/// What a path finds; `None`: it is no path.
fn found(selector: &str, document: &Value) -> Option<Value> {
    let path = Path::parse(selector).ok()?;
    let text = text(document);
    let found = find(&text, &path, usize::MAX).expect("it is small");
    Some(found.into_iter().map(|found| serde_json::from_slice::<Value>(&text[found.span]).expect("a value")).collect())
}

#[test]
fn jsonpath_follows_the_compliance_suite() {
    let suite = suite("jsonpath-rfc9535/src/__tests__/jsonpath-compliance-test-suite/cts.json");
    let cases = suite["tests"].as_array().unwrap();
    assert!(cases.len() >= 687, "{}", cases.len());
    let mut different = Vec::new();
    for case in cases {
        let selector = case["selector"].as_str().unwrap();
        let found = found(selector, &case["document"]);
        let is_right = match (&case["result"], &case["results"]) {
            _ if case["invalid_selector"] == true => found.is_none(),
            (Value::Null, Value::Array(any)) => found.is_some_and(|found| any.contains(&found)),
            (result, _) => found.as_ref() == Some(result),
        };
        if !is_right {
            different.push(selector);
        }
    }
    assert_eq!(different, DIFFERENT.map(|(selector, _)| selector));
}

/// Kinds of cases that the suite has only had since the package was made.
#[test]
fn jsonpath_follows_later_cases_of_the_suite() {
    let truths = json!({"true": "A", "_foo": "B", "false": "C", "null": "D"});
    let letters = json!([{"a": 1}, {"e": 5}, {"a": 1, "b": 2}, {"d": 4, "e": 5}, {"a": 1, "b": 2, "c": 3}]);
    let quoted = json!([{"a": "True"}, {"a": true}, {"a": "Null"}, {"a": null}]);
    for (document, selector, result) in [
        (&truths, "$.true", json!(["A"])),
        (&truths, "$.false", json!(["C"])),
        (&truths, "$.null", json!(["D"])),
        (&letters, "$[?@.a && @.b && @.c]", json!([{"a": 1, "b": 2, "c": 3}])),
        (
            &letters,
            "$[?@.b || @.c || @.e && @.d]",
            json!([{"a": 1, "b": 2}, {"d": 4, "e": 5}, {"a": 1, "b": 2, "c": 3}]),
        ),
        (&letters, "$[?@.a && @.b && @.c || @.d]", json!([{"d": 4, "e": 5}, {"a": 1, "b": 2, "c": 3}])),
        (&quoted, "$[?@.a=='True']", json!([{"a": "True"}])),
        (&quoted, "$[?@.a==\"Null\"]", json!([{"a": "Null"}])),
    ] {
        assert_eq!(found(selector, document), Some(result), "{selector}");
    }
    for wrong in ["$[?length(@[1, 2])<3]", "$[?length(@['a', 'b'])<3]"] {
        assert_eq!(found(wrong, &letters), None, "{wrong}");
    }
}

#[test]
fn json_follows_the_public_suite() {
    let module = contents("json-test-suite/data/parsing.js");
    let (_, cases) = module.split_once("export default").unwrap();
    let cases: Vec<Value> = serde_json::from_str(cases.trim().trim_end_matches(';')).unwrap();
    // The package has lost the bytes that are not UTF-8.
    let kept = |case: &&Value| !case["input"].as_str().unwrap().contains('\u{fffd}');
    let mut number = 0;
    for case in cases.iter().filter(kept) {
        let (name, input) = (case["name"].as_str().unwrap(), case["input"].as_str().unwrap());
        let is_json = compact(input.as_bytes()).is_ok();
        match name.as_bytes()[0] {
            b'y' => assert!(is_json, "{name}"),
            b'n' => assert!(!is_json, "{name}"),
            _ => continue,
        }
        number += 1;
    }
    assert!(number > 250, "{number}");
}

#[test]
fn json_patch_follows_the_public_suite() {
    let mut number = 0;
    for file in ["json-patch-test-suite/tests.json", "json-patch-test-suite/spec_tests.json"] {
        for case in suite(file).as_array().unwrap().iter().filter(|case| case["disabled"] != true) {
            let Some(patch) = case.get("patch") else { continue };
            number += 1;
            let before = text(&case["doc"]);
            let patched = Patch::parse(patch.to_string().as_bytes()).and_then(|patch| patch.apply(&before, 1 << 20));
            let after = patched.map(|edited| match edited {
                Edited::Same => before.clone(),
                Edited::Part(splice) => apply(&before, &[splice]),
                Edited::Whole(whole) => whole,
            });
            let after: Option<Value> = after.ok().map(|text| serde_json::from_slice(&text).unwrap());
            match case.get("error") {
                Some(_) => assert_eq!(after, None, "{case}"),
                None => assert_eq!(after.as_ref(), Some(case.get("expected").unwrap_or(&case["doc"])), "{case}"),
            }
        }
    }
    assert!(number >= 90, "{number}");
}
