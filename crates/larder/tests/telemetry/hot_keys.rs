//! Hot keys from outside: over both protocols and both HTTP paths, in the forms of HTTP and of
//! HOTKEYS.
use crate::{common, larder};
use common::{RedisServer, Reply};
use larder::Larder;
use serde_json::Value;

fn read(larder: &Larder, key: &str, times: usize, more: &str) {
    for _ in 0..times {
        let request = format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{more}\r\n");
        larder.http(&request);
    }
}

fn rows(document: &Value, list: &str, of: &str, number: &str) -> Vec<(Value, f64)> {
    let rows = document[list].as_array().unwrap_or_else(|| panic!("{document}"));
    rows.iter().map(|row| (row[of].clone(), row[number].as_f64().unwrap())).collect()
}

#[test]
fn every_way_to_read_is_counted() {
    let larder = Larder::start(&["--threads", "2"]);
    let mut client = larder.client();
    client.command(&["SET", "user:1", "0123456789"]);
    client.command(&["SET", "big", &"x".repeat(1000)]);
    client.command(&[b"SET".as_slice(), b"\xff:1", b"v"]);
    // The fast path; the general path, because of a header that it alone looks at; the plain GETs of
    // Redis; and its other reads.
    read(&larder, "user:1", 5, "");
    read(&larder, "user:1", 4, "if-none-match: \"x\"\r\n");
    for _ in 0..8 {
        client.command(&["GET", "user:1"]);
    }
    client.command(&["MGET", "user:1", "big"]);
    client.command(&["STRLEN", "user:1"]);
    client.command(&[b"GET".as_slice(), b"\xff:1"]);
    client.command(&["GET", "missing"]);
    let document: Value = serde_json::from_str(&larder.get("/v1/hot-keys")).unwrap();
    let user = ("user:1".into(), 19.0);
    assert_eq!(rows(&document, "by_reads", "key", "reads")[0], user, "{document}");
    assert_eq!(document["reads"], 22, "{document}");
    assert_eq!(rows(&document, "by_bytes", "key", "bytes")[0], ("big".into(), 1000.0));
    assert_eq!(rows(&document, "by_misses", "key", "misses"), [("missing".into(), 1.0)]);
    assert_eq!(document["by_reads"][0]["share"], 0.8636);
    assert!(document.to_string().contains(r#""key":{"base64":"/zox"}"#), "{document}");
    assert_eq!(rows(&document["prefixes"], "by_reads", "prefix", "reads")[0], user_prefix());
    let one: Value = serde_json::from_str(&larder.get("/v1/hot-keys?count=1")).unwrap();
    assert_eq!(one["by_reads"].as_array().map(Vec::len), Some(1));
    let (status, _, body) = larder.http("GET /v1/hot-keys?count=0 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(status, 400, "{}", String::from_utf8_lossy(&body));
    let (status, ..) = larder.admin("GET /v1/hot-keys HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(status, 200);
}

fn user_prefix() -> (Value, f64) {
    ("user:".into(), 19.0)
}

#[test]
fn misses_and_time_of_the_source() {
    let source = RedisServer::start();
    source.command(&["SET", "there", "12345"]);
    let larder = Larder::start(&["--source", &source.url()]);
    let mut client = larder.client();
    for _ in 0..3 {
        assert_eq!(client.command(&["GET", "there"]), Reply::bulk("12345"));
    }
    let document: Value = serde_json::from_str(&larder.get("/v1/hot-keys")).unwrap();
    assert_eq!(rows(&document, "by_reads", "key", "reads"), [("there".into(), 3.0)]);
    assert_eq!(rows(&document, "by_misses", "key", "misses"), [("there".into(), 1.0)]);
    let time = rows(&document, "by_source_time", "key", "source_seconds");
    assert!(time.len() == 1 && time[0].1 > 0.0 && time[0].1 < 60.0, "{document}");
    assert_eq!(document["source_seconds"].as_f64(), Some(time[0].1));
}

#[test]
fn a_session_over_the_redis_protocol() {
    let larder = Larder::start(&["--threads", "2"]);
    let mut client = larder.client();
    let error = |client: &mut common::Client, command: &[&str]| client.command(command).error().to_owned();
    assert_eq!(client.command(&["HOTKEYS", "GET"]), Reply::nil());
    assert_eq!(client.command(&["HOTKEYS", "STOP"]), Reply::nil());
    for (command, expected) in [
        (&["HOTKEYS", "START"][..], "ERR METRICS parameter is required"),
        (&["HOTKEYS", "START", "METRICS", "0"], "ERR METRICS count must be > 0 and <= 2"),
        (&["HOTKEYS", "START", "METRICS", "3", "CPU", "NET"], "ERR METRICS count must be > 0 and <= 2"),
        (
            &["HOTKEYS", "START", "METRICS", "2", "CPU"],
            "ERR METRICS count does not match number of metric types provided",
        ),
        (&["HOTKEYS", "START", "METRICS", "1", "GPU"], "ERR METRICS no valid metrics passed. Supported: CPU|NET"),
        (&["HOTKEYS", "START", "METRICS", "2", "CPU", "CPU"], "ERR METRICS CPU defined more than once!"),
        (&["HOTKEYS", "START", "METRICS", "1", "CPU", "NET"], "ERR syntax error"),
        (&["HOTKEYS", "START", "METRICS", "1", "CPU", "COUNT", "65"], "ERR COUNT must be between 1 and 64"),
        (&["HOTKEYS", "START", "METRICS", "1", "CPU", "SAMPLE", "0"], "ERR SAMPLE ratio must be positive"),
        (
            &["HOTKEYS", "START", "METRICS", "1", "CPU", "SLOTS", "1", "0"],
            "ERR SLOTS parameter cannot be used in non-cluster mode",
        ),
    ] {
        assert_eq!(error(&mut client, command), expected, "{command:?}");
    }
    client.command(&["SET", "before", "x"]);
    assert_eq!(client.command(&["HOTKEYS", "START", "METRICS", "2", "GPU", "NET", "COUNT", "2"]), Reply::ok());
    // Also where the arguments would be wrong, like Redis.
    for command in [&["HOTKEYS", "START", "METRICS", "1", "CPU"][..], &["HOTKEYS", "START"]] {
        assert_eq!(error(&mut client, command), "ERR hotkey tracking session already in progress", "{command:?}");
    }
    assert_eq!(
        error(&mut client, &["HOTKEYS", "RESET"]),
        "ERR hotkey tracking session in progress, stop tracking first"
    );
    client.command(&["SET", "key", "0123456789"]);
    client.command(&["GET", "key"]);
    read(&larder, "key", 2, "");
    client.command(&["GET", "other"]);
    client.command(&["GET", "a"]);
    let fields = fields(client.command(&["HOTKEYS", "GET"]));
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "tracking-active",
            "sample-ratio",
            "selected-slots",
            "all-commands-all-slots-us",
            "net-bytes-all-commands-all-slots",
            "collection-start-time-unix-ms",
            "collection-duration-ms",
            "total-net-bytes",
            "by-net-bytes",
        ]
    );
    assert_eq!(fields[0].1, Reply::Int(1));
    assert_eq!(fields[2].1, array([array([Reply::Int(0), Reply::Int(16_383)])]));
    let bytes = array([Reply::bulk("key"), Reply::Int(4 * 13), Reply::bulk("other"), Reply::Int(5)]);
    assert_eq!(fields[8].1, bytes);
    assert_eq!(fields[7].1, Reply::Int(4 * 13 + 5 + 1));
    assert_eq!(client.command(&["HOTKEYS", "STOP"]), Reply::ok());
    client.command(&["GET", "key"]);
    let stopped = self::fields(client.command(&["HOTKEYS", "GET"]));
    assert_eq!((&stopped[0].1, &stopped[8].1), (&Reply::Int(0), &bytes));
    assert_eq!(client.command(&["HOTKEYS", "RESET"]), Reply::ok());
    assert_eq!(client.command(&["HOTKEYS", "GET"]), Reply::nil());
    assert_eq!(client.command(&["HOTKEYS", "START", "METRICS", "1", "CPU", "DURATION", "1000000"]), Reply::ok());
    (0..50).for_each(|_| drop(client.command(&["GET", "key"])));
    let fields = self::fields(client.command(&["HOTKEYS", "GET"]));
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[7..], ["total-cpu-time-user-ms", "total-cpu-time-sys-ms", "by-cpu-time-us"]);
    let Reply::Array(Some(by_cpu)) = &fields[9].1 else { panic!("{fields:?}") };
    let (key, micros) = (&by_cpu[0], by_cpu[1].int());
    assert_eq!(key, &Reply::bulk("key"));
    assert!(micros > 0 && micros <= fields[3].1.int(), "{fields:?}");
}

fn array(parts: impl Into<Vec<Reply>>) -> Reply {
    Reply::Array(Some(parts.into()))
}

/// The names and values of the reply, which has one map.
fn fields(reply: Reply) -> Vec<(String, Reply)> {
    let Reply::Array(Some(nodes)) = reply else { panic!("{reply:?}") };
    let [Reply::Array(Some(parts))] = &nodes[..] else { panic!("{nodes:?}") };
    let name = |reply: &Reply| match reply {
        Reply::Bulk(Some(name)) => String::from_utf8_lossy(name).into_owned(),
        other => panic!("{other:?}"),
    };
    parts.chunks(2).map(|pair| (name(&pair[0]), pair[1].clone())).collect()
}

#[test]
fn only_those_who_may_read_all_keys_see_them() {
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users.acl");
    std::fs::write(
        &users,
        "user default off\nuser boss on >b ~* &* +@all\nuser some on >s ~user:* +@all\nuser plain on >p ~* +@read\n",
    )
    .unwrap();
    let larder = Larder::start(&["--users-file", users.to_str().unwrap()]);
    for (credentials, expected) in [("boss:b", 200), ("some:s", 403), ("plain:p", 403)] {
        use base64::{Engine, prelude::BASE64_STANDARD};
        let header = BASE64_STANDARD.encode(credentials);
        let request = format!(
            "GET /v1/hot-keys HTTP/1.1\r\nhost: x\r\nauthorization: Basic {header}\r\nconnection: close\r\n\r\n"
        );
        let (status, _, body) = larder.http(&request);
        assert_eq!(status, expected, "{credentials}: {}", String::from_utf8_lossy(&body));
    }
    let mut plain = larder.client();
    plain.command(&["AUTH", "plain", "p"]);
    assert!(plain.command(&["HOTKEYS", "GET"]).error().starts_with("NOPERM"), "@admin");
}
