//! Limits, large values, and values of other protocols and stores.
use super::{code, item, keys, request};
use crate::tests::{
    memory_store::MemoryStore,
    support::{Server, run},
};
use serde_json::json;
use std::rc::Rc;

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
