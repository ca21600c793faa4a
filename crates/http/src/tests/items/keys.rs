//! Keys by mask.
use super::{code, item, keys};
use crate::tests::support::{Server, run};
use serde_json::{Value, json};
use std::collections::HashSet;

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
