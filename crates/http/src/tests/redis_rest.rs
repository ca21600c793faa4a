//! Redis over HTTP: a GET on the fast path is answered like by a session of the general path.
use super::support::{Path, Reply, Server, run};
use crate::ListenerRole;
use larder_base::telemetry::HttpRoute;
use larder_engine::{Expiry, Write};
use larder_store::clock;
use std::task::Waker;

const BASE64: &str = "Upstash-Encoding: base64\r\n";

/// The number that the next session gets.
fn next_session(server: &Server) -> u64 {
    let nowhere = || ([127, 0, 0, 1], 1).into();
    server.worker.app.clients.register(nowhere(), nowhere(), 0, 0, Waker::noop().clone()).client.id + 1
}

/// The answer of a path to a request, and the number of sessions that it needed.
async fn ask(server: &Server, path: Path, line: (&str, &str), fields: &str, body: &str) -> (Reply, u64) {
    let (fields, before) = (format!("Host: localhost\r\n{fields}"), next_session(server));
    let reply = server.request((ListenerRole::Native, path), line, &fields, body).await.timeless();
    (reply, next_session(server) - before - 1)
}

/// The answers of both paths to a request, and whether the fast path needed no session.
async fn both(server: &Server, line: (&str, &str), fields: &str, body: &str) -> (Reply, Reply, bool) {
    let (general, _) = ask(server, Path::General, line, fields, body).await;
    let (fast, sessions) = ask(server, Path::Any, line, fields, body).await;
    (fast, general, sessions == 0)
}

fn escaped(key: &[u8]) -> String {
    key.iter().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn a_get_has_the_same_bytes_on_both_paths() {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let values: Vec<(&[u8], Vec<u8>)> = vec![
        (b"k", b"a value".to_vec()),
        (b"empty", Vec::new()),
        (b"", b"of the empty key".to_vec()),
        (b"OK", b"OK".to_vec()),
        (b"a b/c+%\"\\\n", "\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f} é☃😀".into()),
        (b"\xff\x00", b"\xff\xfe\xe2\x98".to_vec()),
        ("é☃😀".as_bytes(), all_bytes.repeat(7)),
        (b"two parts of base64", all_bytes.repeat(10)),
        (b"large", vec![b'x'; 3 << 20]),
        (b"large and wild", [7, 34, 255, 92].repeat(300 << 10)),
    ];
    run(|| async {
        let server = Server::new(&[]);
        for (key, value) in &values {
            server.set(key, value);
        }
        let cache = &server.worker.groups.default().cache;
        let expired = Write { expiry: Expiry::At(clock::now() - 1), ..Write::new(b"old") };
        cache.tier().set(cache.key(b"expired"), expired, clock::now() - 1000).expect("it fits");
        let document = both(&server, ("POST", "/redis"), "", r#"["JSON.SET","typed","$","{\"a\":1}"]"#).await;
        assert_eq!((document.0.status, document.2), (200, false));
        let others = [&b"none"[..], b"expired", b"typed"];
        for key in values.iter().map(|(key, _)| *key).chain(others) {
            let path = |name: &str| format!("/redis/{name}/{}", escaped(key));
            let mut forms = vec![
                ("GET", path("get"), String::new()),
                ("GET", path("GET") + "?_token=any", String::new()),
                ("POST", path("Get"), String::new()),
            ];
            if let Ok(key) = str::from_utf8(key) {
                let key = serde_json::to_string(key).expect("a string");
                forms.push(("POST", "/redis".to_owned(), format!("[\"GET\",{key}]")));
                forms.push(("POST", "/redis?_token=any".to_owned(), format!(" [ \"gEt\" ,\n{key}\r] \t")));
            }
            for (method, target, body) in &forms {
                for fields in ["", BASE64, "Authorization: Bearer any\r\nUpstash-Telemetry-Sdk: x\r\n"] {
                    let (fast, general, alone) = both(&server, (method, target), fields, body).await;
                    let about = format!("{method} {target} {fields}: {} and {}", fast.head, general.head);
                    assert!(fast == general, "{about}");
                    assert_eq!(fast.status, if key == b"typed" { 400 } else { 200 }, "{about}");
                    assert_eq!(alone, !body.contains("\\"), "{about}");
                }
            }
        }
    });
}

/// What is no plain GET, or needs a look, is a session's, which says what is wrong.
#[test]
fn what_is_unusual_has_a_session() {
    run(|| async {
        let server = Server::new(&["--max-key=20"]);
        server.set(b"k", b"v");
        let get = r#"["GET","k"]"#;
        for (method, target, fields, body, status) in [
            ("POST", "/redis", "", r#"["GET","k","k"]"#, 400),
            ("POST", "/redis", "", r#"["GET"]"#, 400),
            ("POST", "/redis", "", r#"["STRLEN","k"]"#, 200),
            ("POST", "/redis", "", r#"["GET",7]"#, 200),
            ("POST", "/redis", "", r#"["GET","\u006b"]"#, 200),
            ("POST", "/redis", "", "[\"GET\",\"a\tb\"]", 400),
            ("POST", "/redis", "", "[\"GET\",\u{c}\"k\"]", 400),
            ("POST", "/redis", "", r#"["GET","k"] x"#, 400),
            ("POST", "/redis", "", r#"["GET","k""#, 400),
            ("POST", "/redis", "", r#"["GET" "k"]"#, 400),
            ("POST", "/redis", "", r#"["GET","longer than twenty bytes"]"#, 400),
            ("POST", "/redis", "", "", 400),
            ("POST", "/redis/", "", get, 400),
            ("POST", "/redis/get/k", "", "k", 400),
            ("POST", "/redis/pipeline", "", r#"[["GET","k"]]"#, 200),
            ("GET", "/redis", "", "", 405),
            ("GET", "/redis/get", "", "", 400),
            ("GET", "/redis/get/a/b", "", "", 400),
            ("GET", "/redis/get/%zz", "", "", 400),
            ("GET", "/redis/gets/k", "", "", 400),
            ("GET", "/redis/get/k?x", "", "", 400),
            ("GET", "/redis/get/k", "Origin: http://evil.example\r\n", "", 403),
            ("GET", "/redis/get/k", "Sec-Fetch-Site: same-origin\r\n", "", 200),
            ("POST", "/redis", "Origin: http://evil.example\r\n", get, 403),
            ("POST", "/redis", "Upstash-Encoding: base64\r\nUpstash-Encoding: x\r\n", get, 200),
            ("GET", "/redisget/k", "", "", 404),
        ] {
            let general = ask(&server, Path::General, (method, target), fields, body).await;
            let fast = ask(&server, Path::Any, (method, target), fields, body).await;
            assert_eq!(fast, general, "{method} {target} {fields} {body}");
            assert_eq!(fast.0.status, status, "{method} {target} {fields} {body}: {fast:?}");
        }
    });
}

#[test]
fn the_prefix_is_that_of_the_setting() {
    for (args, here, elsewhere) in [
        (
            &["--redis-http-prefix=/api/redis"][..],
            &["POST /api/redis", "GET /api/redis/get/k"][..],
            &["POST /redis", "GET /redis/get/k"][..],
        ),
        (&["--redis-http-prefix=off"], &[], &["POST /redis", "GET /redis/get/k", "GET /get/k"]),
        (
            &["--redis-http-prefix=/"],
            &["POST /", "GET /get/k", "POST /GET/k"],
            &[
                "POST /redis",
                "GET /redis/get/k",
                "GET /",
                "GET /get/",
                "GET /get/..%2Fcache%2Fv1%2Fitem",
                "GET /getx/k",
            ],
        ),
        (
            &["--redis-http-prefix=/", "--item-prefix=/get"],
            &["POST /"],
            &["GET /get/item", "GET /get/keys", "GET /get/x", "GET /get/item?key=k"],
        ),
    ] {
        run(|| async {
            let server = Server::new(args);
            server.set(b"k", b"v");
            for (lines, is_here) in [(here, true), (elsewhere, false)] {
                for line in lines {
                    let (method, target) = line.split_once(' ').expect("two words");
                    let body = if matches!(*line, "POST /" | "POST /redis" | "POST /api/redis") {
                        r#"["GET","k"]"#
                    } else {
                        ""
                    };
                    let (fast, general, alone) = both(&server, (method, target), "", body).await;
                    assert_eq!(fast, general, "{args:?} {line}");
                    let is_hit = fast.text() == r#"{"result":"v"}"#;
                    assert_eq!((is_hit, alone || !is_here), (is_here, true), "{args:?} {line}: {fast:?}");
                }
            }
        });
    }
}

#[test]
fn the_rules_of_the_user_hold_on_both_paths() {
    const READER: &str = "Authorization: Basic cmVhZGVyOnI=\r\n";
    const LIMITED: &str = "Authorization: Basic bGltaXRlZDps\r\n";
    run(|| async {
        let server = Server::new(&[]);
        let users = &server.worker.app.users;
        users.set("reader", &["on", ">r", "%R~shop:*", "+get"]).expect("rules");
        users.set("limited", &["on", ">l", "~*", "+@all", "-get"]).expect("rules");
        users.set("default", &["off"]).expect("a rule");
        server.set(b"shop:1", b"v");
        server.set(b"other", b"w");
        for (fields, key, status) in [
            (READER, "shop:1", 200),
            (READER, "shop:none", 200),
            (READER, "other", 403),
            (LIMITED, "shop:1", 403),
            ("", "shop:1", 401),
            ("Authorization: Bearer r\r\n", "shop:1", 200),
            ("Authorization: Bearer r\r\n", "other", 403),
            ("Authorization: Bearer wrong\r\n", "shop:1", 401),
            ("Authorization: Basic cmVhZGVyOng=\r\n", "shop:1", 401),
        ] {
            let body = format!("[\"GET\",\"{key}\"]");
            for (method, target, body) in [("POST", "/redis", &body[..]), ("GET", &format!("/redis/get/{key}"), "")] {
                let (fast, general, alone) = both(&server, (method, target), fields, body).await;
                assert_eq!((fast.status, &fast), (status, &general), "{target} {fields}");
                assert!(alone || status == 403, "{target} {fields}");
            }
        }
        // Changed rules hold for the next request of a connection.
        let mut client = server.connect().await;
        let request = format!("GET /redis/get/shop:1 HTTP/1.1\r\nHost: localhost\r\n{READER}\r\n");
        assert_eq!(client.send(&request).await.status, 200);
        users.set("reader", &["resetkeys"]).expect("a rule");
        assert_eq!(client.send(&request).await.status, 403);
        users.delete(&["reader"]);
        assert_eq!(client.send(&request).await.status, 401);
    });
    run(|| async {
        let server = Server::new(&["--password=secret", "--deny-commands=strlen"]);
        server.set(b"k", b"v");
        for (query, fields, status, is_alone) in [
            ("", "Authorization: Bearer secret\r\n", 200, true),
            ("?_token=secret", "", 200, false),
            ("?_token=secret", "Authorization: Bearer secret\r\n", 200, false),
            ("?_token=secret", "Authorization: Bearer wrong\r\n", 401, true),
            ("?_token=wrong", "", 401, true),
        ] {
            let target = format!("/redis/get/k{query}");
            let (fast, general, alone) = both(&server, ("GET", &target), fields, "").await;
            assert_eq!((fast.status, &fast, alone), (status, &general, is_alone), "{query} {fields}");
        }
    });
    run(|| async {
        let server = Server::new(&["--deny-commands=get"]);
        let (fast, general, _) = both(&server, ("POST", "/redis"), "", r#"["GET","k"]"#).await;
        assert_eq!((fast.status, &fast), (403, &general));
    });
}

/// Hits count as commands and as requests, whichever path answers.
#[test]
fn gets_are_counted_on_both_paths() {
    run(|| async {
        let server = Server::new(&[]);
        server.set(b"key", b"a value");
        let get = || server.worker.app.commands.of_name(b"get").expect("a command");
        let mut seen = Vec::new();
        for path in [Path::General, Path::Any] {
            let (before, requests) = (get(), server.worker.counters.http_routes[HttpRoute::Redis].received.get());
            for key in ["key", "none"] {
                let line = ("GET", &format!("/redis/get/{key}")[..]);
                server.request((ListenerRole::Native, path), line, "Host: localhost\r\n", "").await;
            }
            let after = get();
            let timed =
                |of: &larder_base::telemetry::CommandNumbers| of.times.as_ref().map_or(0, |times| times.count());
            seen.push((
                after.calls - before.calls,
                after.received - before.received,
                after.sent - before.sent,
                timed(&after) - timed(&before),
                server.worker.counters.http_routes[HttpRoute::Redis].received.get() - requests,
            ));
        }
        assert_eq!(seen[0], seen[1]);
        assert_eq!((seen[0].0, seen[0].3), (2, 2));
    });
}
