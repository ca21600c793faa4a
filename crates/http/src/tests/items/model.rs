//! Any stream of requests against a model of GCache.
use super::request;
use crate::tests::support::{Server, run};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    Post(u8, Value, i64),
    Get(u8, Option<String>, Option<i64>),
    Delete(u8),
    Keys(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = || {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[a-c<&\u{2029} ]{0,4}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    };
    let key = || 0_u8..5;
    let ttl = prop_oneof![8 => 5_i64..100, 1 => Just(4), 1 => Just(18_748_801), 1 => Just(0)];
    let step = prop_oneof![
        4 => (key(), value(), ttl).prop_map(|(key, value, ttl)| Step::Post(key, value, ttl)),
        4 => (key(), proptest::option::of("[a-d]?"), proptest::option::of(-1_i64..6)).prop_map(|(key, name, index)| Step::Get(key, name, index)),
        2 => key().prop_map(Step::Delete),
        1 => key().prop_map(Step::Keys),
    ];
    proptest::collection::vec(step, 1..40)
}

/// What GCache does, in a few lines.
fn expected(model: &mut BTreeMap<u8, Value>, step: &Step) -> (&'static str, Value, u16, Value) {
    let error = |code: u8| (400, json!({ "code": code }));
    let (method, body, (status, answer)) = match step {
        Step::Post(key, value, ttl) => {
            let body = json!({"key": key.to_string(), "value": value, "ttl": ttl});
            let valid = (5..=18_748_800).contains(ttl);
            if valid {
                model.insert(*key, value.clone());
            }
            ("POST", body.clone(), if valid { (201, body) } else { error(12) })
        }
        Step::Get(key, name, index) => {
            let mut body = json!({"key": key.to_string()});
            name.iter().for_each(|name| body["subkey"] = json!(name));
            index.iter().for_each(|index| body["subindex"] = json!(index));
            let name = name.as_deref().unwrap_or_default();
            let index = index.unwrap_or_default();
            let held = model.get(key);
            let (found, echo) = match (name, index) {
                ("", 0) => (held.cloned(), None),
                ("", index) => {
                    let element = |value: &Value| value.as_array()?.get(usize::try_from(index - 1).ok()?).cloned();
                    (held.and_then(element), Some(("subindex", json!(index))))
                }
                (name, _) => {
                    (held.and_then(|value| value.as_object()?.get(name).cloned()), Some(("subkey", json!(name))))
                }
            };
            let answer = found.map(|value| {
                let mut answer = json!({"key": key.to_string(), "value": value});
                echo.into_iter().for_each(|(name, value)| answer[name] = value);
                (200, answer)
            });
            ("GET", body, answer.unwrap_or_else(|| error(21)))
        }
        Step::Delete(key) => {
            model.remove(key);
            ("DELETE", json!({"key": key.to_string()}), (204, Value::Null))
        }
        Step::Keys(highest) => {
            let keys: Vec<_> = model.keys().filter(|key| *key <= highest).map(u8::to_string).collect();
            let mask = format!("[0-{highest}]");
            ("KEYS", json!({ "mask": mask }), (200, json!({"mask": mask, "keys": keys})))
        }
    };
    (method, body, status, answer)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_stream_of_requests_is_answered_as_the_model_says(steps in steps()) {
        run(|| async {
            let server = Server::new(&[]);
            let mut client = server.connect().await;
            let mut model = BTreeMap::new();
            for step in &steps {
                let (method, body, status, answer) = expected(&mut model, step);
                let (method, path) = if method == "KEYS" { ("GET", "keys") } else { (method, "item") };
                let reply = client.send(request(method, &format!("/cache/v1/{path}"), &body.to_string())).await;
                assert_eq!(reply.status, status, "{step:?}");
                if status == 204 {
                    continue;
                }
                let mut said = reply.json();
                if let Some(keys) = said.get_mut("keys").and_then(Value::as_array_mut) {
                    keys.sort_by_key(Value::to_string);
                }
                if status == 400 {
                    said = json!({"code": said["code"]});
                }
                assert_eq!(said, answer, "{step:?}");
            }
        });
    }
}
