//! Attacks over HTTP/1.1: smuggling past a proxy, injected lines, paths out of their place, heads
//! and bodies that come slowly or are huge.
use super::{
    established::{ARGS, Established},
    larder::{Larder, connect},
    proxy_programs::Proxy,
    sockets::{exchange, from},
};
use std::io::{Read, Write};

fn larder(more: &[&str]) -> Larder {
    Larder::start(&[&ARGS[..], more].concat())
}

/// Requests that two servers could read differently. `SMUGGLED` must never be read as a request.
const AMBIGUOUS: [(&str, &str); 14] = [
    (
        "both lengths",
        "POST /v1/mget HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGSMUGGLED",
    ),
    (
        "both lengths, the other way around",
        "POST /v1/mget HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\nSMUGGLED",
    ),
    ("two lengths", "POST /v1/mget HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 0\r\n\r\nSMUGGLED"),
    ("a list of lengths", "POST /v1/mget HTTP/1.1\r\nhost: x\r\ncontent-length: 0, 5\r\n\r\nSMUGGLED"),
    ("a length with a sign", "POST /v1/mget HTTP/1.1\r\nhost: x\r\ncontent-length: +0\r\n\r\nSMUGGLED"),
    ("a negative length", "POST /v1/mget HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\nSMUGGLED"),
    ("a folded line", "POST /v1/mget HTTP/1.1\r\nhost: x\r\nx: y\r\n content-length: 0\r\n\r\nSMUGGLED"),
    (
        "a folded encoding",
        "POST /v1/mget HTTP/1.1\r\nhost: x\r\ntransfer-encoding:\r\n chunked\r\ncontent-length: 0\r\n\r\nSMUGGLED",
    ),
    (
        "an unknown encoding",
        "POST /v1/mget HTTP/1.1\r\nhost: x\r\ntransfer-encoding: xchunked\r\ncontent-length: 0\r\n\r\nSMUGGLED",
    ),
    (
        "a space before the colon",
        "POST /v1/mget HTTP/1.1\r\nhost: x\r\ncontent-length : 0\r\ntransfer-encoding : chunked\r\n\r\nSMUGGLED",
    ),
    ("a NUL in a header", "POST /v1/mget HTTP/1.1\r\nhost: x\r\nx: a\0b\r\ncontent-length: 0\r\n\r\nSMUGGLED"),
    ("a bare CR in a header", "POST /v1/mget HTTP/1.1\r\nhost: x\r\nx: a\rcontent-length: 8\r\n\r\nSMUGGLED"),
    (
        "a chunk of a huge size",
        "POST /v1/mget HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nSMUGGLED",
    ),
    (
        "a chunk with a bad size",
        "POST /v1/mget HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n-1\r\nSMUGGLED",
    ),
];

/// What comes before an ambiguous request.
const BEFORE: [&str; 2] = ["", "GET /v1/kv/a HTTP/1.1\r\nhost: x\r\n\r\n"];

/// What is smuggled: a write that would show.
const WRITE: &str = "PUT /v1/kv/smuggled HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx";

fn smuggling(request: &str) -> Vec<u8> {
    request.replace("GSMUGGLED", WRITE).replace("SMUGGLED", WRITE).into_bytes()
}

fn is_stored(larder: &Larder, key: &str) -> bool {
    larder.http(&format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).0 == 200
}

/// Requests that are sent one behind the other and end with one that asks for the end.
fn ended(requests: &[u8]) -> Vec<u8> {
    [requests, b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"].concat()
}

#[test]
fn a_request_that_can_be_read_in_two_ways_is_refused() {
    let larder = larder(&["--header-timeout=1s"]);
    let mut established = Established::of(&larder);
    for (what, request) in AMBIGUOUS {
        // For the general path and for the fast one, on its own and behind a plain request.
        let starts = ["POST /v1/mget", "PUT /v1/kv/a", "GET /v1/kv/a", "DELETE /v1/kv/a"];
        for (start, before) in starts.iter().flat_map(|start| BEFORE.map(|before| (start, before))) {
            let request = request.replacen("POST /v1/mget", start, 1);
            let answer = exchange(connect(larder.http), &ended(&[before.as_bytes(), &smuggling(&request)].concat()));
            let statuses: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
            let refusal = statuses.last().copied().unwrap_or_default();
            // It may also be answered by the one reading (RFC 9112 section 6.3) or without its body, if nothing
            // behind it is.
            let ends = statuses.len() == 1 + usize::from(!before.is_empty());
            assert!(ends || ["400", "408", "413", ""].contains(&refusal), "{what}: {start}: {answer}");
            assert!(!is_stored(&larder, "smuggled"), "{what}: {start}: {answer}");
        }
        established.is_served();
    }
}

#[test]
fn nginx_in_front_and_larder_agree_where_requests_end() {
    let larder = larder(&["--header-timeout=1s"]);
    let block = format!(
        "location / {{ proxy_pass http://127.0.0.1:{}; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_request_buffering off; }}",
        larder.http
    );
    let nginx = Proxy::nginx(&[], &[block]);
    // What is right passes: bare LFs, a chunk with an extension, a body that is a request.
    let inner = "PUT /v1/kv/inner HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx";
    for right in [
        format!("PUT /v1/kv/right HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{inner}", inner.len()),
        format!(
            "PUT /v1/kv/right HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{:x};ext=\"a\"\r\n{inner}\r\n0\r\nx: y\r\n\r\n",
            inner.len()
        ),
        format!("PUT /v1/kv/right HTTP/1.1\nhost: x\ncontent-length: {}\n\n{inner}", inner.len()),
    ] {
        for port in [nginx.port(0), larder.http] {
            let answer = exchange(from(1, port), &ended(right.as_bytes()));
            assert!(answer.contains("HTTP/1.1 20"), "{right}: {answer}");
            assert!(!is_stored(&larder, "inner"), "{right}: {answer}");
            let read = larder.http("GET /v1/kv/right HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            assert_eq!(read.2, inner.as_bytes(), "{right}");
        }
    }
    let mut established = Established::of(&larder);
    for (what, request) in AMBIGUOUS {
        let answer = exchange(from(1, nginx.port(0)), &ended(&smuggling(request)));
        // nginx may pass one on in a form that means one thing; then what follows is that, and no request
        // of Larder's own.
        assert!(!is_stored(&larder, "smuggled") || answer.matches("HTTP/1.1 ").count() >= 2, "{what}: {answer}");
        larder.http("DELETE /v1/kv/smuggled HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        // The next client of the same upstream connection gets its own answer.
        let own =
            exchange(from(2, nginx.port(0)), b"GET /v1/kv/right HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        assert!(own.starts_with("HTTP/1.1 200") && own.ends_with(inner), "{what}: {own}");
        established.is_served();
    }
}

#[test]
fn a_request_has_one_host_on_every_listener() {
    let larder = larder(&[]);
    for (version, hosts, is_right) in [
        ("1.1", "host: x\r\n", true),
        ("1.1", "Host: [::1]:8080\r\n", true),
        ("1.1", "host:\r\n", true),
        ("1.0", "", true),
        ("1.0", "host: x\r\n", true),
        ("1.1", "", false),
        ("1.1", "host: x\r\nHOST: y\r\n", false),
        ("1.1", "host: x\r\nhost: x\r\n", false),
        ("1.0", "host: x\r\nhost: y\r\n", false),
        ("1.1", "host: x y\r\n", false),
        ("1.1", "host: a@b\r\n", false),
        ("1.1", "host: x/y\r\n", false),
    ] {
        let request = |path: &str| format!("GET {path} HTTP/{version}\r\n{hosts}connection: close\r\n\r\n");
        // `connection: close` would keep the request off the fast path.
        let plain = request("/v1/kv/none").replace("connection: close", "x-y: z");
        let after = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let fast = exchange(connect(larder.http), format!("{plain}{after}").as_bytes());
        let status = |answer: &str| answer[9..12].parse::<u16>().expect("a status");
        assert_eq!(status(&fast), if is_right { 404 } else { 400 }, "HTTP/{version} {hosts:?}: {fast}");
        for (answer, expected) in [
            (larder.http(&request("/v1/kv/none")), 404),
            (larder.http(&request("/healthz")), 200),
            (larder.admin(&request("/metrics")), 200),
        ] {
            assert_eq!(answer.0, if is_right { expected } else { 400 }, "HTTP/{version} {hosts:?}: {}", answer.1);
        }
    }
}

#[test]
fn line_ends_in_keys_and_values_make_no_lines() {
    let larder = larder(&["--log-level=info", "--access-log=100%"]);
    let ask = |request: &str| {
        exchange(
            connect(larder.http),
            format!("{request} HTTP/1.1\r\nhost: x\r\nx-request-id: a\u{b}b\r\nconnection: close\r\n\r\n").as_bytes(),
        )
    };
    let evil = "k%0d%0aset-cookie:%20evil=1%0d%0a%0d%0aHTTP/1.1%20200%20OK";
    for request in [
        format!("GET /v1/kv/{evil}"),
        format!("GET /lookup?key={evil}"),
        format!("GET /?key={evil}"),
        format!("GET /data/{evil}"),
        format!("GET /v1/groups/{evil}/kv/a"),
        format!("GET /cache/v1/item/?key={evil}"),
        format!("GET /cache/v1/item/{evil}"),
        format!("GET /v0/entity?id={evil}"),
        format!("DELETE /v1/tags/{evil}"),
        format!("GET /v1/keys?match={evil}&cursor={evil}"),
        format!("GET /nothing/{evil}"),
    ] {
        let answer = ask(&request);
        let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
        assert!(answer.starts_with("HTTP/1.1 ") && answer.matches("HTTP/1.1 ").count() <= 2, "{request}: {answer}");
        assert!(!head.contains("\nset-cookie:"), "{request}: {answer}");
    }
    // Over the Redis protocol, errors quote what came.
    let mut client = larder.client();
    let error = client.command(&[&b"NOSUCH\r\n+OK"[..], b"a\r\n:1\r\n"]);
    assert!(!error.error().contains('\r'), "{error:?}");
    assert_eq!(client.command(&["PING"]), super::common::Reply::Simple("PONG".into()));
    // CLIENT LIST is lines, too.
    assert!(client.command(&[&b"CLIENT"[..], b"SETNAME", b"a\nid=1"]).error().starts_with("ERR"));
    // So is the log: each line begins as a line of the log does.
    let mut larder = larder;
    larder.signal(rustix::process::Signal::TERM);
    larder.wait();
    for line in larder.stderr().lines() {
        assert!(line.starts_with('{') || line.starts_with("20"), "{line}");
    }
}

#[test]
fn paths_lead_to_keys_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(dir.path().join("secret"), "secret").unwrap();
    let source = format!("--source=disk:{}", data.display());
    let directory = format!("--data-dir={}", data.display());
    let larder = Larder::start(&[&source, &directory]);
    let mut established = Established::of(&larder);
    for path in [
        "..%2fsecret",
        "../secret",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "..%5c..%5csecret",
        "%00",
        "a/../../secret",
        "/etc/passwd",
    ] {
        let put = format!("PUT /v1/kv/{path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nconnection: close\r\n\r\nv");
        assert!([201, 204].contains(&larder.http(&put).0), "a key like any other: {path}");
        let (status, _, body) =
            larder.http(&format!("GET /v1/kv/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
        assert_eq!((status, &body[..]), (200, &b"v"[..]), "{path}");
        for name in [path.to_owned(), format!("{path}.backup"), ".hidden".into(), String::new(), "a%2fb".into()] {
            let (status, _, body) = larder
                .admin(&format!("POST /v1/store/backup?name={name} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
            assert_eq!(status, 400, "{name}: {}", String::from_utf8_lossy(&body));
        }
        for get in [format!("/{path}"), format!("/docs/{path}"), format!("/v1/{path}"), format!("//{path}")] {
            for (status, _, body) in [
                larder.http(&format!("GET {get} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")),
                larder.admin(&format!("GET {get} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")),
            ] {
                let text = String::from_utf8_lossy(&body).into_owned();
                assert!(
                    status >= 400 && !text.contains("secret\n") && !text.contains("root:"),
                    "{get}: {status} {text}"
                );
            }
        }
    }
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["data", "secret"], "nothing was written beside the directory");
    established.is_served();
}

#[test]
fn slow_heads_and_bodies_end_and_hold_up_nobody() {
    // On a busy machine the established client may pause for seconds.
    let larder = larder(&["--header-timeout=500ms", "--idle-timeout=5s"]);
    let mut established = Established::of(&larder);
    let beginnings = [
        "GET /v1/kv/a HTTP/1.1\r\nx: ",
        "POST /v1/mget HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n",
        "POST /v1/mget HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nfffff\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "G",
    ];
    let mut slow: Vec<_> = (0..300)
        .map(|at| {
            let mut stream = from(1, larder.http);
            stream.write_all(beginnings[at % beginnings.len()].as_bytes()).unwrap();
            stream
        })
        .collect();
    // A byte now and then, until all are given up.
    let mut left = slow.len();
    super::common::wait_until("all slow clients to be given up", || {
        slow.retain_mut(|stream| stream.write_all(b"x").is_ok());
        established.is_served();
        left = slow.len();
        slow.is_empty()
    });
    assert_eq!(left, 0);
}

#[test]
fn huge_lengths_and_heads_are_refused_by_their_announcement() {
    let larder = larder(&[]);
    let mut established = Established::of(&larder);
    let huge = "9".repeat(30);
    for (request, says) in [
        ("PUT /v1/kv/a HTTP/1.1\r\nhost: x\r\ncontent-length: 18446744073709551615\r\n\r\n".to_owned(), "HTTP/1.1 4"),
        (format!("PUT /v1/kv/a HTTP/1.1\r\nhost: x\r\ncontent-length: {huge}\r\n\r\n"), "HTTP/1.1 400"),
        ("PUT /v1/kv/a HTTP/1.1\r\nhost: x\r\ncontent-length: 536870913\r\n\r\n".into(), "HTTP/1.1 413"),
        (format!("GET /v1/kv/{} HTTP/1.1\r\nhost: x\r\n\r\n", "k".repeat(70_000)), "HTTP/1.1 4"),
        (format!("GET /v1/kv/a HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(5000)), "HTTP/1.1 431"),
        (format!("GET /v1/kv/a HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)), "HTTP/1.1 431"),
    ] {
        let answer = exchange(connect(larder.http), request.as_bytes());
        assert!(answer.starts_with(says), "{}: {answer}", &request[..request.len().min(80)]);
        established.is_served();
    }
}

#[test]
fn nesting_has_a_bound_in_every_body() {
    let larder = larder(&["--log-level=error"]);
    let mut established = Established::of(&larder);
    let deep = 200_000;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = format!("{}1{}", open.repeat(deep), close.repeat(deep));
        let unclosed = open.repeat(deep);
        for (method, path, kind, body) in [
            ("POST", "/v1/mget", "application/json", format!("{{\"keys\":{nested}}}")),
            ("POST", "/v1/mget", "application/json", unclosed.clone()),
            ("POST", "/cache/v1/item", "application/json", format!("{{\"key\":\"k\",\"ttl\":60,\"value\":{nested}}}")),
            ("PUT", "/v1/kv/d?type=json", "application/json", nested.clone()),
            ("PATCH", "/v1/kv/d", "application/merge-patch+json", nested.clone()),
            ("PATCH", "/v1/kv/d", "application/json-patch+json", unclosed),
        ] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let answer = exchange(connect(larder.http), request.as_bytes());
            assert!(answer.starts_with("HTTP/1.1 4"), "{method} {path}: {}", &answer[..answer.len().min(300)]);
        }
        let mut client = larder.client();
        let reply = client.command(&["JSON.SET", "d", ".", &nested]);
        assert!(reply.error().starts_with("ERR"), "{reply:?}");
        established.is_served();
    }
    assert_eq!(larder.metric("larder_panics_total"), 0.0);
}

#[test]
fn a_body_of_a_thousand_requests_that_nobody_reads_the_answers_to() {
    // On a busy machine the established client may pause for a second.
    let larder = larder(&["--idle-timeout=5s"]);
    larder.client().command(&["SET", "big", &"v".repeat(1 << 20)]);
    let mut established = Established::of(&larder);
    let requests = "GET /v1/kv/big HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1000);
    let mut streams: Vec<_> = (0..50).map(|_| from(1, larder.http)).collect();
    for stream in &mut streams {
        stream.write_all(requests.as_bytes()).unwrap();
    }
    // They are given up after `idle-timeout`: what they get ends before the last answer.
    super::common::wait_until("all to be given up", || {
        established.is_served();
        // The connection that asks is the only one left.
        larder.metric("larder_connections{protocol=\"http\"}") <= 1.0
    });
    for mut stream in streams {
        let mut read = Vec::new();
        let _ = stream.read_to_end(&mut read);
        assert!(read.len() < 1000 << 20);
    }
    established.is_served();
}
