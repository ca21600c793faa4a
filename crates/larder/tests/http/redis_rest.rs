//! Redis over HTTP: the same replies as the Redis door, its rights, and the answers that
//! `@upstash/redis` expects.
use super::{
    common::{RedisServer, Reply, wait_until},
    larder::{Larder, connect},
};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

/// A request with these head fields, and its answer.
fn ask_text(larder: &Larder, line: &str, fields: &str, body: &str) -> (u16, String) {
    let len = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len}\r\nconnection: close\r\n{fields}\r\n{body}"
    );
    let (status, _, body) = larder.http(&request);
    (status, String::from_utf8(body).unwrap())
}

fn ask(larder: &Larder, line: &str, fields: &str, body: &str) -> (u16, Value) {
    let (status, text) = ask_text(larder, line, fields, body);
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}")))
}

fn post(larder: &Larder, path: &str, body: &Value) -> (u16, Value) {
    ask(larder, &format!("POST {path}"), "", &body.to_string())
}

/// A reply of the Redis door, as this one writes it.
fn as_json(reply: &Reply) -> Value {
    match reply {
        Reply::Error(text) => json!({ "error": text }),
        reply => json!({ "result": value(reply) }),
    }
}

fn value(reply: &Reply) -> Value {
    match reply {
        Reply::Simple(text) | Reply::Error(text) => json!(text),
        Reply::Int(number) => json!(number),
        Reply::Bulk(None) => Value::Null,
        Reply::Bulk(Some(bytes)) => json!(String::from_utf8_lossy(bytes)),
        Reply::Array(None) => Value::Null,
        Reply::Array(Some(values)) => values.iter().map(value).collect(),
    }
}

#[test]
fn every_form_of_a_command() {
    let larder = Larder::start(&[]);
    for (line, body, status, answer) in [
        ("POST /redis", r#"["SET","k","v"]"#, 200, json!({"result": "OK"})),
        ("POST /redis", r#"["GET","k"]"#, 200, json!({"result": "v"})),
        ("POST /redis", r#"["GET","none"]"#, 200, json!({"result": null})),
        ("POST /redis", r#"["SET","n",7,"EX",100]"#, 200, json!({"result": "OK"})),
        ("POST /redis", r#"["INCRBY","n",3]"#, 200, json!({"result": 10})),
        ("POST /redis", r#"["MGET","k","none","n"]"#, 200, json!({"result": ["v", null, "10"]})),
        ("POST /redis/set/a/b%2Fc?EX=100", "", 200, json!({"result": "OK"})),
        ("GET /redis/get/a", "", 200, json!({"result": "b/c"})),
        ("GET /redis/ttl/a", "", 200, json!({"result": 100})),
        ("POST /redis/set/body?NX", "a body, \"as it is\"", 200, json!({"result": "OK"})),
        ("GET /redis/get/body", "", 200, json!({"result": "a body, \"as it is\""})),
        (
            "POST /redis/pipeline",
            r#"[["GET","k"],["INCR","k"],["GET","none"]]"#,
            200,
            json!([{"result": "v"}, {"error": "ERR value is not an integer or out of range"}, {"result": null}]),
        ),
        (
            "POST /redis/multi-exec",
            r#"[["SET","t","1"],["INCR","t"],["INCR","k"]]"#,
            200,
            json!([{"result": "OK"}, {"result": 2}, {"error": "ERR value is not an integer or out of range"}]),
        ),
        (
            "POST /redis/multi-exec",
            r#"[["SET","t","9"],["SET","t"]]"#,
            400,
            json!({"error": "EXECABORT Transaction discarded because of previous errors."}),
        ),
        ("GET /redis/get/t", "", 200, json!({"result": "2"})),
        ("POST /redis", r#"["INCR","k"]"#, 400, json!({"error": "ERR value is not an integer or out of range"})),
        ("POST /redis/pipeline", "[]", 400, json!({"error": "ERR empty pipeline request"})),
        (
            "POST /redis/multi-exec",
            r#"[["MULTI"]]"#,
            400,
            json!({"error": "ERR 'multi' cannot be a part of a transaction over HTTP"}),
        ),
        (
            "POST /redis/multi-exec",
            r#"[["EXEC"],["SET","x","1"]]"#,
            400,
            json!({"error": "ERR 'exec' cannot be a part of a transaction over HTTP"}),
        ),
        (
            "GET /redis/set/k/x",
            "",
            400,
            json!({"error": "ERR a GET without a token can only read: use POST, or send a token"}),
        ),
        (
            "GET /redis/set/k/x?_token=any",
            "",
            400,
            json!({"error": "ERR a GET without a token can only read: use POST, or send a token"}),
        ),
    ] {
        assert_eq!(ask(&larder, line, "", body), (status, answer), "{line} {body}");
    }
    for bad in ["", "{}", "[]", r#"["GET",null]"#, r#"["GET",["k"]]"#] {
        let (status, answer) = ask(&larder, "POST /redis", "", bad);
        assert_eq!(status, 400, "{bad}");
        assert!(answer["error"].as_str().unwrap().starts_with("ERR failed to parse the command: "), "{bad}: {answer}");
    }
    let base64 = "Upstash-Encoding: base64\r\n";
    assert_eq!(ask(&larder, "POST /redis", base64, r#"["SET","k","v"]"#), (200, json!({"result": "OK"})));
    assert_eq!(ask(&larder, "POST /redis", base64, r#"["MGET","k","none"]"#), (200, json!({"result": ["dg==", null]})));
    assert_eq!(larder.client().command(&["GET", "k"]), Reply::Bulk(Some(b"v".to_vec())));
}

#[test]
fn a_failed_get_is_counted() {
    let larder = Larder::start(&[]);
    let mut client = larder.client();
    assert_eq!(client.command(&["JSON.SET", "d", "$", "1"]), Reply::Simple("OK".into()));
    let (mut stream, mut answer) = (connect(larder.http), [0; 16]);
    stream.write_all(b"GET /redis/get/d HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400 Bad");
    let info = value(&client.command(&["INFO", "commandstats", "errorstats"]));
    let info = info.as_str().unwrap();
    let of_get = info.lines().find(|line| line.starts_with("cmdstat_get:")).unwrap();
    assert!(of_get.contains("calls=1,") && of_get.ends_with("failed_calls=1"), "{info}");
    assert!(info.contains("errorstat_WRONGTYPE:count=1"), "{info}");
}

/// Commands that have no reply, several, or a connection of their own.
#[test]
fn commands_about_the_connection_are_refused() {
    let larder = Larder::start(&[]);
    for command in [
        vec!["SUBSCRIBE", "c"],
        vec!["psubscribe", "c"],
        vec!["SSUBSCRIBE", "c"],
        vec!["UNSUBSCRIBE"],
        vec!["PUNSUBSCRIBE"],
        vec!["SUNSUBSCRIBE"],
        vec!["MONITOR"],
        vec!["QUIT"],
        vec!["RESET"],
        vec!["HELLO", "3"],
        vec!["CLIENT", "REPLY", "OFF"],
        vec!["CLIENT", "TRACKING", "on"],
        vec!["LARDER.REPLICATE", "1", "2", "3", "4", "5"],
    ] {
        let (status, answer) = post(&larder, "/redis", &json!(command));
        assert_eq!(status, 400, "{command:?}: {answer}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains("concerns a connection"), "{command:?}: {error}");
        let (status, answer) = post(&larder, "/redis/pipeline", &json!([["PING"], command]));
        assert_eq!(status, 400, "{command:?}: {answer}");
    }
    no_session_stays(&larder);
}

/// Only the client that asks is listed.
fn no_session_stays(larder: &Larder) {
    let mut client = larder.client();
    wait_until("sessions to end", || {
        let Reply::Bulk(Some(list)) = client.command(&["CLIENT", "LIST"]) else { panic!("no list") };
        String::from_utf8(list).unwrap().lines().count() == 1
    });
}

/// A stream begins when its command has succeeded, and ends with its client.
#[test]
fn messages_are_server_sent_events() {
    let redis = RedisServer::start();
    for source in [None, Some(format!("--source={}", redis.url()))] {
        let larder = Larder::start(&source.iter().map(String::as_str).collect::<Vec<_>>());
        let follow = |line: &str| {
            let mut stream = connect(larder.http);
            write!(stream, "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n[]").unwrap();
            stream
        };
        let mut channel = follow("POST /redis/subscribe/news");
        let head = read_until(&mut channel, "data: subscribe,news,1\n\n");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-type: text/event-stream"), "{head}");
        let mut pattern = follow("POST /redis/psubscribe/n%2A");
        read_until(&mut pattern, "data: psubscribe,n*,1\n\n");
        let mut publisher = larder.client();
        wait_until("both to listen", || publisher.command(&["PUBLISH", "news", "a,b\nc"]) == Reply::Int(2));
        read_until(&mut channel, "data: message,news,a,b\ndata: c\n\n");
        read_until(&mut pattern, "data: pmessage,n*,news,a,b\ndata: c\n\n");
        drop((channel, pattern));
        wait_until("both to be gone", || publisher.command(&["PUBLISH", "news", "x"]) == Reply::Int(0));
        drop(publisher);
        no_session_stays(&larder);
        if source.is_some() {
            let mut monitor = follow("POST /redis/monitor");
            read_until(&mut monitor, "data: \"OK\"\n\n");
            redis.command(&["SET", "seen", "1"]);
            read_until(&mut monitor, "] \"SET\" \"seen\" \"1\"\n\n");
        } else {
            let (status, answer) = ask(&larder, "GET /redis/monitor", "", "");
            assert!(status == 400 && answer["error"].as_str().unwrap().contains("MONITOR needs a Redis"), "{answer}");
        }
    }
}

fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.contains(end) {
        let mut bytes = [0; 512];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "{text}");
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    text
}

#[test]
fn tokens_pages_of_other_sites_and_rights() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users.acl");
    std::fs::write(&users, "user default off\nuser reader on >secret ~public:* +get +mget\n").unwrap();
    let larder = Larder::start(&["--users-file", users.to_str().unwrap()]);
    let basic = "Authorization: Basic cmVhZGVyOnNlY3JldA==\r\n";
    let get = r#"["GET","public:k"]"#;
    assert_eq!(ask(&larder, "POST /redis", "", get).0, 401);
    assert_eq!(ask(&larder, "POST /redis", "Authorization: Bearer wrong\r\n", get).0, 401);
    assert!(ask(&larder, "POST /redis", "", get).1["error"].is_string());
    assert_eq!(ask(&larder, "POST /redis", basic, get), (200, json!({"result": null})));
    for command in [r#"["GET","other"]"#, r#"["SET","public:k","v"]"#, r#"["FLUSHALL"]"#] {
        let (status, answer) = ask(&larder, "POST /redis", basic, command);
        assert_eq!(status, 403, "{command}");
        assert!(answer["error"].as_str().unwrap().starts_with("NOPERM"), "{command}: {answer}");
    }
    drop(larder);

    let larder = Larder::start(&["--password=secret"]);
    assert_eq!(ask(&larder, "POST /redis", "", r#"["PING"]"#).0, 401);
    assert_eq!(
        ask(&larder, "POST /redis", "Authorization: Bearer secret\r\n", r#"["PING"]"#),
        (200, json!({"result": "PONG"}))
    );
    assert_eq!(ask(&larder, "GET /redis/set/k/v?_token=secret", "", ""), (200, json!({"result": "OK"})));
    assert_eq!(ask(&larder, "GET /redis/get/k?_token=wrong", "", "").0, 401);
    drop(larder);

    let larder = Larder::start(&["--deny-commands=flushall"]);
    assert!(post(&larder, "/redis", &json!(["FLUSHALL"])).1["error"].as_str().unwrap().starts_with("NOPERM"));
    for field in ["Origin: http://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        for line in
            ["POST /redis", "POST /redis/pipeline", "POST /redis/multi-exec", "POST /redis/set/k/v", "GET /redis/get/k"]
        {
            assert_eq!(ask(&larder, line, field, r#"["PING"]"#).0, 403, "{line} {field}");
        }
    }
}

/// Random commands by both doors, each at a Larder of its own: replies are the same.
#[test]
fn random_commands_have_the_replies_of_the_redis_door() {
    let redis = [RedisServer::start(), RedisServer::start()];
    for sources in [None, Some(&redis)] {
        let arg = |number: usize| sources.map(|of: &[RedisServer; 2]| format!("--source={}", of[number].url()));
        let start = |number| Larder::start(&arg(number).iter().map(String::as_str).collect::<Vec<_>>());
        let (over_http, over_redis) = (start(0), start(1));
        let mut client = over_redis.client();
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..60 {
            let mut commands: Vec<Vec<String>> = Vec::new();
            for _ in 0..=draw(20) {
                let key = format!("k{}", draw(6));
                let value = ["1", "x y", "", "ü\n\"\\"][draw(4) as usize];
                let command = match draw(12) {
                    0 | 1 => vec!["SET", &key, value],
                    2 | 3 => vec!["GET", &key],
                    4 => vec!["INCR", &key],
                    5 => vec!["APPEND", &key, value],
                    6 => vec!["DEL", &key],
                    7 => vec!["MGET", &key, "k1", "none"],
                    8 => vec!["SET", &key, value, "NX", "GET"],
                    9 => vec!["STRLEN", &key],
                    10 => vec!["TYPE", &key],
                    _ => vec!["NOSUCHCOMMAND", &key],
                };
                commands.push(command.into_iter().map(str::to_owned).collect());
            }
            let expected: Vec<Value> = commands.iter().map(|command| as_json(&client.command(command))).collect();
            let got = match round % 2 {
                0 => post(&over_http, "/redis/pipeline", &json!(commands)),
                _ => (200, commands.iter().map(|command| post(&over_http, "/redis", &json!(command)).1).collect()),
            };
            // The client of these tests cuts spaces off errors.
            let mut got = got;
            for reply in got.1.as_array_mut().unwrap() {
                if let Some(Value::String(text)) = reply.get_mut("error") {
                    text.truncate(text.trim_end().len());
                }
            }
            assert_eq!(got, (200, Value::Array(expected)), "{commands:?}");
        }
    }
}

/// A client that goes away ends a command that waits, and only that.
#[test]
fn blocking_commands_end_with_their_request() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url()]);
    let body = r#"["BLPOP","list","0"]"#;
    let mut stream = connect(larder.http);
    let request = format!("POST /redis HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    let blocked = || {
        let Reply::Bulk(Some(info)) = redis.command(&["INFO", "clients"]) else { panic!("no INFO") };
        String::from_utf8(info).unwrap().contains("blocked_clients:1")
    };
    wait_until("BLPOP to wait", blocked);
    drop(stream);
    wait_until("BLPOP to end", || !blocked());
    redis.command(&["RPUSH", "list", "kept"]);
    assert_eq!(post(&larder, "/redis", &json!(["LLEN", "list"])), (200, json!({"result": 1})));
    assert_eq!(post(&larder, "/redis", &json!(["BLPOP", "list", 1])), (200, json!({"result": ["list", "kept"]})));
}

/// What is too much is refused with the name of the setting, and the server goes on.
#[test]
fn too_much_is_refused_before_it_is_kept() {
    let larder = Larder::start(&["--max-value=1MiB", "--max-buffers=16MiB", "--max-headers=8KiB"]);
    let nested = "[".repeat(500_000);
    let many = format!("[{}]", vec![r#"["PING"]"#; 90_000].join(","));
    let large = format!(r#"["SET","k","{}"]"#, "v".repeat(3 << 20));
    let amplified = format!("[{}]", vec![r#"["GET","big"]"#; 1000].join(","));
    let value = "v".repeat(500_000);
    assert_eq!(post(&larder, "/redis", &json!(["SET", "big", value])).0, 200);
    for (path, body, status, text) in [
        ("/redis", &nested, 400, "ERR failed to parse the command"),
        ("/redis/pipeline", &nested, 400, "ERR failed to parse the command"),
        ("/redis", &large, 413, "max-value"),
        ("/redis/pipeline", &amplified, 503, "max-buffers"),
        ("/redis/multi-exec", &amplified, 503, "max-buffers"),
    ] {
        let (got, answer) = ask(&larder, &format!("POST {path}"), "content-type: text/plain\r\n", body);
        assert!(got == status && answer["error"].as_str().unwrap().contains(text), "{path} {status}: {got} {answer}");
    }
    let (status, answer) = ask(&larder, "POST /redis/pipeline", "", &many);
    assert!(status == 200 && answer.as_array().unwrap().len() == 90_000, "{status}");
    let long = format!("GET /redis/get/{}", "k".repeat(10_000));
    let (status, answer) = ask(&larder, &long, "", "");
    assert!(status == 431 && answer["error"].as_str().unwrap().contains("max-headers"), "{status} {answer}");
    no_session_stays(&larder);
}

/// Half a request runs nothing, and a transaction runs as a whole without its client.
#[test]
fn clients_that_leave() {
    let larder = Larder::start(&[]);
    let body = r#"[["SET","a","1"],["SET","b","2"]]"#;
    let head =
        |len: usize| format!("POST /redis/multi-exec HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len}\r\n\r\n");
    let mut half = connect(larder.http);
    write!(half, "{}{body}", head(body.len() + 1)).unwrap();
    drop(half);
    for _ in 0..50 {
        larder.client().command(&["DEL", "a", "b"]);
        let mut whole = connect(larder.http);
        write!(whole, "{}{body}", head(body.len())).unwrap();
        drop(whole);
        no_session_stays(&larder);
        let Reply::Array(Some(values)) = larder.client().command(&["MGET", "a", "b"]) else { panic!("no values") };
        assert!(
            values[0] == Reply::Bulk(None) && values[1] == values[0] || values == [bulk("1"), bulk("2")],
            "{values:?}"
        );
    }
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(Some(text.into()))
}

/// A reader that takes nothing is cut off, and one that hears nothing does not outlive its client.
#[test]
fn slow_and_lost_readers() {
    let larder = Larder::start(&["--max-buffers=16MiB"]);
    let request = "POST /redis/subscribe/news HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    let mut lost = connect(larder.http);
    lost.write_all(request.as_bytes()).unwrap();
    read_until(&mut lost, "data: subscribe,news,1\n\n");
    drop(lost);
    no_session_stays(&larder);
    let mut slow = connect(larder.http);
    slow.write_all(request.as_bytes()).unwrap();
    read_until(&mut slow, "data: subscribe,news,1\n\n");
    let mut publisher = larder.client();
    let message = "m".repeat(200_000);
    wait_until("the slow reader to be cut off", || publisher.command(&["PUBLISH", "news", &message]) == Reply::Int(0));
    drop(publisher);
    no_session_stays(&larder);
    drop(slow);
}

/// Many at once: each has its own reply.
#[test]
fn many_at_once() {
    let larder = Larder::start(&["--threads=2"]);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let larder = &larder;
            scope.spawn(move || {
                let mut stream = connect(larder.http);
                // 1,250 requests one behind the other, without waiting.
                let requests: String = (0..1250)
                    .map(|number| {
                        let body = format!(r#"["SET","{client}:{number}","{number}","GET"]"#);
                        format!(
                            "POST /redis HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
                            body.len()
                        )
                    })
                    .collect();
                let mut writer = stream.try_clone().unwrap();
                scope.spawn(move || writer.write_all(requests.as_bytes()).unwrap());
                let (mut text, answer) = (String::new(), r#"{"result":null}"#);
                while text.matches(answer).count() < 1250 {
                    let mut bytes = [0; 65536];
                    let read = stream.read(&mut bytes).unwrap();
                    assert!(read > 0, "{text}");
                    text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
                }
            });
        }
    });
    assert_eq!(larder.client().command(&["DBSIZE"]), Reply::Int(10_000));
    no_session_stays(&larder);
}

#[test]
fn the_prefix_is_a_setting() {
    let get = r#"["GET","k"]"#;
    for (prefix, here, elsewhere) in
        [("/redis", "/redis", "/api"), ("api/redis", "/api/redis", "/redis"), ("/api", "/api", "/redis")]
    {
        let larder = Larder::start(&["--redis-http-prefix", prefix]);
        let ask = |line: &str, body: &str| ask(&larder, line, "", body).0;
        assert_eq!(ask(&format!("POST {here}"), get), 200, "{prefix}");
        assert_eq!(ask(&format!("POST {here}/pipeline"), &format!("[{get}]")), 200, "{prefix}");
        assert_eq!(ask(&format!("GET {here}/get/k"), ""), 200, "{prefix}");
        assert_eq!(ask(&format!("POST {elsewhere}"), get), 404, "{prefix}");
        assert_eq!(ask(&format!("GET {elsewhere}/get/k"), ""), 404, "{prefix}");
        assert_eq!(ask(&format!("POST {here}x"), get), 404, "{prefix}");
        let described = self::ask(&larder, "GET /openapi.json", "", "").1;
        assert!(described["paths"][format!("{here}/multi-exec")]["post"].is_object());
    }
    let off = Larder::start(&["--redis-http-prefix", "off"]);
    for line in ["POST /redis", "POST /redis/pipeline", "GET /redis/get/k", "POST /"] {
        let status = ask(&off, line, "", get).0;
        assert_eq!(status, if line == "POST /" { 405 } else { 404 }, "{line}");
    }
    assert!(ask(&off, "GET /openapi.json", "", "").1["paths"]["/redis"].is_null());
}

/// At the root, the other routes stay what they are.
#[test]
fn the_prefix_can_be_the_root() {
    let larder = Larder::start(&["--redis-http-prefix", "/"]);
    for (line, body, status, answer) in [
        ("POST /", r#"["SET","k","v"]"#, 200, json!({"result": "OK"})),
        ("POST /pipeline", r#"[["GET","k"]]"#, 200, json!([{"result": "v"}])),
        ("POST /multi-exec", r#"[["GET","k"]]"#, 200, json!([{"result": "v"}])),
        ("GET /get/k", "", 200, json!({"result": "v"})),
        ("POST /set/k2/v2?EX=100", "", 200, json!({"result": "OK"})),
        (
            "GET /redis/get/k",
            "",
            400,
            json!({"error": "ERR a GET without a token can only read: use POST, or send a token"}),
        ),
        ("POST /cache/v1/item", r#"{"key":"i","value":1,"ttl":100}"#, 201, json!({})),
    ] {
        let (got, text) = ask_text(&larder, line, "", body);
        assert_eq!(got, status, "{line}: {text}");
        if status != 201 {
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), answer, "{line}");
        }
    }
    for (line, status, begin) in [
        ("GET /?key=k", 200, "v"),
        ("GET /v1/kv/k", 200, "v"),
        ("GET /lookup?key=k", 200, "{\"key\": \"k\""),
        ("GET /", 400, ""),
        ("PUT /", 405, ""),
        ("POST /healthz", 405, ""),
        ("GET /cache/v1/nothing", 404, ""),
    ] {
        let (got, text) = ask_text(&larder, line, "", "");
        assert!(got == status && text.starts_with(begin), "{line}: {got} {text}");
    }
    let described = ask(&larder, "GET /openapi.json", "", "").1;
    for (path, method) in [("/", "post"), ("/", "get"), ("/pipeline", "post"), ("/{key}", "get")] {
        assert!(described["paths"][path][method].is_object(), "{method} {path}");
    }
}

/// The HTTP listener does not administer the server for clients that have shown nothing.
#[test]
fn what_administers_the_server_needs_a_login() {
    let larder = Larder::start(&[]);
    let Reply::Array(Some(table)) = larder.client().command(&["COMMAND"]) else { panic!("no table") };
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    let mut rows = table;
    while let Some(row) = rows.pop() {
        let Reply::Array(Some(mut row)) = row else { panic!("no row") };
        if let Some(Reply::Array(Some(subcommands))) = row.pop() {
            rows.extend(subcommands);
        }
        let (Value::String(name), Reply::Int(arity)) = (value(&row[0]), &row[1]) else { panic!("{row:?}") };
        let flags = value(&row[2]).to_string();
        let mut command: Vec<String> = name.split('|').map(str::to_owned).collect();
        command.resize(command.len().max(arity.unsigned_abs() as usize), "1".to_owned());
        match flags.contains("\"admin\"") {
            true => closed.push(command),
            false => open.push(command),
        }
    }
    assert!(closed.len() > 30 && open.len() > 100, "{} {}", closed.len(), open.len());
    let of_connections = ["monitor", "larder.replicate", "larder.forwarded"];
    for command in closed.iter().filter(|command| !of_connections.contains(&&*command[0])) {
        let (status, answer) = post(&larder, "/redis", &json!(command));
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(status == 403 && error.starts_with("NOPERM "), "{command:?}: {status} {answer}");
        let (_, answer) = post(&larder, "/redis/pipeline", &json!([["PING"], command]));
        assert!(answer[1]["error"].as_str().unwrap_or_default().starts_with("NOPERM "), "{command:?}: {answer}");
        let (status, answer) = post(&larder, "/redis/multi-exec", &json!([command]));
        assert!(status == 400 && answer["error"].is_string(), "{command:?}: {status} {answer}");
    }
    let waits = ["blpop", "brpop", "wait", "waitaof", "shutdown"];
    for command in open.iter().filter(|command| !waits.contains(&&*command[0])) {
        let (status, answer) = post(&larder, "/redis", &json!(command));
        assert!(status != 403, "{command:?}: {answer}");
    }
    // Where no client needs a password, a wrong one is not refused, and proves nothing.
    let config = r#"["CONFIG","SET","slowlog-max-len","7"]"#;
    let header = "Authorization: Bearer any\r\n";
    assert_eq!(ask(&larder, "POST /redis", header, config).0, 403);
    assert_eq!(ask(&larder, "POST /redis?_token=any", "", config).0, 403);
    assert_eq!(
        ask(&larder, "POST /redis/pipeline", "", &format!(r#"[["AUTH","any"],{config}]"#)).1[1]["result"],
        Value::Null
    );
    drop(larder);
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users.acl");
    let text =
        "user default on nopass +@all -flushall ~*\nuser any on nopass +@all ~*\nuser admin on >secret +@all ~*\n";
    std::fs::write(&users, text).unwrap();
    for (args, header, status) in [
        (["--password=secret"], "Authorization: Bearer secret\r\n", 200),
        (["--password=secret"], "", 401),
        ([&*format!("--users-file={}", users.to_str().unwrap())], "", 403),
        ([&*format!("--users-file={}", users.to_str().unwrap())], "Authorization: Basic YW55Om5vbmU=\r\n", 403),
        ([&*format!("--users-file={}", users.to_str().unwrap())], "Authorization: Basic YWRtaW46c2VjcmV0\r\n", 200),
    ] {
        let larder = Larder::start(&args);
        assert_eq!(ask(&larder, "POST /redis", header, config).0, status, "{args:?} {header}");
    }
    // The Redis behind has more of them.
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url(), "--forward-admin"]);
    for command in [["DEBUG", "SLEEP", "0"], ["CONFIG", "SET", "hz"], ["SHUTDOWN", "NOSAVE", "NOW"]] {
        let (status, answer) = post(&larder, "/redis", &json!(command));
        assert!((400..=403).contains(&status) && answer["error"].is_string(), "{command:?}: {status} {answer}");
    }
    assert_eq!(redis.command(&["PING"]), Reply::Simple("PONG".to_owned()));
}

#[test]
fn throttled_requests_say_when_to_come_back() {
    let larder = Larder::start(&["--throttle=1/s"]);
    let body = r#"["GET","k"]"#;
    let request = format!(
        "POST /redis HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let head = loop {
        match larder.http(&request) {
            (429, head, _) => break head,
            (status, ..) => assert_eq!(status, 200),
        }
    };
    assert!(head.to_lowercase().contains("retry-after: 1\r\n"), "{head}");
}
