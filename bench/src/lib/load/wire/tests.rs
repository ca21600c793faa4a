use super::*;
use crate::lib::load::{measure::ErrorKind, ops::Verb, reply_kinds::ReplyKind, target::TargetUrl};
use proptest::prelude::*;

fn wire(url: &str) -> Wire {
    let target = TargetUrl::parse(url).expect(url);
    Wire::new(&target, [].iter(), &[], "5xx,4xx,!404".parse().expect("statuses")).expect("a wire")
}

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("text")
}

const REDIS: &str = "redis://127.0.0.1:1";
const HTTP: &str = "http://127.0.0.1:1";
const MEMCACHE: &str = "memcache://127.0.0.1:1";

#[test]
fn requests_read_as_the_protocols_say() {
    const RAW: usize = 0;
    let (get, set, del) = (1, 2, 3);
    let wire = |url: &str, raw: Option<&str>| {
        let raw = raw.map_or(Verb::Get, |text| Verb::Raw(text.into()));
        let verbs = [raw, Verb::Get, Verb::Set, Verb::Del];
        let target = TargetUrl::parse(url).expect(url);
        Wire::new(&target, verbs.iter(), &["X-A: b".into()], "".parse().expect("statuses")).expect("a wire")
    };
    let one =
        |wire: &Wire, verb, key: &[u8], value: &[u8]| text(|out| wire.one(verb, key, value, &mut Vec::new(), out));
    let many = |wire: &Wire| text(|out| wire.many(&[b"a".to_vec(), b"bc".to_vec()], &mut Vec::new(), out));
    let redis = wire(REDIS, Some("HSET h:{key} f {value}"));
    assert_eq!(one(&redis, get, b"k", b""), "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    assert_eq!(one(&redis, set, b"k", b"v"), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
    assert_eq!(many(&redis), "*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$2\r\nbc\r\n");
    let hset = "*4\r\n$4\r\nHSET\r\n$3\r\nh:k\r\n$1\r\nf\r\n$1\r\nv\r\n";
    assert_eq!(one(&redis, RAW, b"k", b"v"), hset);
    let memcache = wire(MEMCACHE, None);
    assert_eq!(many(&memcache), "get a bc\r\n");
    assert_eq!(one(&memcache, get, b"k", b""), "get k\r\n");
    assert_eq!(one(&memcache, set, b"k", b"vw"), "set k 0 0 2\r\nvw\r\n");
    assert_eq!(one(&memcache, del, b"k", b""), "delete k\r\n");
    let http = wire(HTTP, Some("POST /cache/v1/item {\"key\":\"{key}\",\"value\":\"{value}\"}"));
    let end = "HTTP/1.1\r\nHost: 127.0.0.1:1\r\nX-A: b\r\n";
    assert_eq!(one(&http, get, b"a b/%", b""), format!("GET /v1/kv/a%20b/%25 {end}\r\n"));
    assert_eq!(one(&http, set, b"k", b"v"), format!("PUT /v1/kv/k {end}Content-Length: 1\r\n\r\nv"));
    let body = "{\"key\":\"\\\"\",\"value\":\"v\"}";
    assert_eq!(one(&http, RAW, b"\"", b"v"), format!("POST /cache/v1/item {end}Content-Length: 24\r\n\r\n{body}"));
    let body = "{\"keys\":[\"a\",\"bc\"]}";
    assert_eq!(many(&http), format!("POST /v1/mget {end}Content-Length: 19\r\n\r\n{body}"));
    let lookup = wire("http://127.0.0.1:1/lookup?key={key}", None);
    assert_eq!(one(&lookup, get, b"a&b", b""), format!("GET /lookup?key=a%26b {end}\r\n"));
    let (greeting, replies) = redis.greeting(&TargetUrl::parse("redis://u:p@127.0.0.1:1/2").expect("a target"));
    assert_eq!(replies, 2);
    assert!(greeting.starts_with(b"*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n"));
}

/// Target, how it is asked, reply, error, found, missing, kind.
type Case = (&'static str, Expect, &'static str, Option<ErrorKind>, u32, u32, &'static str);

/// Replies to requests for two keys.
const REPLIES: &[Case] = &[
    (REDIS, Expect::Lookup, "$3\r\nabc\r\n", None, 1, 0, "bulk string"),
    (REDIS, Expect::Lookup, "$-1\r\n", None, 0, 1, "null"),
    (REDIS, Expect::Lookup, "*3\r\n$1\r\na\r\n$-1\r\n$0\r\n\r\n", None, 2, 1, "array"),
    (REDIS, Expect::Plain, "+OK\r\n", None, 0, 0, "simple string"),
    (REDIS, Expect::Plain, ":12\r\n", None, 0, 0, "integer"),
    (REDIS, Expect::Lookup, "-ERR no\r\n", Some(ErrorKind::Server), 0, 0, "error ERR"),
    (REDIS, Expect::Plain, "*2\r\n*1\r\n:1\r\n*0\r\n", None, 0, 0, "array"),
    (MEMCACHE, Expect::Lookup, "VALUE k 0 3\r\nEND\r\nEND\r\n", None, 1, 1, "VALUE"),
    (MEMCACHE, Expect::Lookup, "END\r\n", None, 0, 2, "END"),
    (MEMCACHE, Expect::Plain, "STORED\r\n", None, 0, 0, "STORED"),
    (MEMCACHE, Expect::Lookup, "SERVER_ERROR out of memory\r\n", Some(ErrorKind::Server), 0, 0, "SERVER_ERROR"),
    (HTTP, Expect::Lookup, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", None, 1, 0, "200"),
    (HTTP, Expect::Lookup, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", None, 0, 1, "404"),
    (HTTP, Expect::Plain, "HTTP/1.1 400 Bad\r\nContent-Length: 1\r\n\r\nx", Some(ErrorKind::Http4xx), 0, 0, "400"),
    (HTTP, Expect::Plain, "HTTP/1.1 503 No\r\nContent-Length: 1\r\n\r\nx", Some(ErrorKind::Http5xx), 0, 0, "503"),
    (HTTP, Expect::Plain, "HTTP/1.1 204 No Content\r\n\r\n", None, 0, 0, "204"),
    (HTTP, Expect::Head, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", None, 0, 0, "200"),
    (
        HTTP,
        Expect::Lookup,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\r\n\r\n1;x\r\nb\r\n0\r\n\r\n",
        None,
        1,
        0,
        "200",
    ),
    (
        HTTP,
        Expect::Lookup,
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
        None,
        1,
        0,
        "200",
    ),
];

#[test]
fn replies_are_found_wherever_they_break() {
    for &(url, expect, reply, error, found, missing, name) in REPLIES {
        let wire = wire(url);
        let two = [reply, reply].concat();
        let kind = name.parse().map_or(ReplyKind::Named(name), ReplyKind::Status);
        let expected = ScannedReply { len: reply.len(), error, kind, found, missing, ..ScannedReply::default() };
        assert_eq!(wire.scan(expect, 2, two.as_bytes()), ReplyScan::Done(expected), "{reply:?}");
        for end in 0..reply.len() {
            match wire.scan(expect, 2, &reply.as_bytes()[..end]) {
                ReplyScan::More(least) => {
                    assert!(least > end && least <= reply.len(), "{reply:?} cut at {end}: {least}")
                }
                other => panic!("{reply:?} cut at {end}: {other:?}"),
            }
        }
    }
}

#[test]
fn hostile_replies_are_refused() {
    let bad = |url, reply: &str| match wire(url).scan(Expect::Lookup, 1, reply.as_bytes()) {
        ReplyScan::Bad(_) => {}
        other => panic!("{reply:?}: {other:?}"),
    };
    bad(REDIS, "$99999999999\r\n");
    bad(REDIS, "$600000000\r\n");
    bad(REDIS, "$-2\r\n");
    bad(REDIS, "$1\r\nabc\r\n");
    bad(REDIS, "%1\r\n");
    bad(REDIS, &"*1\r\n".repeat(20));
    bad(REDIS, &"+".repeat(70_000));
    bad(MEMCACHE, "VALUE k 0 x\r\n");
    bad(MEMCACHE, "HTTP/1.1\r\n");
    bad(HTTP, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n");
    bad(HTTP, "HTTP/1.1 200 OK\r\n\r\n");
    bad(HTTP, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n");
    bad(HTTP, "+OK\r\n");
}

#[test]
fn a_server_that_closes_says_so() {
    let scan = wire(HTTP).scan(Expect::Plain, 1, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert!(matches!(scan, ReplyScan::Done(ScannedReply { close: true, .. })));
}

#[test]
fn caches_say_whether_they_had_the_value() {
    for (field, hit) in [
        ("larder; hit; ttl=5", Some(true)),
        ("larder; fwd=miss; stored", Some(false)),
        ("origin; hit, edge; fwd=uri-miss", Some(false)),
        ("origin; fwd=miss, edge;hit", Some(true)),
        ("\"a hit\"", Some(false)),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\nCache-Status: {field}\r\nContent-Length: 0\r\n\r\n");
        let ReplyScan::Done(reply) = wire(HTTP).scan(Expect::Lookup, 1, answer.as_bytes()) else { panic!("{field}") };
        assert_eq!(reply.cache_hit, hit, "{field}");
    }
}

#[test]
fn redis_errors_count_by_code() {
    let kind = |reply: &[u8]| ReplyKind::of_redis(reply).to_string();
    assert_eq!(kind(b"-WRONGTYPE Operation against\r\n"), "error WRONGTYPE");
    assert_eq!(kind(b"-OOM\r\n"), "error OOM");
    assert_eq!(kind(b"-MYOWN code\r\n"), "error");
}

#[test]
fn statuses_count_as_asked() {
    let statuses = |text: &str| text.parse::<Statuses>().expect(text);
    assert_eq!(statuses("5xx,4xx,!404").error(404), None);
    assert_eq!(statuses("5xx,4xx,!404").error(403), Some(ErrorKind::Http4xx));
    assert_eq!(statuses("404").error(404), Some(ErrorKind::Http4xx));
    assert_eq!(statuses("").error(500), None);
    for wrong in ["x", "99", "6xx", "!"] {
        wrong.parse::<Statuses>().expect_err(wrong);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..200), lines in "([+$*:0-9-]{0,4}\r\n){0,6}") {
        for url in [REDIS, HTTP, MEMCACHE] {
            for bytes in [&bytes[..], lines.as_bytes()] {
                if let ReplyScan::Done(reply) = wire(url).scan(Expect::Lookup, 1, bytes) {
                    prop_assert!(reply.len <= bytes.len() && reply.len > 0);
                }
            }
        }
    }
}
