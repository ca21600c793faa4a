//! What the process says of itself: metrics, statistics, logs.

mod access_log;
mod commands;
mod faults;
mod hot_keys;
mod logs;
mod slow_log;
mod what_if;

use crate::{common, larder};

use common::{RedisServer, Reply, wait_until};
use larder::Larder;
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};

#[test]
fn known_traffic_is_counted() {
    let source = RedisServer::start();
    source.command(&["SET", "there", "12345"]);
    let larder = Larder::start(&["--source", &source.url(), "--negative-ttl", "1h", "--max-memory", "64MiB"]);
    let mut client = larder.client();
    for _ in 0..3 {
        assert_eq!(client.command(&["GET", "there"]), Reply::bulk("12345"));
        assert_eq!(client.command(&["GET", "absent"]), Reply::nil());
    }
    client.command(&["NOSUCH"]).error();
    let (status, ..) = larder.http("GET /v1/kv/there HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(status, 200);
    let (status, ..) = larder.http("GET /v1/kv/absent HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(status, 404);
    drop(client);
    wait_until("the connections to end", || {
        larder.metric("larder_connections{protocol=\"redis\"}") == 0.0
            // This one reads the metrics.
            && larder.metric("larder_connections{protocol=\"http\"}") == 1.0
    });
    for (name, n) in [
        ("larder_cache_hits_total{group=\"default\"}", 3.0),
        ("larder_cache_negative_hits_total{group=\"default\"}", 3.0),
        ("larder_cache_entries{group=\"default\"}", 1.0),
        ("larder_cache_max_bytes{group=\"default\"}", f64::from(64 << 20)),
        ("larder_source_up{group=\"default\"}", 1.0),
        ("larder_source_fetches_total{group=\"default\"}", 2.0),
        ("larder_source_errors_total{group=\"default\"}", 0.0),
        ("larder_source_in_flight{group=\"default\"}", 0.0),
        ("larder_source_fetch_duration_seconds_count{group=\"default\"}", 2.0),
        ("larder_redis_errors_total{kind=\"ERR\"}", 1.0),
        ("larder_redis_errors_total", 1.0),
        ("larder_redis_commands_total{command=\"get\"}", 6.0),
        ("larder_http_responses_total{class=\"4xx\"}", 1.0),
        ("larder_connections_opened_total{protocol=\"redis\"}", 1.0),
        ("larder_panics_total", 0.0),
    ] {
        assert_eq!(larder.metric(name), n, "{name}");
    }
    // The requests' own bytes: three times `*2\r\n$3\r\nGET\r\n$5\r\nthere\r\n` at the least.
    assert!(larder.metric("larder_received_bytes_total{protocol=\"redis\"}") >= 72.0);
    assert!(larder.metric("larder_sent_bytes_total{protocol=\"http\"}") > 100.0);
    let stats: Value = serde_json::from_str(&larder.get("/v1/stats")).unwrap();
    assert_eq!(stats["groups"]["default"]["cache_hits"], 3);
    assert_eq!(stats["groups"]["default"]["source_fetch_duration_seconds"]["count"], 2);
}

#[test]
fn forwarded_commands_that_fail_are_errors_of_the_source() {
    let mut source = RedisServer::start();
    let larder = Larder::start(&["--source", &source.url()]);
    let mut client = larder.client();
    let errors = || larder.metric("larder_source_errors_total{group=\"default\"}");
    client.command(&["SET", "k", "v"]);
    // Redis has answered this one.
    client.command(&["HSET", "k", "a", "1"]).error();
    assert_eq!(errors(), 0.0);
    source.kill();
    client.command(&["SET", "k", "w"]).error();
    let after_one = errors();
    assert!(after_one > 0.0, "a refused write is counted");
    client.command(&["HSET", "h", "a", "1"]).error();
    assert!(errors() > after_one, "so is any other command");
}

/// Waits for the connections of all threads: one that is made while the source ends is not lost, and
/// would be connected once more.
fn until_connected(larder: &Larder, threads: u32) {
    wait_until("all threads to be connected", || {
        larder.metric("larder_source_tracking_connections{group=\"default\"}") == f64::from(threads)
    });
}

#[test]
fn json_logs_and_a_level_that_changes() {
    let mut source = RedisServer::start();
    // `Larder::start` logs from `warn` up.
    let mut larder = Larder::start(&["--source", &source.url(), "--threads", "2", "--log-format", "json"]);
    let up = |larder: &Larder, n: f64| {
        wait_until("the source's state to change", || larder.metric("larder_source_up{group=\"default\"}") == n);
    };
    until_connected(&larder, 2);
    source.kill();
    up(&larder, 0.0);
    let body = "{\"level\":\"info\"}";
    let (status, ..) = larder.admin(&format!(
        "PUT /v1/log-level HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(status, 200);
    source.restart();
    up(&larder, 1.0);
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    let text = larder.stderr();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let said = |level: &str, message: &str| {
        lines.iter().filter(|line| line["level"] == level && line["message"] == message).count()
    };
    assert!(said("WARN", "source connection lost") > 0, "{text}");
    let connected = said("INFO", "source connected");
    assert!(connected > 0, "after the change: {text}");
    let first = lines.iter().position(|line| line["level"] == "INFO").unwrap();
    let lost = lines.iter().position(|line| line["message"] == "source connection lost").unwrap();
    assert!(lost < first, "nothing below WARN was logged before the change: {text}");
}

#[test]
fn a_circuit_that_opens_and_closes_is_seen_and_logged_once() {
    let mut source = RedisServer::start();
    let mut larder = Larder::start(&["--source", &source.url(), "--coherence", "ttl"]);
    let up = |larder: &Larder, n: f64| {
        wait_until("the source's state to change", || larder.metric("larder_source_up{group=\"default\"}") == n);
    };
    let circuit = |larder: &Larder, state: &str| {
        larder.metric(&format!("larder_source_circuit{{group=\"default\",state=\"{state}\"}}")) == 1.0
    };
    up(&larder, 1.0);
    assert!(circuit(&larder, "closed"));
    source.kill();
    up(&larder, 0.0);
    let mut client = larder.client();
    let refused: Vec<String> = (0..30).map(|n| client.command(&["GET", &n.to_string()]).error().to_owned()).collect();
    assert!(circuit(&larder, "open"));
    assert!(refused[29].starts_with("ERR source unavailable: circuit open: "), "{}", refused[29]);
    assert!(larder.metric("larder_source_rejected_total{group=\"default\",reason=\"circuit\"}") >= 1.0);
    let Reply::Bulk(Some(info)) = client.command(&["INFO", "larder"]) else { panic!("INFO has no text") };
    assert!(String::from_utf8_lossy(&info).contains("\r\nlarder_source_circuit:open\r\n"));
    // Writes are not held back: the source itself says why not, once it was tried again.
    wait_until("the refusal", || {
        let refused = client.command(&["SET", "k", "v"]);
        assert!(!refused.error().contains("circuit"), "{refused:?}");
        refused.error().contains("connection refused")
    });
    source.restart();
    up(&larder, 1.0);
    for n in 0..3 {
        assert_eq!(client.command(&["GET", &format!("back {n}")]), Reply::nil(), "the first reads after the reconnect");
    }
    assert!(circuit(&larder, "closed"));
    assert_eq!(larder.metric("larder_source_circuit_opened_total{group=\"default\"}"), 1.0);
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    let text = larder.stderr();
    assert_eq!(text.matches("source circuit opened").count(), 1, "{text}");
}

#[test]
fn the_history_tells_what_happened_and_no_open_page_holds_up_the_end() {
    let mut source = RedisServer::start();
    let mut larder = Larder::start(&["--source", &source.url(), "--grace", "10m", "--source-timeout", "1s"]);
    let happened = |larder: &Larder, kind: &str| {
        let events: Value = serde_json::from_str(&larder.get("/v1/events")).unwrap();
        events["events"].as_array().unwrap().iter().any(|event| event["kind"] == kind)
    };
    wait_until("the first row", || {
        let history: Value = serde_json::from_str(&larder.get("/v1/history")).unwrap();
        !history["rows"].as_array().unwrap().is_empty()
    });
    source.kill();
    wait_until("the loss in the events", || happened(&larder, "source-lost"));
    source.restart();
    wait_until("the return in the events", || happened(&larder, "source-back"));

    let mut page = larder::connect(larder.admin);
    page.write_all(b"GET /v1/live HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    larder::skip_until(&mut page, b"event: sample");
    larder.signal(Signal::TERM);
    // A page that goes on would take all of `grace`.
    assert!(larder.wait().0.success());
    let mut rest = Vec::new();
    page.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("\"kind\":\"drain\"") || !rest.contains("event: event"), "{rest}");
    assert!(rest.ends_with("0\r\n\r\n"), "the stream has an end: {rest}");
}
