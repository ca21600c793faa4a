//! Every route, its statuses and its words.
use super::support::{Client, Path, Reply, Server, run};
use crate::ListenerRole;

async fn put(client: &mut Client, target: &str, headers: &str, value: &str) -> Reply {
    let len = value.len();
    client.send(format!("PUT {target} HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: {len}\r\n\r\n{value}")).await
}

async fn post(client: &mut Client, target: &str, body: &str) -> Reply {
    let len = body.len();
    client.send(format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n{body}")).await
}

#[test]
fn a_key_from_put_to_delete() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        assert_eq!(client.get("/v1/kv/a/b%2F%00").await.problem(), "key-not-found");
        let created = put(&mut client, "/v1/kv/a/b%2F%00?ttl=10s", "", "one").await;
        assert_eq!((created.status, created.body.len()), (201, 0));
        let got = client.get("/v1/kv/a/b%2F%00").await;
        assert_eq!((got.status, got.text()), (200, "one"));
        assert_eq!(got.header("etag"), created.header("etag"));
        assert_eq!(got.header("content-type"), Some("application/octet-stream"));
        let left = got.header("cache-control").and_then(|value| value.strip_prefix("max-age=")).expect("a lifetime");
        assert!((1..=10).contains(&left.parse().expect("a number")));
        assert_eq!(got.header("cache-status"), Some(format!("larder; hit; ttl={left}").as_str()));
        let replaced = put(&mut client, "/v1/kv/a/b%2F%00", "", "two").await;
        assert_eq!(replaced.status, 204);
        assert_ne!(replaced.header("etag"), created.header("etag"));
        let forever = client.get("/v1/kv/a/b%2F%00").await;
        assert_eq!((forever.text(), forever.header("cache-control")), ("two", None));
        assert_eq!(forever.header("cache-status"), Some("larder; hit"));
        assert_eq!(client.send("DELETE /v1/kv/a/b%2F%00 HTTP/1.1\r\nHost: h\r\n\r\n").await.status, 204);
        assert_eq!(client.send("DELETE /v1/kv/a/b%2F%00 HTTP/1.1\r\nHost: h\r\n\r\n").await.problem(), "key-not-found");
    });
}

#[test]
fn conditional_requests() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        assert_eq!(put(&mut client, "/v1/kv/a", "If-Match: *\r\n", "1").await.problem(), "precondition-failed");
        assert_eq!(put(&mut client, "/v1/kv/a", "If-None-Match: *\r\n", "1").await.status, 201);
        assert_eq!(put(&mut client, "/v1/kv/a", "If-None-Match: *\r\n", "2").await.status, 412);
        let etag = client.get("/v1/kv/a").await.header("etag").expect("a tag").to_owned();
        for (condition, status) in [
            (format!("If-None-Match: {etag}"), 304),
            (format!("If-None-Match: \"x\", W/{etag}"), 304),
            ("If-None-Match: *".to_owned(), 304),
            ("If-None-Match: \"0000000000000000\"".to_owned(), 200),
            (format!("If-Match: {etag}"), 200),
            (format!("If-Match: W/{etag}"), 412),
            ("If-Match: \"x\"".to_owned(), 412),
            (format!("If-None-Match: {}", etag.replace('"', "")), 304),
            (format!("If-Match: {}", etag.replace('"', "")), 200),
            ("If-None-Match: x".to_owned(), 200),
            ("If-Match: x".to_owned(), 412),
            ("If-None-Match: \"x".to_owned(), 400),
        ] {
            for method in ["GET", "HEAD"] {
                let reply = client.send(format!("{method} /v1/kv/a HTTP/1.1\r\nHost: h\r\n{condition}\r\n\r\n")).await;
                assert_eq!(reply.status, status, "{method} {condition}");
                if matches!(status, 200 | 304) {
                    assert_eq!(reply.header("etag"), Some(etag.as_str()));
                }
            }
        }
        let bare = format!("If-Match: {}, y\r\n", etag.replace('"', ""));
        assert_eq!(put(&mut client, "/v1/kv/a", &bare, "2").await.status, 204);
        assert_eq!(put(&mut client, "/v1/kv/a", &format!("If-Match: {etag}\r\n"), "3").await.status, 412);
        let delete = format!("DELETE /v1/kv/a HTTP/1.1\r\nHost: h\r\nIf-Match: {etag}\r\n\r\n");
        assert_eq!(client.send(delete).await.status, 412);
        assert_eq!(client.get("/v1/kv/a").await.text(), "2");
        assert_eq!(client.send("DELETE /v1/kv/a HTTP/1.1\r\nHost: h\r\nIf-Match: *\r\n\r\n").await.status, 204);
    });
}

#[test]
fn head_is_get_without_the_body() {
    run(|| async {
        let server = Server::new(&[]);
        server.set(b"a", b"12345");
        let mut client = server.connect().await;
        for target in [
            "/v1/kv/a",
            "/v1/kv/none",
            "/lookup?key=a",
            "/?key=a",
            "/v1/keys",
            "/healthz",
            "/openapi.json",
            "/v1/stats",
        ] {
            let head = client.send(format!("HEAD {target} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
            let get = client.get(target).await;
            assert_eq!((head.status, head.body.len()), (get.status, 0), "{target}");
            assert_eq!(head.header("content-type"), get.header("content-type"), "{target}");
            if target != "/v1/stats" {
                assert_eq!(head.header("content-length"), get.header("content-length"), "{target}");
            }
        }
    });
}

#[test]
fn lookup_says_exactly_this() {
    run(|| async {
        let server = Server::new(&["--max-key", "100"]);
        server.set(b"0", b"0");
        server.set(b"q\"\\", b"\xff\n");
        let long = "k".repeat(101);
        for path in [Path::Any, Path::General] {
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            for (target, status, body) in [
                ("/lookup?key=0", 200, r#"{"key": "0", "value": "0", "status": 200}"#.to_owned()),
                ("/lookup?x=y&key=0", 200, r#"{"key": "0", "value": "0", "status": 200}"#.to_owned()),
                (
                    "/lookup?key=q%22%5C",
                    200,
                    "{\"key\": \"q\\\"\\\\\", \"value\": \"\u{fffd}\\n\", \"status\": 200}".to_owned(),
                ),
                ("/lookup?key=a+b%2B", 404, r#"{"key": "a b+", "value": null, "status": 404}"#.to_owned()),
                ("/lookup", 400, r#"{"key": null, "value": null, "status": 400}"#.to_owned()),
                ("/lookup?key=", 400, r#"{"key": null, "value": null, "status": 400}"#.to_owned()),
                ("/lookup?key", 400, r#"{"key": null, "value": null, "status": 400}"#.to_owned()),
                ("/lookup?key=%zz", 400, r#"{"key": null, "value": null, "status": 400}"#.to_owned()),
                (&format!("/lookup?key={long}"), 400, format!(r#"{{"key": "{long}", "value": null, "status": 400}}"#)),
            ] {
                let reply = client.get(target).await;
                assert_eq!((reply.status, reply.text()), (status, body.as_str()), "{target}");
                let same = client.get(&format!("/v1{target}")).await;
                assert_eq!((same.status, same.text()), (status, body.as_str()), "/v1{target}");
                assert_eq!(reply.header("content-type"), Some("application/json; charset=utf-8"));
            }
        }
    });
}

#[test]
fn text_by_query() {
    run(|| async {
        let server = Server::new(&[]);
        server.set(b"a", b"value");
        let mut client = server.connect().await;
        for (target, status, body) in [("/?key=a", 200, "value"), ("/?key=b", 404, "Key not found")] {
            let reply = client.get(target).await;
            assert_eq!((reply.status, reply.text()), (status, body));
            assert!(reply.header("content-type").expect("a type").starts_with("text/plain"));
        }
        assert_eq!(client.get("/").await.status, 400);
        assert_eq!(client.get("/?key=").await.status, 400);
    });
}

#[test]
fn mget_keeps_the_order_and_loses_no_byte() {
    run(|| async {
        let server = Server::new(&["--max-pipeline", "3"]);
        server.set(b"a", b"1\"");
        server.set(b"\xff", b"\xfe");
        let mut client = server.connect().await;
        let reply = post(&mut client, "/v1/mget", r#"{"keys":[{"base64":"/w=="},"none","a"]}"#).await;
        assert_eq!((reply.status, reply.text()), (200, r#"{"values":[{"base64":"/g=="},null,"1\""]}"#));
        assert_eq!(post(&mut client, "/v1/mget", r#"{"keys":[]}"#).await.text(), r#"{"values":[]}"#);
        assert_eq!(
            post(&mut client, "/v1/groups/other/mget", r#"{"keys":["a"]}"#).await.text(),
            r#"{"values":[null]}"#
        );
        for bad in ["", "[]", r#"{"keys":[1]}"#, r#"{"keys":[],"x":1}"#, r#"{"keys":[{"base64":"?"}]}"#] {
            assert_eq!(post(&mut client, "/v1/mget", bad).await.problem(), "bad-body", "{bad}");
        }
        assert_eq!(post(&mut client, "/v1/mget", r#"{"keys":["","a"]}"#).await.text(), r#"{"values":[null,"1\""]}"#);
        let many = post(&mut client, "/v1/mget", r#"{"keys":["a","a","a","a"]}"#).await;
        assert_eq!((many.status, many.problem().as_str()), (413, "too-many-keys"));
        assert!(many.text().contains("max-pipeline"));
    });
}

#[test]
fn keys_page_by_page() {
    run(|| async {
        let server = Server::new(&[]);
        for i in 0..500 {
            server.set(format!("user:{i}").as_bytes(), b"x");
        }
        server.set(b"\xff", b"x");
        let mut client = server.connect().await;
        let (mut seen, mut cursor) = (std::collections::HashSet::new(), "0".to_owned());
        loop {
            let page = client.get(&format!("/v1/keys?match=user%3A*&cursor={cursor}&count=50")).await.json();
            let keys = page["keys"].as_array().expect("a list");
            seen.extend(keys.iter().map(|key| key.as_str().expect("text").to_owned()));
            cursor = page["cursor"].as_str().expect("text").to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), 500);
        let all = client.get("/v1/keys?match=%FF&count=10000").await.json();
        assert_eq!(all["keys"], serde_json::json!([{"base64": "/w=="}]));
        assert_eq!(client.get("/v1/keys?cursor=x").await.problem(), "bad-parameter");
        for wrong in ["match=%x", "count=10001", "count=0", "mach=user*", "count=5&Count=5"] {
            assert_eq!(client.get(&format!("/v1/keys?{wrong}")).await.problem(), "bad-parameter", "{wrong}");
        }
    });
}

#[test]
fn named_groups_are_apart_and_can_be_cleared() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        assert_eq!(put(&mut client, "/v1/groups/other/kv/a", "", "1").await.status, 201);
        assert_eq!(client.get("/v1/groups/%6Fther/kv/a").await.text(), "1");
        assert_eq!(client.get("/v1/kv/a").await.status, 404);
        assert_eq!(client.get("/v1/groups/other/keys").await.text(), r#"{"keys":["a"],"cursor":"0"}"#);
        assert_eq!(client.get("/v1/groups/none/kv/a").await.problem(), "no-such-group");
        assert_eq!(client.send("DELETE /v1/groups/other HTTP/1.1\r\nHost: h\r\n\r\n").await.status, 204);
        assert_eq!(client.get("/v1/groups/other/kv/a").await.status, 404);
        assert_eq!(client.send("DELETE /v1/groups/none HTTP/1.1\r\nHost: h\r\n\r\n").await.problem(), "no-such-group");
    });
}

#[test]
fn wrong_paths_methods_and_parameters() {
    run(|| async {
        let server = Server::new(&["--max-key", "10"]);
        let mut client = server.connect().await;
        assert_eq!(client.get("/v1/nothing").await.problem(), "no-such-route");
        assert_eq!(client.get("/v1/log-level").await.problem(), "no-such-route");
        let wrong = client.send("OPTIONS /v1/kv/a HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert_eq!((wrong.status, wrong.problem().as_str()), (405, "method-not-allowed"));
        assert_eq!(wrong.header("allow"), Some("GET, HEAD, PUT, PATCH, DELETE"));
        assert_eq!(client.get("/v1/mget").await.header("allow"), Some("POST"));
        for target in ["/v1/kv/%4", "/v1/kv/%zz"] {
            assert_eq!(client.get(target).await.problem(), "bad-key", "{target}");
        }
        let long = client.get("/v1/kv/12345678901").await;
        assert_eq!((long.status, long.problem().as_str()), (414, "key-too-large"));
        assert!(long.text().contains("max-key"));
        for target in ["/lookup?key=", "/?key=", "/v0/entity?id=", "/data/"] {
            assert_eq!(client.get(target).await.status, 400, "{target}");
        }
        let delete = client.send("DELETE /data/ HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert_eq!(delete.problem(), "bad-key", "not the empty key, but one that was left out");
        for ttl in ["10", "x", "0s", "", "-1s", "1700000d", "9999999999999999ms"] {
            assert_eq!(
                put(&mut client, &format!("/v1/kv/a?ttl={ttl}"), "", "1").await.problem(),
                "bad-parameter",
                "{ttl}"
            );
        }
        assert_eq!(client.get("/v1/kv/a").await.status, 404);
    });
}

#[test]
fn the_empty_key_is_one_like_others() {
    run(|| async {
        let server = Server::new(&[]);
        for path in [Path::Any, Path::General] {
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            assert_eq!(client.get("/v1/kv/").await.problem(), "key-not-found");
            assert_eq!(put(&mut client, "/v1/kv/", "", "v").await.status, 201);
            assert_eq!(client.get("/v1/kv/").await.text(), "v");
            assert_eq!(client.get("/v1/keys").await.text(), r#"{"keys":[""],"cursor":"0"}"#);
            assert_eq!(post(&mut client, "/v1/mget", r#"{"keys":[""]}"#).await.text(), r#"{"values":["v"]}"#);
            assert_eq!(client.get("/v1/explain/").await.status, 200);
            let delete = "DELETE /v1/kv/ HTTP/1.1\r\nHost: h\r\n\r\n";
            assert_eq!(client.send(delete).await.status, 204);
            assert_eq!(client.send(delete).await.status, 404);
        }
    });
}

#[test]
fn one_key_is_removed_and_no_other() {
    run(|| async {
        let server = Server::new(&[]);
        for key in ["k", "kk", "", "k%"] {
            server.set(key.as_bytes(), b"v");
        }
        let mut client = server.connect().await;
        let delete = |query: &str| format!("DELETE /v1/keys?{query} HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.send(delete("key=k")).await.status, 204);
        assert_eq!(client.send(delete("key=none")).await.status, 204);
        for (path, status) in [("k", 404), ("kk", 200), ("", 200), ("k%25", 200)] {
            assert_eq!(client.get(&format!("/v1/kv/{path}")).await.status, status, "{path}");
        }
        assert_eq!(client.send(delete("key=")).await.status, 204);
        assert_eq!(client.get("/v1/kv/").await.status, 404);
        for query in ["key=kk&prefix=k", "key=kk&soft", "keys=kk", ""] {
            assert_eq!(client.send(delete(query)).await.problem(), "bad-parameter", "{query}");
        }
        assert_eq!(client.send(delete("key=%z")).await.problem(), "bad-key");
        assert_eq!(client.get("/v1/kv/kk").await.status, 200);
        assert_eq!(client.send(delete("prefix=k")).await.status, 204);
        assert_eq!(client.get("/v1/kv/kk").await.status, 404);
    });
}

#[test]
fn entities_know_their_parameters() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        for (query, status) in [
            ("id=k", 201),
            ("id=k&ack=1&from=1", 201),
            ("ack=1&id=k", 201),
            ("id=k&from=1", 201),
            ("id=k&ack=0&from=1", 400),
            ("id=k&ack=2&from=1", 400),
            ("id=k&ack=1&from=2", 400),
            ("id=k&ack=x", 400),
            ("id=k&ack=-1", 400),
            ("id=k&replicas=2/3", 400),
            ("id=k&x", 400),
        ] {
            let put = put(&mut client, &format!("/v0/entity?{query}"), "", "v").await;
            assert_eq!(put.status, status, "{query}: {put:?}");
            let read = client.get(&format!("/v0/entity?{query}")).await.status;
            assert_eq!(read, if status == 201 { 200 } else { 400 }, "{query}");
            let delete = client.send(format!("DELETE /v0/entity?{query} HTTP/1.1\r\nHost: h\r\n\r\n")).await.status;
            assert_eq!(delete, if status == 201 { 202 } else { 400 }, "{query}");
        }
        let refused = put(&mut client, "/v0/entity?id=k&ack=2&from=3", "", "v").await;
        assert!(refused.text().contains("this node has 0 connected replicas"), "{refused:?}");
        assert_eq!(client.get("/v0/entities?start=a&limit=1").await.problem(), "bad-parameter");
    });
}

#[test]
fn the_admin_listener_reads_keys_and_changes_none() {
    run(|| async {
        let server = Server::new(&[]);
        server.set(b"a", b"1");
        let mut client = server.connect_to(ListenerRole::Admin, Path::Any).await;
        assert_eq!(client.get("/v1/kv/a").await.text(), "1");
        for line in [
            "PUT /v1/kv/a",
            "PATCH /v1/kv/a",
            "DELETE /v1/kv/a",
            "DELETE /v1/keys?prefix=a",
            "PUT /v1/groups/other/kv/a",
        ] {
            let reply = client.send(format!("{line} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")).await;
            assert_eq!(reply.problem(), "method-not-allowed", "{line}");
        }
        for target in ["/lookup?key=a", "/v0/entity?id=a", "/v1/range?start=a", "/cache/v1/keys"] {
            assert_eq!(client.get(target).await.problem(), "no-such-route");
        }
        for target in ["/healthz", "/readyz", "/metrics", "/v1/stats", "/openapi.json", "/v1/log-level"] {
            assert_eq!(client.get(target).await.status, 200, "{target}");
        }
    });
}
