//! Faults to order, from outside: each at its place, seen by clients, metrics and the list, until
//! it ends.
use crate::{common, larder, peers::fleet::Fleet};
use common::{RedisServer, Reply, wait_until};
use larder::{Larder, connect};
use serde_json::Value;
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

fn request(larder: &Larder, method: &str, path: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let (status, _, body) = larder.admin(&format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{status}: {}", String::from_utf8_lossy(&body))))
}

fn order(larder: &Larder, fault: &str) -> Value {
    let (status, fault) = request(larder, "POST", "/v1/faults", fault);
    assert_eq!(status, 201, "{fault}");
    fault
}

/// How long all fetches took together, as the metrics have it.
fn fetched_for(larder: &Larder) -> f64 {
    larder.metric("larder_source_fetch_duration_seconds_sum{group=\"default\"}")
}

fn clear(larder: &Larder) {
    assert_eq!(request(larder, "DELETE", "/v1/faults", "").0, 200);
}

fn read(larder: &Larder, key: &str) -> (u16, String) {
    let (status, _, body) = larder.http(&format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    (status, String::from_utf8(body).unwrap())
}

#[test]
fn without_the_setting_there_are_none() {
    let larder = Larder::start(&["--source", "demo:"]);
    let (status, problem) = request(&larder, "POST", "/v1/faults", r#"{"at":"source","kind":"error","duration":"1m"}"#);
    assert_eq!((status, problem["type"].as_str()), (403, Some("/problems/faults-not-allowed")));
    assert!(problem["detail"].as_str().unwrap().contains("`allow-faults`"), "{problem}");
    assert_eq!(request(&larder, "GET", "/v1/faults", ""), (200, serde_json::json!({"allowed": false, "faults": []})));
    assert_eq!(read(&larder, "a").0, 200);
}

#[test]
fn what_cannot_be_ordered_is_named() {
    let larder = Larder::start(&["--allow-faults"]);
    for (fault, named) in [
        (r#"{"kind":"error","duration":"1m"}"#, "at"),
        (
            r#"{"at":"tape","kind":"error","duration":"1m"}"#,
            "`at`: \"tape\" is none of source, http, redis, memcached, disk, peers, clock",
        ),
        (r#"{"at":"http","kind":"error","duration":"1m"}"#, "`kind`: \"error\" is none of delay, cut"),
        (r#"{"at":"http","kind":"delay","duration":"1m"}"#, "`delay` is missing"),
        (r#"{"at":"http","kind":"delay","delay":"2m","duration":"1m"}"#, "`delay`: 2m is not above 0 and up to 1m"),
        (r#"{"at":"http","kind":"cut","delay":"1s","duration":"1m"}"#, "`delay` is not for faults of kind cut"),
        (r#"{"at":"http","kind":"cut","duration":"2h"}"#, "`duration`: 2h is not above 0 and up to 1h"),
        (r#"{"at":"http","kind":"cut"}"#, "duration"),
        (r#"{"at":"http","kind":"cut","duration":"1m","share":0}"#, "`share`: 0 is not above 0 and up to 1"),
        (r#"{"at":"http","kind":"cut","duration":"1m","group":"default"}"#, "`group` is not for faults at http"),
        (r#"{"at":"source","kind":"cut","duration":"1m","group":"none"}"#, "there is no group none"),
        (r#"{"at":"http","kind":"cut","duration":"1m","part":1}"#, "part"),
        (r#"{"at":"clock","kind":"jump","duration":"1m"}"#, "`jump` is missing"),
        (r#"{"at":"clock","kind":"jump","jump":"1h","duration":"1m"}"#, "`jump`: 1h begins with neither + nor -"),
        (r#"{"at":"clock","kind":"jump","jump":"+31d","duration":"1m"}"#, "`jump`: 31d is not above 0 and up to"),
        (
            r#"{"at":"clock","kind":"jump","jump":"+1h","share":0.5,"duration":"1m"}"#,
            "`share` is not for faults at clock",
        ),
        (r#"{"at":"disk","kind":"full","jump":"+1h","duration":"1m"}"#, "`jump` is not for faults of kind full"),
        (r#"{"at":"peers","kind":"full","duration":"1m"}"#, "`kind`: \"full\" is none of delay, error, cut"),
    ] {
        let (status, problem) = request(&larder, "POST", "/v1/faults", fault);
        assert_eq!(status, 400, "{fault}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(named), "{fault}: {problem}");
    }
}

#[test]
fn a_source_fails_and_delays_until_the_fault_ends() {
    let larder = Larder::start(&["--source", "demo:", "--allow-faults", "--source-timeout", "2s"]);
    let fault = order(&larder, r#"{"at":"source","kind":"error","duration":"10m","group":"default"}"#);
    assert_eq!((&fault["id"], &fault["kind"], &fault["share"]), (&1.into(), &"error".into(), &1.0.into()));
    let (status, body) = read(&larder, "a");
    assert!(status == 503 && body.contains("injected fault (POST /v1/faults)"), "{status} {body}");
    let error = larder.client().command(&["GET", "a"]).error().to_owned();
    assert!(error.starts_with("ERR source unavailable: injected fault"), "{error}");
    assert_eq!(larder.metric("larder_faults{at=\"source\"}"), 1.0);
    assert_eq!(larder.metric("larder_faults_struck_total{at=\"source\"}"), 2.0);
    assert_eq!(larder.metric("larder_source_errors_total{group=\"default\"}"), 2.0);
    let (_, list) = request(&larder, "GET", "/v1/faults", "");
    assert_eq!((&list["allowed"], &list["faults"][0]["struck"]), (&true.into(), &2.into()), "{list}");
    // A misspelt `id` must not end all faults.
    let (status, problem) = request(&larder, "DELETE", "/v1/faults?ids=7", "");
    assert_eq!((status, problem["type"].as_str()), (400, Some("/problems/bad-parameter")), "{problem}");
    assert_eq!(larder.metric("larder_faults{at=\"source\"}"), 1.0);
    clear(&larder);
    assert_eq!(read(&larder, "a").0, 200);
    order(&larder, r#"{"at":"source","kind":"delay","delay":"300ms","duration":"10m"}"#);
    let begun = Instant::now();
    assert_eq!(read(&larder, "b").0, 200);
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    assert!(fetched_for(&larder) >= 0.3, "the source seems slower: {}", fetched_for(&larder));
    clear(&larder);
    order(&larder, r#"{"at":"source","kind":"delay","delay":"30s","duration":"10m"}"#);
    let (status, body) = read(&larder, "c");
    assert!(status == 503 && body.contains("source-timeout"), "{status} {body}");
    clear(&larder);
    order(&larder, r#"{"at":"source","kind":"error","duration":"400ms"}"#);
    wait_until("the fault to end by itself", || read(&larder, "d").0 == 200);
    assert_eq!(larder.metric("larder_faults{at=\"source\"}"), 0.0);
}

#[test]
fn connections_to_a_redis_are_cut_and_come_back() {
    let source = RedisServer::start();
    source.command(&["SET", "k", "v"]);
    let larder = Larder::start(&["--source", &source.url(), "--allow-faults"]);
    let mut client = larder.client();
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    order(&larder, r#"{"at":"source","kind":"cut","duration":"10m"}"#);
    wait_until("the source to be lost", || larder.metric("larder_source_up{group=\"default\"}") == 0.0);
    assert!(client.command(&["GET", "other"]).error().starts_with("ERR source unavailable"));
    assert!(client.command(&["SET", "k", "w"]).error().starts_with("ERR source unavailable"));
    assert_eq!(source.command(&["GET", "k"]), Reply::bulk("v"));
    clear(&larder);
    // The client's thread may be the second to be connected.
    wait_until("the source to be back", || client.command(&["SET", "k", "w"]) == Reply::ok());
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("w"));
    order(&larder, r#"{"at":"source","kind":"error","duration":"10m"}"#);
    let error = client.command(&["SET", "k", "x"]).error().to_owned();
    assert!(error.contains("injected fault"), "{error}");
    let errors = || larder.metric("larder_source_errors_total{group=\"default\"}");
    let before = errors();
    client.command(&["SET", "k", "x"]).error();
    assert_eq!(errors(), before + 1.0, "a command that a fault fails is an error of the source");
    assert_eq!(source.command(&["GET", "k"]), Reply::bulk("w"));
    clear(&larder);
    order(&larder, r#"{"at":"source","kind":"delay","delay":"250ms","duration":"10m"}"#);
    let begun = Instant::now();
    assert_eq!(client.command(&["SET", "k", "x"]), Reply::ok());
    assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
    let before = fetched_for(&larder);
    assert_eq!(client.command(&["GET", "slow"]), Reply::nil());
    assert!(fetched_for(&larder) - before >= 0.25, "{before} to {}", fetched_for(&larder));
}

#[test]
fn listeners_delay_requests_and_cut_connections() {
    let larder = Larder::start(&["--allow-faults"]);
    let mut client = larder.client();
    client.command(&["SET", "k", "v"]);
    let mut kept = connect(larder.http);
    let mut get = || {
        let begun = Instant::now();
        kept.write_all(b"GET /v1/kv/k HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        larder::skip_until(&mut kept, b"\r\n\r\nv");
        begun.elapsed()
    };
    get();
    order(&larder, r#"{"at":"redis","kind":"delay","delay":"200ms","duration":"10m"}"#);
    order(&larder, r#"{"at":"http","kind":"delay","delay":"300ms","duration":"10m"}"#);
    for _ in 0..2 {
        let begun = Instant::now();
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
        assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
        let took = get();
        assert!(took >= Duration::from_millis(300), "{took:?}");
    }
    clear(&larder);
    order(&larder, r#"{"at":"http","kind":"cut","duration":"10m"}"#);
    order(&larder, r#"{"at":"redis","kind":"cut","duration":"10m"}"#);
    for port in [larder.http, larder.redis] {
        let mut stream = connect(port);
        let _ = stream.write_all(b"GET /v1/kv/k HTTP/1.1\r\nhost: x\r\n\r\n");
        let mut read = Vec::new();
        // An end or a reset.
        let _ = stream.read_to_end(&mut read);
        assert!(read.is_empty(), "{}", String::from_utf8_lossy(&read));
    }
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"), "connections that were there go on");
    clear(&larder);
    assert_eq!(read(&larder, "k"), (200, "v".into()));
}

#[test]
fn a_disk_is_full_until_the_fault_ends() {
    let folder = tempfile::tempdir().unwrap();
    let source = format!("disk:{}", folder.path().join("store").display());
    let larder = Larder::start(&["--source", &source, "--allow-faults", "--max-keys", "1"]);
    let mut client = larder.client();
    assert_eq!(client.command(&["SET", "kept", "v"]), Reply::ok());
    order(&larder, r#"{"at":"disk","kind":"full","duration":"10m"}"#);
    let error = client.command(&["SET", "lost", "v"]).error().to_owned();
    assert!(error.contains("No space left on device (os error 28): injected fault"), "{error}");
    let put = "PUT /v1/kv/lost HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1\r\n\r\nv";
    assert_eq!(larder.http(put).0, 503);
    assert_eq!(client.command(&["GET", "lost"]), Reply::nil(), "reads go on");
    assert_eq!(client.command(&["GET", "kept"]), Reply::bulk("v"));
    assert_eq!(larder.metric("larder_faults{at=\"disk\"}"), 1.0);
    assert_eq!(larder.metric("larder_faults_struck_total{at=\"disk\"}"), 2.0);
    assert_eq!(larder.metric("larder_source_errors_total{group=\"default\"}"), 2.0);
    clear(&larder);
    assert_eq!(client.command(&["SET", "lost", "v"]), Reply::ok());
    order(&larder, r#"{"at":"disk","kind":"delay","delay":"250ms","duration":"10m"}"#);
    let begun = Instant::now();
    let before = fetched_for(&larder);
    assert_eq!(client.command(&["GET", "kept"]), Reply::bulk("v"));
    assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
    assert!(fetched_for(&larder) - before >= 0.25, "{before} to {}", fetched_for(&larder));
    clear(&larder);
    order(&larder, r#"{"at":"disk","kind":"error","group":"default","duration":"10m"}"#);
    let error = client.command(&["GET", "absent"]).error().to_owned();
    assert!(error.contains("injected fault"), "{error}");
}

#[test]
fn the_clock_goes_wrong_and_right_again() {
    let larder = Larder::start(&["--allow-faults"]);
    let mut client = larder.client();
    let system = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let off_by = |client: &mut common::Client| match client.command(&["TIME"]) {
        Reply::Array(Some(parts)) => match &parts[0] {
            Reply::Bulk(Some(seconds)) => std::str::from_utf8(seconds).unwrap().parse::<i64>().unwrap() - system(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    client.command(&["SET", "hour", "v", "EX", "3600"]);
    client.command(&["SET", "day", "v", "EX", "86400"]);
    assert!(off_by(&mut client).abs() <= 1);
    let fault = order(&larder, r#"{"at":"clock","kind":"jump","jump":"+2h","duration":"10m"}"#);
    assert_eq!(fault["jump"], "+2h");
    let left = |larder: &Larder| request(larder, "GET", "/v1/faults", "").1["faults"][0]["seconds_left"].as_f64();
    assert!(left(&larder).is_some_and(|left| left > 500.0 && left <= 600.0), "it does not end by its own jump");
    assert!((off_by(&mut client) - 7200).abs() <= 1);
    assert_eq!(client.command(&["GET", "hour"]), Reply::nil(), "its end has passed");
    assert_eq!(client.command(&["GET", "day"]), Reply::bulk("v"));
    order(&larder, r#"{"at":"clock","kind":"jump","jump":"-3h","duration":"300ms"}"#);
    wait_until("the second jump to end", || {
        request(&larder, "GET", "/v1/faults", "").1["faults"].as_array().unwrap().len() == 1
    });
    assert!((off_by(&mut client) - 7200).abs() <= 1);
    clear(&larder);
    assert!(off_by(&mut client).abs() <= 1);
}

#[test]
fn nodes_lose_each_other() {
    let fleet = Fleet::over("http", 2, &["--source", "demo:", "--allow-faults", "--hot-copy-ttl", "0"]);
    let key = fleet.key_of(1);
    let fetches = |node: usize| fleet.nodes[node].metric("larder_source_fetches_total{group=\"default\"}");
    order(&fleet.nodes[0], r#"{"at":"peers","kind":"cut","duration":"10m"}"#);
    let before = (fetches(0), fetches(1));
    assert_eq!(read(&fleet.nodes[0], &key).0, 200);
    assert_eq!((fetches(0), fetches(1)), (before.0 + 1.0, before.1), "it asks the source itself");
    assert!(fleet.nodes[0].metric("larder_faults_struck_total{at=\"peers\"}") >= 1.0);
    clear(&fleet.nodes[0]);
    let mut keys = fleet.keys_of(1).skip(1);
    wait_until("the owner to be asked again", || {
        let before = fetches(1);
        assert_eq!(read(&fleet.nodes[0], &keys.next().unwrap()).0, 200);
        fetches(1) > before
    });
}
