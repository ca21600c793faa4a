//! HTTP from outside: the real binary, curl, and a real redis-server behind it.

use crate::{common, larder, source_conformance::scripted_origin};

mod cache_suite;
mod large_values;
mod origin;
mod plain_routes;
mod redis_rest;

use common::{RedisServer, Reply, wait_until};
use larder::Larder;
use std::{
    io::Write,
    process::{Command, Stdio},
};

/// What curl printed: the status, then the body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// Runs curl with these arguments and, for `--data-binary @-`, this input.
pub(crate) fn curl_with(input: &[u8], args: &[&str]) -> Answer {
    let headers = tempfile::NamedTempFile::new().unwrap();
    let mut curl = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20", "--dump-header"])
        .arg(headers.path())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Curl may have stopped reading when it got its answer.
    let _ = curl.stdin.take().unwrap().write_all(input);
    let output = curl.wait_with_output().unwrap();
    assert!(output.status.success(), "curl {args:?}: {}", output.status);
    let headers = std::fs::read_to_string(headers.path()).unwrap();
    // After a `100 Continue` the last block counts.
    let headers = headers.trim_end().rsplit("\r\n\r\n").next().unwrap().to_string();
    let status = headers.split(' ').nth(1).unwrap().trim().parse().unwrap();
    Answer { status, headers, body: output.stdout }
}

pub(crate) fn curl(args: &[&str]) -> Answer {
    curl_with(b"", args)
}

#[test]
fn every_version_of_http_serves_the_same() {
    let larder = Larder::start(&[]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", larder.http);
    // Large enough for several of HTTP/2's windows, and with every byte.
    let value: Vec<u8> = (0..3 << 20).map(|i: u32| (i ^ i >> 8) as u8).collect();
    for version in ["--http1.1", "--http2-prior-knowledge", "--http1.0"] {
        let key = url(&format!("/v1/kv/{version}/a%20b"));
        let put = curl_with(&value, &[version, "-X", "PUT", "--data-binary", "@-", &format!("{key}?ttl=1h")]);
        assert_eq!(put.status, 201, "{version}");
        let get = curl(&[version, &key]);
        assert_eq!(get.status, 200);
        assert!(get.body == value, "{version}");
        let etag = get.header("etag").unwrap();
        assert_eq!(put.header("etag"), Some(etag));
        let head = curl(&[version, "--head", "-o", "/dev/null", &key]);
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.header("content-length"), Some("3145728"));
        let again = curl(&[version, "-H", &format!("If-None-Match: {etag}"), &key]);
        assert_eq!((again.status, again.body.len()), (304, 0));
        assert_eq!(curl(&[version, "-X", "DELETE", &key]).status, 204);
        assert_eq!(curl(&[version, &key]).status, 404);
    }
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_is_sent() {
    let larder = Larder::start(&["--max-value", "1MiB"]);
    let url = format!("http://127.0.0.1:{}/v1/kv/a", larder.http);
    let value = vec![b'x'; 8 << 20];
    for expect in ["Expect: 100-continue", "Expect:"] {
        let put = curl_with(&value, &["-X", "PUT", "-H", expect, "--data-binary", "@-", &url]);
        assert_eq!(put.status, 413, "{expect}");
        assert!(put.text().contains("max-value"), "{}", put.text());
    }
    assert_eq!(curl(&[&url]).status, 404);
}

#[test]
fn lookups_through_a_redis_that_comes_and_goes() {
    let mut redis = RedisServer::start();
    redis.command(&["SET", "a", "1"]);
    redis.command(&["SET", "b", "2"]);
    redis.command(&["LPUSH", "list", "x"]);
    let larder = Larder::start(&["--source", &redis.url(), "--ttl", "1h"]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", larder.http);
    wait_until("ready", || curl(&[&url("/readyz")]).status == 200);

    let lookup = |key: &str| {
        let answer = curl(&[&url(&format!("/lookup?key={key}"))]);
        (answer.status, answer.text().to_owned())
    };
    assert_eq!(lookup("a"), (200, r#"{"key": "a", "value": "1", "status": 200}"#.to_owned()));
    assert_eq!(lookup("none"), (404, r#"{"key": "none", "value": null, "status": 404}"#.to_owned()));
    assert_eq!(curl(&[&url("/v1/kv/list")]).status, 502);

    redis.kill();
    assert_eq!(lookup("a").0, 200);
    wait_until("the loss to be noticed", || lookup("b").0 == 503);
    assert_eq!(lookup("b").1, r#"{"key": "b", "value": null, "status": 503}"#);
    let put = curl_with(b"3", &["-X", "PUT", "--data-binary", "@-", &url("/v1/kv/a")]);
    assert_eq!((put.status, put.header("retry-after")), (503, Some("1")));
    let degraded = || {
        let answer = curl(&[&url("/readyz")]);
        assert_eq!(answer.status, 200, "what is cached outlives the source: {}", answer.text());
        answer.text().starts_with("degraded: the source of group `default` is lost: ")
    };
    wait_until("that it says so", degraded);

    redis.restart();
    redis.command(&["SET", "b", "2"]);
    wait_until("service to return", || lookup("b") == (200, r#"{"key": "b", "value": "2", "status": 200}"#.to_owned()));
    for status in [201, 204] {
        let put = curl_with(b"3", &["-X", "PUT", "--data-binary", "@-", &url("/v1/kv/a?ttl=100s")]);
        assert_eq!(put.status, status, "Redis lost the key");
    }
    wait_until("ready again", || curl(&[&url("/readyz")]).text() == "ready\n");
    assert_eq!(redis.command(&["GET", "a"]), Reply::bulk("3"));
    assert!((1..=100).contains(&redis.command(&["TTL", "a"]).int()));
    assert_eq!(curl(&["-X", "DELETE", &url("/v1/kv/a")]).status, 204);
    assert_eq!(redis.command(&["EXISTS", "a"]).int(), 0);
}

#[test]
fn not_ready_before_the_source_was_reached() {
    let mut redis = RedisServer::start();
    redis.kill();
    let larder = Larder::start(&["--source", &redis.url()]);
    let url = format!("http://127.0.0.1:{}/readyz", larder.admin);
    let answer = curl(&[&url]);
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("/problems/not-ready"), "{}", answer.text());
    redis.restart();
    wait_until("ready", || curl(&[&url]).status == 200);
}

#[test]
fn not_ready_while_nothing_can_be_read() {
    let mut redis = RedisServer::start();
    let (no_copies, copies_end) = (["--stale-if-error", "0s"], ["--stale-if-error", "1s"]);
    for args in [&no_copies[..], &copies_end, &["--coherence", "off", "--ttl", "1h"]] {
        let larder = Larder::start(&[&["--source", &redis.url()], args].concat());
        let url = format!("http://127.0.0.1:{}/readyz", larder.admin);
        // No client sends it anything else: a load balancer has taken it out, or has not yet let it in.
        wait_until("ready", || curl(&[&url]).status == 200);
        redis.kill();
        wait_until("not ready", || curl(&[&url]).status == 503);
        assert!(curl(&[&url]).text().contains("the source of group `default` is lost: "), "{args:?}");
        redis.restart();
        wait_until("ready again", || curl(&[&url]).text() == "ready\n");
    }
}

#[test]
fn the_lifetime_of_a_stale_copy_is_negative_at_once() {
    let larder = Larder::start(&["--source", "demo:", "--ttl", "100ms", "--stale-while-revalidate", "1m"]);
    let url = format!("http://127.0.0.1:{}/v1/kv/a", larder.http);
    let mut status = String::new();
    wait_until("a stale copy", || {
        status = curl(&[&url]).header("cache-status").unwrap().to_owned();
        status.contains("detail=stale")
    });
    assert!(status.ends_with("; ttl=-1"), "{status}");
}

#[test]
fn what_was_served_is_counted() {
    let larder = Larder::start(&[]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", larder.http);
    curl_with(b"1", &["-X", "PUT", "--data-binary", "@-", &url("/v1/kv/a")]);
    for _ in 0..3 {
        assert_eq!(curl(&[&url("/v1/kv/a")]).status, 200);
        assert_eq!(curl(&[&url("/v1/kv/none")]).status, 404);
    }
    assert_eq!(curl(&["-H", "If-None-Match: *", &url("/v1/kv/a")]).status, 304);
    assert!(larder.metric("larder_http_responses_total{class=\"2xx\"}") >= 4.0);
    assert_eq!(larder.metric("larder_http_responses_total{class=\"3xx\"}"), 1.0);
    assert_eq!(larder.metric("larder_http_responses_total{class=\"4xx\"}"), 3.0);
    // By route and status, on the fast path and the general one.
    let requests = |route: &str, status: u16| {
        larder.metric(&format!("larder_http_requests_total{{route=\"{route}\",status=\"{status}\"}}"))
    };
    let counted = [("/v1/kv", 200), ("/v1/kv", 304), ("/v1/kv", 404)].map(|(route, status)| requests(route, status));
    assert_eq!(counted, [3.0, 1.0, 3.0]);
    assert!(requests("/v1/kv", 201) + requests("metrics", 200) >= 2.0);
    let bytes = |direction: &str| {
        larder.metric(&format!("larder_http_request_bytes_total{{route=\"/v1/kv\",direction=\"{direction}\"}}"))
    };
    let (received, sent) = (bytes("received"), bytes("sent"));
    assert!(received > 8.0 * 60.0 && received < 8.0 * 300.0, "{received}");
    assert!(sent > 8.0 * 60.0 && sent < 8.0 * 500.0, "{sent}");
    // Counted when the answer is on its way.
    wait_until("times", || larder.metric("larder_http_request_duration_seconds_count") >= 8.0);
    let stats: serde_json::Value = serde_json::from_str(&larder.get("/v1/stats")).unwrap();
    assert_eq!(stats["groups"]["default"]["cache_hits"], 4, "{stats}");
}

#[test]
fn the_log_level_changes_at_run_time() {
    let mut larder = Larder::start(&[]);
    larder.drop_stderr();
    let url = format!("http://127.0.0.1:{}/v1/log-level", larder.admin);
    assert_eq!(curl(&[&url]).text(), r#"{"level":"warn"}"#);
    assert_eq!(curl_with(b"debug\n", &["-X", "PUT", "--data-binary", "@-", &url]).text(), r#"{"level":"debug"}"#);
    assert_eq!(
        curl_with(b"{\"level\":\"ERROR\"}", &["-X", "PUT", "--data-binary", "@-", &url]).text(),
        r#"{"level":"error"}"#
    );
    let bad = curl_with(b"loud", &["-X", "PUT", "--data-binary", "@-", &url]);
    assert_eq!(bad.status, 400);
    assert_eq!(curl(&[&url]).text(), r#"{"level":"error"}"#);
    assert_eq!(curl(&[&format!("http://127.0.0.1:{}/v1/log-level", larder.http)]).status, 404);
}

/// The kinds of the operations that were recorded, with the bytes of writes, and how many keys they
/// are of.
fn recorded(answer: &Answer) -> (Vec<(u8, u32)>, usize) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.body[..8], [0; 8], "none was lost");
    let mut records: Vec<&[u8]> = answer.body[8..].chunks_exact(24).collect();
    records.sort_by_key(|record| u64::from_le_bytes(record[..8].try_into().unwrap()));
    let keys: std::collections::BTreeSet<&[u8]> = records.iter().map(|record| &record[8..16]).collect();
    let kind = |record: &&[u8]| (record[20], u32::from_le_bytes(record[16..20].try_into().unwrap()));
    (records.iter().map(kind).collect(), keys.len())
}

#[test]
fn operations_are_recorded_for_who_asks() {
    let larder = Larder::start(&[]);
    let record =
        |sample: &str| curl(&["-X", "POST", &format!("http://127.0.0.1:{}/v1/record?sample={sample}", larder.admin)]);
    let kv = format!("http://127.0.0.1:{}/v1/kv/a", larder.http);
    let mut client = larder.client();
    assert_eq!(client.command(&["SET", "a", "before"]), Reply::ok());
    assert_eq!(recorded(&record("1")), (vec![], 0));
    curl_with(b"12345", &["-X", "PUT", "--data-binary", "@-", &kv]);
    curl(&[&kv]);
    // Not for the fast path.
    curl(&["--http2-prior-knowledge", &kv]);
    curl_with(b"{\"keys\":[\"a\",\"b\"]}", &["--data-binary", "@-", &kv.replace("kv/a", "mget")]);
    curl(&["-X", "DELETE", &kv]);
    let by_http = vec![(1, 5), (0, 0), (0, 0), (0, 0), (0, 0), (2, 0)];
    assert_eq!(recorded(&record("1")), (by_http, 2));
    for command in
        [&["SET", "a", "1234567", "EX", "10"][..], &["GET", "a"], &["MGET", "a", "c"], &["PING"], &["DEL", "a", "c"]]
    {
        client.command(command);
    }
    for command in [&["MULTI"][..], &["SET", "a", "12"], &["EXEC"]] {
        client.command(command);
    }
    let by_redis = vec![(1, 7), (0, 0), (0, 0), (0, 0), (2, 0), (2, 0), (1, 2)];
    assert_eq!(recorded(&record("1")), (by_redis, 2));
    for wrong in ["0", "2", "x"] {
        assert_eq!(record(wrong).status, 400, "{wrong}");
    }
    let native = format!("http://127.0.0.1:{}/v1/record", larder.http);
    assert_eq!(curl(&["-X", "POST", &native]).status, 404);
}
