//! The item API. The facts in the tables were recorded on GCache's server.
use super::support::{Client, Path, Reply, Server, run};
use crate::{http::ListenerRole, source::test_store::MemoryStore};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{collections::BTreeMap, collections::HashSet, rc::Rc};

fn request(method: &str, target: &str, body: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

async fn item(client: &mut Client, method: &str, body: &str) -> Reply {
    client.send(request(method, "/cache/v1/item", body)).await
}

async fn keys(client: &mut Client, body: &str) -> Reply {
    client.send(request("GET", "/cache/v1/keys", body)).await
}

fn code(reply: &Reply) -> (u16, u64) {
    (reply.status, reply.json()["code"].as_u64().expect("a code"))
}

const NOT_FOUND: &str = r#"{"code":21,"reason":"value not found"}"#;
const NO_KEY: &str = r#"{"code":10,"reason":"no key provided"}"#;
const CANNOT_DECODE: &str = r#"{"code":2,"reason":"cannot decode request"}"#;
const BAD_TTL: &str = r#"{"code":12,"reason":"bad key TTL"}"#;

#[test]
fn every_recorded_answer_is_the_same() {
    run(|| async {
        let server = Server::new(&[]);
        for path in [Path::Any, Path::General] {
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            for (method, body, status, answer) in [
                ("POST", r#"{"key":"k1","value":"v1","ttl":60}"#, 201, r#"{"key":"k1","value":"v1","ttl":60}"#),
                ("GET", r#"{"key":"k1"}"#, 200, r#"{"key":"k1","value":"v1"}"#),
                (
                    "POST",
                    r#"{"key":"d","value":{"b":1.0,"a":"x<y","n":12345678901234567890},"ttl":60}"#,
                    201,
                    r#"{"key":"d","value":{"b":1.0,"a":"x\u003cy","n":12345678901234567890},"ttl":60}"#,
                ),
                ("GET", r#"{"key":"d","subkey":"a"}"#, 200, r#"{"key":"d","value":"x\u003cy","subkey":"a"}"#),
                // Not GCache's 12345678901234567000.
                ("GET", r#"{"key":"d","subkey":"n"}"#, 200, r#"{"key":"d","value":12345678901234567890,"subkey":"n"}"#),
                ("GET", r#"{"key":"d","subkey":"zz"}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"d","subindex":1}"#, 400, NOT_FOUND),
                (
                    "POST",
                    r#"{"key":"l", "value" : [ "p", 2, null, true ], "subindex":1, "subkey":"s", "ttl":5}"#,
                    201,
                    r#"{"key":"l","value":["p",2,null,true],"subkey":"s","subindex":1,"ttl":5}"#,
                ),
                ("GET", r#"{"key":"l","subindex":2}"#, 200, r#"{"key":"l","value":2,"subindex":2}"#),
                ("GET", r#"{"key":"l","subindex":3}"#, 200, r#"{"key":"l","value":null,"subindex":3}"#),
                ("GET", r#"{"key":"l","subindex":0}"#, 200, r#"{"key":"l","value":["p",2,null,true]}"#),
                ("GET", r#"{"key":"l","subindex":9}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"l","subindex":-1}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"l","subindex":-9223372036854775808}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"l","subkey":"p"}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"k1","subkey":"a"}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"k1","subindex":1}"#, 400, NOT_FOUND),
                ("GET", r#"{"key":"none"}"#, 400, NOT_FOUND),
                ("GET", "{}", 400, NO_KEY),
                ("DELETE", "{}", 400, NO_KEY),
                ("GET", "", 400, CANNOT_DECODE),
                ("DELETE", "", 400, CANNOT_DECODE),
                ("GET", "{bad", 400, CANNOT_DECODE),
                ("DELETE", "{bad", 400, CANNOT_DECODE),
                ("POST", "", 400, CANNOT_DECODE),
                ("POST", r#"{"key":"t","value":1}"#, 400, BAD_TTL),
                ("POST", r#"{"key":"t","value":1,"ttl":4}"#, 400, BAD_TTL),
                ("POST", r#"{"key":"t","value":1,"ttl":-60}"#, 400, BAD_TTL),
                ("POST", r#"{"key":"t","value":1,"ttl":18748801}"#, 400, BAD_TTL),
                ("POST", r#"{"key":"t","value":1,"ttl":18748800}"#, 201, r#"{"key":"t","value":1,"ttl":18748800}"#),
                ("POST", r#"{"key":"t","ttl":60}"#, 400, r#"{"code":11,"reason":"no value provided"}"#),
                ("POST", r#"{"key":"t","value":null,"ttl":60}"#, 201, r#"{"key":"t","value":null,"ttl":60}"#),
                ("GET", r#"{"key":"t"}"#, 200, r#"{"key":"t","value":null}"#),
                ("POST", r#"{"value":1,"ttl":60}"#, 400, NO_KEY),
                ("POST", r#"{"key":"","value":1,"ttl":60}"#, 400, NO_KEY),
                ("POST", r#"{"key":"t","value":1,"ttl":"60"}"#, 400, CANNOT_DECODE),
                ("POST", "[1]", 400, CANNOT_DECODE),
                (
                    "POST",
                    r#"{"key":"&\u2028\n","value":"\b","ttl":60,"x":[1]}"#,
                    201,
                    r#"{"key":"\u0026\u2028\n","value":"\b","ttl":60}"#,
                ),
                ("DELETE", r#"{"key":"k1"}"#, 204, ""),
                ("DELETE", r#"{"key":"k1"}"#, 204, ""),
                ("GET", r#"{"key":"k1"}"#, 400, NOT_FOUND),
            ] {
                let reply = item(&mut client, method, body).await;
                let expected = if answer.is_empty() { String::new() } else { format!("{answer}\n") };
                assert_eq!((reply.status, reply.text()), (status, expected.as_str()), "{method} {body}");
                let content_type = (!answer.is_empty()).then_some("application/json");
                assert_eq!(reply.header("content-type"), content_type, "{method} {body}");
            }
        }
    });
}

#[test]
fn keys_by_mask() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        assert_eq!(keys(&mut client, "").await.text(), "{\"mask\":\"*\",\"keys\":[]}\n");
        for key in ["k1", "k2", "k3", "d", "l", "<"] {
            item(&mut client, "POST", &json!({"key": key, "value": 1, "ttl": 60}).to_string()).await;
        }
        for (body, mask, expected) in [
            (r#"{"mask":"k[13]"}"#, "k[13]", &["k1", "k3"][..]),
            (r#"{"mask":"k[!1]"}"#, "k[!1]", &["k2", "k3"]),
            (r#"{"mask":"k[1-2]"}"#, "k[1-2]", &["k1", "k2"]),
            (r#"{"mask":"{d,l}"}"#, "{d,l}", &["d", "l"]),
            (r#"{"mask":"?"}"#, "?", &["<", "d", "l"]),
            (r#"{"mask":"none"}"#, "none", &[]),
            (r#"{"mask":""}"#, "*", &["<", "d", "k1", "k2", "k3", "l"]),
            ("{}", "*", &["<", "d", "k1", "k2", "k3", "l"]),
            ("{bad", "*", &["<", "d", "k1", "k2", "k3", "l"]),
            ("", "*", &["<", "d", "k1", "k2", "k3", "l"]),
        ] {
            let reply = keys(&mut client, body).await;
            let mut listed = reply.json();
            listed["keys"].as_array_mut().expect("a list").sort_by_key(Value::to_string);
            assert_eq!((reply.status, listed), (200, json!({"mask": mask, "keys": expected})), "{body}");
        }
        let bad = keys(&mut client, r#"{"mask":"["}"#).await;
        assert_eq!((bad.status, bad.text()), (400, "{\"code\":13,\"reason\":\"bad key mask\"}\n"));
        let by_query = client.get("/cache/v1/keys?mask=%3C").await;
        assert_eq!(by_query.text(), "{\"mask\":\"\\u003c\",\"keys\":[\"\\u003c\"]}\n");
    });
}

#[test]
fn all_keys_are_listed_once_within_the_buffers() {
    run(|| async {
        let server = Server::new(&["--max-buffers", "1MiB"]);
        let name = |number: usize| format!("{number:0100}");
        (0..5000).for_each(|number| server.set(name(number).as_bytes(), b"1"));
        let mut client = server.connect().await;
        let listed = keys(&mut client, r#"{"mask":"*"}"#).await.json();
        let listed: Vec<_> = listed["keys"].as_array().expect("a list").iter().map(Value::to_string).collect();
        assert_eq!(listed.len(), 5000);
        assert_eq!(listed.iter().collect::<HashSet<_>>().len(), 5000);
        (5000..20_000).for_each(|number| server.set(name(number).as_bytes(), b"1"));
        let full = keys(&mut client, "").await;
        assert_eq!(code(&full), (503, 21));
        assert!(full.text().contains("max-buffers"), "{full:?}");
        assert_eq!(keys(&mut client, r#"{"mask":"*99"}"#).await.json()["keys"].as_array().map(Vec::len), Some(200));
    });
}

#[test]
fn bodies_of_get_and_delete_come_in_any_form() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        item(&mut client, "POST", r#"{"key":"a","value":[1,2],"ttl":60}"#).await;
        let chunked = |method: &str, target: &str| {
            format!(
                "{method} {target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{{\"key\r\n6\r\n\":\"a\"}}\r\n0\r\n\r\n"
            )
        };
        // In one write with what the fast path answers, before and after.
        for method in ["GET", "DELETE"] {
            let mut client = server.connect().await;
            let plain = "GET /v1/kv/none HTTP/1.1\r\nHost: h\r\n\r\n";
            client.write(format!("{plain}{}{plain}", chunked(method, "/cache/v1/item"))).await;
            assert_eq!(client.reply(false).await.status, 404);
            let reply = client.reply(false).await;
            match method {
                "GET" => assert_eq!(reply.text(), "{\"key\":\"a\",\"value\":[1,2]}\n"),
                _ => assert_eq!(reply.status, 204),
            }
            assert_eq!(client.reply(false).await.status, 404);
        }
        assert_eq!(item(&mut client, "GET", r#"{"key":"a"}"#).await.text().trim(), NOT_FOUND);
        // No body at all, and one of no bytes.
        for method in ["GET", "DELETE"] {
            for header in ["", "Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n"] {
                let end = if header.starts_with('T') { "0\r\n\r\n" } else { "" };
                let reply =
                    client.send(format!("{method} /cache/v1/item HTTP/1.1\r\nHost: h\r\n{header}\r\n{end}")).await;
                assert_eq!(reply.text().trim(), CANNOT_DECODE, "{method} {header}");
            }
        }
    });
}

#[test]
fn the_query_does_for_a_body() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        let created =
            client.send(request("POST", "/cache/v1/item?key=a+b&ttl=60&value=%7B%22x%22:%20[1,2]%7D", "")).await;
        assert_eq!((created.status, created.text()), (201, "{\"key\":\"a b\",\"value\":{\"x\":[1,2]},\"ttl\":60}\n"));
        let mixed = client.send(request("POST", "/cache/v1/item?key=l&ttl=60", r#"{"value":["a","b"]}"#)).await;
        assert_eq!(mixed.status, 201);
        for (target, status, body) in [
            ("?key=a%20b", 200, r#"{"key":"a b","value":{"x":[1,2]}}"#),
            ("?key=a%20b&subkey=x", 200, r#"{"key":"a b","value":[1,2],"subkey":"x"}"#),
            ("?key=l&subindex=2", 200, r#"{"key":"l","value":"b","subindex":2}"#),
            ("?key=l&subindex=x", 400, CANNOT_DECODE),
            ("?key=", 400, NO_KEY),
            ("?x=1", 400, CANNOT_DECODE),
        ] {
            let reply = client.get(&format!("/cache/v1/item{target}")).await;
            assert_eq!((reply.status, reply.text().trim()), (status, body), "{target}");
        }
        assert_eq!(client.send("DELETE /cache/v1/item?key=l HTTP/1.1\r\nHost: h\r\n\r\n").await.status, 204);
        assert_eq!(code(&client.get("/cache/v1/item?key=l").await), (400, 21));
        let head = client.send("HEAD /cache/v1/item?key=a+b HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert_eq!((head.status, head.header("content-length")), (200, Some("34")));
    });
}

#[test]
fn paths_and_methods() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        for target in ["/cache/v1/nothing", "/cache/v1/item/x", "/cache/v1", "/cache/v1/"] {
            let reply = client.get(target).await;
            assert_eq!(
                (reply.status, reply.text()),
                (404, "{\"code\":1,\"reason\":\"endpoint not found\"}\n"),
                "{target}"
            );
        }
        assert_eq!(client.get("/cache").await.problem(), "no-such-route");
        assert_eq!(client.get("/cache/v1x").await.problem(), "no-such-route");
        for (method, target, allow) in [
            ("PUT", "item", "GET, HEAD, POST, DELETE"),
            ("PUT", "item/", "GET, HEAD, POST, DELETE"),
            ("POST", "keys", "GET, HEAD"),
        ] {
            let reply = client.send(request(method, &format!("/cache/v1/{target}"), "")).await;
            assert_eq!((reply.status, reply.text(), reply.header("allow")), (405, "", Some(allow)));
        }
        for (method, target, location) in [
            ("GET", "/cache/v1/item/", "/cache/v1/item"),
            ("DELETE", "/cache/v1/item/?key=a+b", "/cache/v1/item?key=a+b"),
            ("GET", "/cache/v1/keys/", "/cache/v1/keys"),
        ] {
            let reply = client.send(request(method, target, r#"{"key":"a"}"#)).await;
            assert_eq!((reply.status, reply.header("location")), (301, Some(location)));
        }
        let mut admin = server.connect_to(ListenerRole::Admin, Path::Any).await;
        assert_eq!(admin.get("/cache/v1/item?key=a").await.problem(), "no-such-route");
    });
}

#[test]
fn the_prefix_and_the_lifetimes_are_settings() {
    run(|| async {
        let server = Server::new(&["--item-prefix", "api/items", "--item-min-ttl", "0", "--item-max-ttl", "10s"]);
        let mut client = server.connect().await;
        let post =
            |ttl: i64| request("POST", "/api/items/item", &json!({"key": "a", "value": 1, "ttl": ttl}).to_string());
        assert_eq!(client.send(post(10)).await.status, 201);
        assert_eq!(code(&client.send(post(11)).await), (400, 12));
        assert_eq!(code(&client.send(post(-1)).await), (400, 12));
        assert_eq!(client.get("/api/items/keys").await.text(), "{\"mask\":\"*\",\"keys\":[\"a\"]}\n");
        assert_eq!(client.get("/cache/v1/keys").await.problem(), "no-such-route");
        let description = client.get("/openapi.json").await.json();
        assert!(
            description["paths"]["/api/items/item"].is_object() && description["paths"]["/cache/v1/item"].is_null()
        );
        let off = Server::new(&["--item-prefix", "off"]);
        assert_eq!(off.connect().await.get("/cache/v1/keys").await.problem(), "no-such-route");
    });
}

#[test]
fn no_prefix_hides_another_route() {
    for route in &crate::http::route_table::ROUTES {
        let first = route.pattern.split('/').nth(1).unwrap_or_default();
        assert!(first.is_empty() || first == "cache" || crate::config::RESERVED_SEGMENTS.contains(&first), "{first}");
    }
}

#[test]
fn limits_are_errors_of_the_api() {
    run(|| async {
        let server = Server::new(&["--max-key", "10", "--max-value", "100"]);
        let mut client = server.connect().await;
        let long_key = json!({"key": "k".repeat(11), "value": 1, "ttl": 60}).to_string();
        let reply = item(&mut client, "POST", &long_key).await;
        assert_eq!(code(&reply), (400, 22));
        assert!(reply.text().contains("max-key"), "{reply:?}");
        assert_eq!(code(&item(&mut client, "GET", &long_key).await), (400, 21));
        assert_eq!(item(&mut client, "DELETE", &long_key).await.status, 204);
        for len in [100, 5000] {
            let long = json!({"key": "k", "value": "v".repeat(len), "ttl": 60}).to_string();
            let reply = client.send(request("POST", "/cache/v1/item", &long)).await;
            assert_eq!(code(&reply), (400, 22));
            assert!(reply.text().contains("max-value"), "{reply:?}");
            client = server.connect().await;
        }
        let nested = format!("{{\"key\":\"k\",\"ttl\":60,\"value\":{}{}}}", "[".repeat(40), "]".repeat(40));
        assert_eq!(item(&mut client, "POST", &nested).await.status, 201);
    });
}

#[test]
fn large_values_keep_their_text() {
    run(|| async {
        let server = Server::new(&["--max-value", "8MiB"]);
        let mut client = server.connect().await;
        for text in ["plain ".repeat(100_000), "a<b&c ".repeat(100_000), "é\u{2028}".repeat(100_000)] {
            let value = json!([text, {"x": text}]);
            let posted = item(&mut client, "POST", &json!({"key": "big", "value": value, "ttl": 60}).to_string()).await;
            assert_eq!(posted.status, 201);
            assert_eq!(posted.json()["value"], value);
            assert_eq!(item(&mut client, "GET", r#"{"key":"big"}"#).await.json()["value"], value);
            assert_eq!(item(&mut client, "GET", r#"{"key":"big","subindex":2}"#).await.json()["value"], value[1]);
        }
    });
}

#[test]
fn what_other_protocols_stored_is_json_or_a_string() {
    run(|| async {
        let server = Server::new(&[]);
        for (stored, value) in [
            (&b"plain"[..], json!("plain")),
            (b"12", json!(12)),
            (b" {\"a\" : [1]}\n", json!({"a": [1]})),
            (b"{\"a\"", json!("{\"a\"")),
            (b"\xff", json!("\u{fffd}")),
            (b"", json!("")),
        ] {
            server.set(b"k", stored);
            let mut client = server.connect().await;
            let reply = item(&mut client, "GET", r#"{"key":"k"}"#).await;
            assert_eq!((reply.status, reply.json()), (200, json!({"key": "k", "value": value})));
        }
        // And the other way round.
        let mut client = server.connect().await;
        item(&mut client, "POST", r#"{"key":"k","value":{ "a" : 1 },"ttl":60}"#).await;
        assert_eq!(client.get("/v1/kv/k").await.text(), r#"{"a":1}"#);
        let left = client.get("/v1/kv/k").await;
        let left = left.header("cache-control").and_then(|value| value.strip_prefix("max-age=")).expect("a lifetime");
        assert!((58..=60).contains(&left.parse().expect("a number")));
    });
}

#[test]
fn items_of_a_store_on_this_machine() {
    run(|| async {
        let server = Server::with_source(&[], Rc::new(MemoryStore::default()));
        let mut client = server.connect().await;
        for number in 0..600 {
            let body = json!({"key": format!("k{number}"), "value": [number], "ttl": 60}).to_string();
            assert_eq!(item(&mut client, "POST", &body).await.status, 201);
        }
        assert_eq!(item(&mut client, "GET", r#"{"key":"k7","subindex":1}"#).await.json()["value"], 7);
        let listed = keys(&mut client, r#"{"mask":"k?"}"#).await.json();
        assert_eq!(listed["keys"].as_array().map(Vec::len), Some(10));
        assert_eq!(keys(&mut client, "").await.json()["keys"].as_array().map(Vec::len), Some(600));
        assert_eq!(item(&mut client, "DELETE", r#"{"key":"k7"}"#).await.status, 204);
        assert_eq!(code(&item(&mut client, "GET", r#"{"key":"k7"}"#).await), (400, 21));
    });
}

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
