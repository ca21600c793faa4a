//! The lines of the log, from outside.
use super::until_connected;
use crate::{common, larder};
use common::{RedisServer, wait_until};
use larder::{Larder, connect, skip_until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;

fn lines(larder: &mut Larder) -> Vec<Value> {
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    larder.stderr().lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn of<'l>(lines: &'l [Value], message: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["message"] == message).collect()
}

#[test]
fn each_event_of_a_source_has_one_line() {
    let mut source = RedisServer::start();
    let mut larder =
        Larder::start(&["--source", &source.url(), "--threads", "4", "--log-level=info", "--log-format", "json"]);
    let up = |larder: &Larder, n: f64| {
        wait_until("the source's state to change", || larder.metric("larder_source_up{group=\"default\"}") == n);
    };
    until_connected(&larder, 4);
    source.kill();
    up(&larder, 0.0);
    source.restart();
    up(&larder, 1.0);
    let lines = lines(&mut larder);
    assert_eq!(of(&lines, "source connected").len(), 2, "{lines:?}");
    // It may be back before it is tried. A thread that never had a connection may be the first to notice.
    let (lost, down) = (of(&lines, "source connection lost").len(), of(&lines, "source is down").len());
    assert!(matches!((lost, down), (1, 0) | (0, 1) | (1, 1)), "{lines:?}");
    let started = of(&lines, "started");
    assert_eq!(started.len(), 1);
    assert_eq!(started[0]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(started[0]["threads"], 4);
    assert!(started[0]["groups"].as_str().unwrap().starts_with("default: 128MiB in front of redis://"), "{started:?}");
    assert_eq!(of(&lines, "stopping: no new connections are accepted").len(), 1);
    assert_eq!(lines.last().unwrap()["message"], "stopped", "{lines:?}");
}

#[test]
fn a_clean_stop_in_front_of_a_live_source_warns_of_nothing() {
    let source = RedisServer::start();
    source.command(&["SET", "a", "1"]);
    let mut larder = Larder::start(&["--source", &source.url(), "--threads", "2", "--log-format", "json"]);
    until_connected(&larder, 2);
    larder.client().command(&["GET", "a"]);
    assert_eq!(lines(&mut larder), Vec::<Value>::new());
}

#[test]
fn a_log_that_nobody_reads_does_not_stop_the_server() {
    let mut larder = Larder::start(&["--log-level=debug", "--grace", "2s"]);
    let mut stream = connect(larder.http);
    let mut requests = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".repeat(199);
    requests.extend_from_slice(b"GET /v1/kv/absent HTTP/1.1\r\nhost: x\r\n\r\n");
    // More lines than the pipe and the process hold: standard error is not read before the end.
    wait_until("lines to be dropped", || {
        stream.write_all(&requests).unwrap();
        skip_until(&mut stream, b"HTTP/1.1 404");
        larder.metric("larder_dropped_log_lines_total") > 0.0
    });
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    assert!(larder.stderr().lines().count() > 100);
}

#[test]
fn the_access_log_by_rule_and_what_debug_shows() {
    let slow = ["--source", "demo:", "--allow-faults", "--ttl", "1h", "--log-level=info", "--log-format", "json"];
    let mut larder = Larder::start(&[&slow[..], &["--access-log-slower-than", "100ms"]].concat());
    let get = |larder: &Larder, key: &str| {
        larder.http(&format!(
            "GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nx-request-id: of-{key}\r\nconnection: close\r\n\r\n"
        ))
    };
    let post = |larder: &Larder, method: &str, path: &str, body: &str| {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n");
        assert!(larder.admin(&format!("{head}\r\n{body}")).0 < 300);
    };
    assert_eq!(get(&larder, "quick").0, 200);
    post(&larder, "POST", "/v1/faults", r#"{"at":"source","kind":"delay","delay":"150ms","duration":"10m"}"#);
    assert_eq!(get(&larder, "slow").0, 200);
    assert_eq!(get(&larder, "slow").0, 200, "a hit");
    post(&larder, "DELETE", "/v1/faults", "");
    post(&larder, "POST", "/v1/faults", r#"{"at":"source","kind":"error","duration":"10m"}"#);
    assert_eq!(get(&larder, "failed").0, 503);
    post(&larder, "PUT", "/v1/log-level", "debug");
    assert_eq!(get(&larder, "again").0, 503);
    assert_eq!(get(&larder, "slow").0, 200);
    drop(larder.client().command(&["PING"]));
    let lines = lines(&mut larder);
    let requests = of(&lines, "request");
    let one = |id: &str| requests.iter().filter(|line| line["request_id"] == id).collect::<Vec<_>>();
    assert!(one("of-quick").is_empty(), "{requests:?}");
    let slow = one("of-slow");
    assert_eq!(slow.len(), 2, "the slow one, and a hit at level debug: {requests:?}");
    assert_eq!((&slow[0]["outcome"], &slow[0]["level"]), (&"origin".into(), &"INFO".into()));
    assert!(slow[0]["fetch_micros"].as_u64().unwrap() >= 100_000, "{slow:?}");
    let [queue, source] = ["queue_micros", "source_micros"].map(|phase| slow[0][phase].as_u64().unwrap());
    assert!(source >= 100_000 && Some(queue + source) == slow[0]["fetch_micros"].as_u64(), "{slow:?}");
    assert!(slow[0]["micros"].as_u64().unwrap() >= slow[0]["fetch_micros"].as_u64().unwrap(), "{slow:?}");
    assert_eq!((&slow[1]["outcome"], &slow[1]["level"]), (&"hit".into(), &"DEBUG".into()));
    assert_eq!(one("of-failed")[0]["status"], 503);
    assert_eq!(of(&lines, "fetch failed")[0]["key"], "again", "{lines:?}");
    for message in ["HTTP client connected", "HTTP client disconnected", "Redis client connected"] {
        assert!(!of(&lines, message).is_empty(), "{message}: {lines:?}");
    }
}
