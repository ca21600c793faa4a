//! An HTTP origin: the shared suite, what answers mean, how long values are kept, and an origin
//! that misbehaves.
use super::common::wait_until;
use super::{
    Certificates, Fixture, LIMITS, Port, certificates, conformance_read_only, open, reason, run,
    scripted_origin::{Asked, ScriptedOrigin, Step, answer, chunked},
    some,
};
use larder_base::buffers::Buffers;
use larder_config::SourceUrl;
use larder_proto::percent;
use larder_source::{FillPolicy, SourceError, SourceLimits, SourceSetup};
use larder_store::clock;
use std::{
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

pub(crate) fn at(port: u16, limits: SourceLimits) -> Fixture {
    let url: SourceUrl = format!("http://127.0.0.1:{port}/v/{{key}}").parse().expect("a URL");
    open(&url, limits, FillPolicy::default())
}
pub(crate) fn scripted(
    limits: SourceLimits,
    script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static,
) -> (Fixture, ScriptedOrigin) {
    let origin = ScriptedOrigin::start(script);
    (at(origin.port, limits), origin)
}
/// The key that a target stands for.
fn key_of(target: &str) -> Vec<u8> {
    percent::decode(target.strip_prefix("/v/").expect("the path").as_bytes()).into_owned()
}
pub(crate) fn unavailable(answer: Result<Option<Vec<u8>>, SourceError>) -> String {
    let shown = answer.as_ref().map(|value| value.as_ref().map(Vec::len));
    assert!(matches!(answer, Err(SourceError::Unavailable(_))), "{shown:?}");
    reason(answer)
}
pub(crate) fn refused(answer: Result<Option<Vec<u8>>, SourceError>) -> String {
    let shown = answer.as_ref().map(|value| value.as_ref().map(Vec::len));
    assert!(matches!(answer, Err(SourceError::Refused(_))), "{shown:?}");
    reason(answer)
}

#[test]
fn conformance_http() {
    let value = |key: &[u8]| [b"value of ", key].concat();
    for in_chunks in [false, true] {
        run(async move {
            let (group, origin) = scripted(LIMITS, move |asked| match key_of(&asked.target) {
                key if key == b"absent" => answer("404 Not Found", "", "no such key"),
                key if in_chunks => chunked(&value(&key), 7),
                key => answer("200 OK", "", value(&key)),
            });
            conformance_read_only(&group, b"absent", |key, found| found == value(key)).await;
            let heads = origin.requests.lock().expect("no panic").clone();
            for head in &heads {
                assert!(head.starts_with("GET /v/") && head.contains(" HTTP/1.1\r\n"), "{head}");
                let lower = head.to_ascii_lowercase();
                assert!(lower.contains(&format!("host: 127.0.0.1:{}\r\n", origin.port)), "{head}");
                assert!(lower.contains("accept-encoding: identity\r\n"), "{head}");
                let key = head["GET /v/".len()..].split(' ').next().expect("a key");
                let unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~%".contains(c);
                assert!(key.chars().all(unreserved), "{key}");
            }
            // The batch had a hundred requests under way at once; the rest shared one connection.
            assert!(origin.connections.load(Relaxed) <= 101);
        });
    }
}

#[test]
fn what_a_status_means() {
    run(async move {
        let (group, origin) = scripted(LIMITS, |asked| {
            let status = String::from_utf8(key_of(&asked.target)).expect("text");
            answer(&status.replace('_', " "), "location: /v/200\r\n", "body")
        });
        let origin_name = format!("http://127.0.0.1:{}", origin.port);
        for value in ["200_OK", "203_Non-Authoritative"] {
            assert_eq!(group.get(value).await, some("body"));
        }
        for absence in ["404_Not", "410_Gone"] {
            assert_eq!(group.get(absence).await, Ok(None));
        }
        for (status, text) in [
            ("429_Too", "429 Too Many Requests"),
            ("500_x", "500 Internal Server Error"),
            ("502_x", "502 Bad Gateway"),
            ("503_x", "503 Service Unavailable"),
            ("504_x", "504 Gateway Timeout"),
        ] {
            let said = unavailable(group.get(status).await);
            assert_eq!(said, format!("source unavailable: {origin_name}: answered {text}"));
        }
        for (status, text) in [
            ("301_x", "301 Moved Permanently; redirects are not followed"),
            ("307_x", "307 Temporary Redirect; redirects are not followed"),
            ("206_x", "206 Partial Content"),
            ("400_x", "400 Bad Request"),
            ("401_x", "401 Unauthorized"),
            ("403_x", "403 Forbidden"),
        ] {
            assert_eq!(refused(group.get(status).await), format!("ERR {origin_name}: answered {text}"));
        }
        assert_eq!(origin.asked(), 15, "each was asked for once");
        assert!(origin.connections.load(Relaxed) <= 2, "small bodies that nobody wants end no connection");
        assert!(group.health.is_up(), "it answers");
        assert_eq!(group.health.errors(), 11);
        assert!(refused(group.get("").await).ends_with("the empty key has no URL: it would be that of all keys"));
        let said = refused(group.get("..").await);
        assert!(said.contains("the key `..` would be a step within the path"), "{said}");
        assert_eq!(origin.asked(), 15);
    });
    run(async move {
        let (group, _origin) = scripted(LIMITS, |_| answer("200 OK", "content-encoding: gzip\r\n", "\x1f"));
        let said = group.get("k").await;
        let is_right =
            |text: &str| text.contains("is encoded as `gzip`: only HTTP clients can read it (Content-Encoding)");
        assert!(matches!(&said, Err(SourceError::OnlyStreamed(text)) if is_right(text)), "{said:?}");
    });
}

#[test]
fn how_long_a_value_is_kept() {
    run(async move {
        let (group, origin) = scripted(LIMITS, |asked| {
            let headers = String::from_utf8(key_of(&asked.target)).expect("text");
            answer("200 OK", &headers.replace('|', "\r\n"), "v")
        });
        for (headers, kept) in [
            ("x-nothing: said|", Some(None)),
            ("cache-control: max-age=100|", Some(Some(100))),
            ("cache-control: public, max-age=100, s-maxage=50|age: 20|", Some(Some(30))),
            ("date: Sun, 06 Nov 1994 08:49:37 GMT|expires: Sun, 06 Nov 1994 08:50:37 GMT|", Some(Some(60))),
            ("cache-control: no-store|", None),
            ("cache-control: private, max-age=100|", None),
            ("cache-control: no-cache|", None),
            ("cache-control: max-age=100|vary: Cookie|", None),
            ("cache-control: max-age=100|vary: accept-encoding|", Some(Some(100))),
            ("cache-control: max-age=100|etag: \"a\"|cache-tag: a,b|content-type: text/css|", Some(Some(100))),
        ] {
            let begun = clock::now();
            assert_eq!(group.get(headers).await, some("v"), "{headers}");
            assert_eq!(group.cached(headers).is_some(), kept.is_some(), "{headers}");
            let Some(expected) = kept else { continue };
            let left = group.expiry(headers).map(|at| at - begun);
            match expected {
                None => assert_eq!(left, None, "{headers}"),
                Some(seconds) => {
                    let left = left.expect("a lifetime");
                    let most = seconds * 1000 + (clock::now() - begun);
                    assert!((seconds * 1000..=most).contains(&left), "{headers}: {left}");
                }
            }
        }
        let before = origin.asked();
        assert_eq!(group.get("cache-control: no-store|").await, some("v"));
        assert_eq!(group.get("cache-control: max-age=100|").await, some("v"));
        assert_eq!(origin.asked(), before + 1, "only what is not kept is asked for again");
    });
}

#[test]
fn an_origin_that_stalls_truncates_resets_or_lies() {
    let head = |length: usize| Step::Send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into());
    let send = |text: &str| Step::Send(text.into());
    let limits = SourceLimits { timeout: Duration::from_secs(1), ..LIMITS };
    run(async move {
        let (group, origin) = scripted(limits, move |asked| match &asked.target[3..] {
            "silent" => vec![Step::Stall],
            "half-a-head" => vec![send("HTTP/1.1 200 OK\r\ncontent-le"), Step::Stall],
            "half-a-body" => vec![head(10), send("12345"), Step::Stall],
            "drips" => (0..100).flat_map(|_| [send("H"), Step::Wait(Duration::from_millis(30))]).collect(),
            "closes" => vec![Step::Close],
            "resets" => vec![Step::Reset],
            "truncates" => vec![head(10), send("12345"), Step::Close],
            "resets-amid" => vec![head(10), send("12345"), Step::Wait(Duration::from_millis(20)), Step::Reset],
            "chunk-ends" => vec![send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12"), Step::Close],
            "chunk-lies" => vec![send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n12345\r\n0\r\n\r\n")],
            "two-lengths" => vec![send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n12")],
            "no-length" => vec![send("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n12")],
            "no-http" => vec![send("SSH-2.0-OpenSSH\r\n\r\n")],
            // More than it said: the value ends where the length says, and the rest is no request's answer.
            "more" => vec![send(
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n12HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged",
            )],
            "until-the-end" => vec![send("HTTP/1.1 200 OK\r\n\r\n12345"), Step::Close],
            "early-hints" => {
                vec![send("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n12")]
            }
            _ => answer("200 OK", "", "right"),
        });
        let origin_name = format!("http://127.0.0.1:{}", origin.port);
        for key in ["silent", "half-a-head", "half-a-body", "drips"] {
            let begun = Instant::now();
            let said = unavailable(group.get(key).await);
            assert_eq!(
                said,
                format!("source unavailable: {origin_name}: timed out after 1s (source-timeout)"),
                "{key}"
            );
            assert!(begun.elapsed() < Duration::from_secs(10), "{key}");
            assert_eq!(group.get(format!("after {key}")).await, some("right"), "{key}");
        }
        let broken = [
            "closes",
            "resets",
            "truncates",
            "resets-amid",
            "chunk-ends",
            "chunk-lies",
            "two-lengths",
            "no-length",
            "no-http",
        ];
        for key in broken {
            let said = unavailable(group.get(key).await);
            assert!(said.starts_with(&format!("source unavailable: {origin_name}: ")), "{key}: {said}");
            assert_eq!(group.cached(key), None, "{key}");
            assert_eq!(group.get(format!("after {key}")).await, some("right"), "{key}");
        }
        for (key, value) in [("more", "12"), ("until-the-end", "12345"), ("early-hints", "12")] {
            assert_eq!(group.get(key).await, some(value), "{key}");
            assert_eq!(group.get(format!("after {key}")).await, some("right"), "{key}");
        }
        assert_eq!(group.health.in_flight(), 0);
        assert_eq!(group.health.errors(), 13);
        assert!(group.health.last_error().is_some());
    });
}

#[test]
fn a_stale_connection_costs_one_more_request_and_a_new_one_none() {
    // Closes each connection without a word, after the answer.
    run(async move {
        let (group, origin) = scripted(LIMITS, |_| {
            let mut steps = answer("200 OK", "", "v");
            steps.push(Step::Close);
            steps
        });
        for number in 0..50 {
            assert_eq!(group.get(number.to_string()).await, some("v"));
        }
        assert_eq!(origin.asked(), 50);
    });
    // Takes the second request of each connection and closes then.
    run(async move {
        let (group, origin) = scripted(LIMITS, |asked| match asked.request {
            0 => answer("200 OK", "", asked.connection.to_string()),
            _ => vec![Step::Close],
        });
        group.until_up().await;
        let sole = |number: usize| some(number.to_string());
        assert_eq!(group.get("a").await, sole(0));
        assert_eq!(group.get("b").await, sole(1), "once more, on a new connection");
        assert_eq!(origin.asked(), 3);
    });
    // Never answers: a new connection's failure is the answer.
    run(async move {
        let (group, origin) = scripted(LIMITS, |_| vec![Step::Close]);
        group.until_up().await;
        unavailable(group.get("a").await);
        let asked = origin.asked();
        assert!(asked <= 2, "{asked}");
    });
}

#[test]
fn a_value_over_max_value_is_refused_before_it_is_read() {
    let limits = SourceLimits { max_value: 1000, ..LIMITS };
    run(async move {
        let (group, origin) = scripted(limits, |asked| match &asked.target[3..] {
            "announced" => {
                vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 4000000000000\r\n\r\n".to_vec()), Step::Stall]
            }
            "over" => answer("200 OK", "", vec![b'x'; 1001]),
            "chunked-over" => chunked(&[b'x'; 100_000], 400),
            "chunked" => chunked(&[b'x'; 1000], 400),
            _ => answer("200 OK", "", vec![b'x'; 1000]),
        });
        let too_large = |answer: Result<_, _>| {
            assert!(matches!(answer, Err(SourceError::OnlyStreamed(_))));
            reason(answer)
        };
        let said = too_large(group.get("announced").await);
        assert_eq!(said, "ERR the source's value of 4000000000000 bytes is larger than allowed: 1000 (max-value)");
        assert!(
            too_large(group.get("over").await).contains("value of 1001 bytes is larger than allowed: 1000 (max-value)")
        );
        let said = too_large(group.get("chunked-over").await);
        assert!(said.contains("bytes or more is larger than allowed: 1000 (max-value)"), "{said}");
        for key in ["chunked", "exact"] {
            assert_eq!(group.get(key).await, some(vec![b'x'; 1000]));
        }
        assert_eq!(origin.asked(), 5);
        for key in ["announced", "over", "chunked-over"] {
            too_large(group.get(key).await);
        }
        assert_eq!(origin.asked(), 5, "for a while they are not fetched to be discarded");
        assert_eq!((group.health.errors(), group.health.in_flight()), (0, 0));
    });
}

#[test]
fn bodies_are_counted_in_the_buffers_and_refused_where_they_do_not_fit() {
    let origin = ScriptedOrigin::start(|asked| match &asked.target[3..] {
        "large" => answer("200 OK", "", vec![b'x'; 2 << 20]),
        "chunked" => chunked(&vec![b'x'; 2 << 20], 1 << 16),
        _ => vec![
            Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 600000\r\n\r\n".to_vec()),
            Step::Send(vec![b'x'; 500_000]),
            Step::Stall,
        ],
    });
    run(async move {
        let url: SourceUrl = format!("http://127.0.0.1:{}/v/{{key}}", origin.port).parse().expect("a URL");
        let buffers = Buffers::new(1 << 20, 1, Vec::new());
        let limits = SourceLimits { timeout: Duration::from_millis(500), ..LIMITS };
        let setup = SourceSetup::new(&url, limits, &buffers).expect("a source");
        let health = setup.health().clone();
        let group = Fixture { group: open(&url, limits, FillPolicy::default()).group, health };
        let group = Fixture {
            group: std::rc::Rc::new(larder_core::read::Group {
                number: 0,
                name: "default".into(),
                cache: group.cache.clone(),
                source: setup.open(None, false),
                policy: std::sync::Arc::default(),
                writes: Default::default(),
                peers: None,
                events: None,
            }),
            health: group.health,
        };
        for key in ["large", "chunked"] {
            let said = refused(group.get(key).await);
            assert!(said.contains("does not fit into the buffers now, which may hold 1048576 (max-buffers)"), "{said}");
        }
        let stalled = group.get("stalled");
        let watched = async {
            group.until("the body to be counted", async || buffers.used() >= 500_000).await;
        };
        let (answer, ()) = tokio::join!(stalled, watched);
        unavailable(answer);
        assert_eq!(buffers.used(), 0, "what was dropped is given back");
    });
}

#[test]
fn fetches_beyond_the_bound_fail_and_the_others_run_side_by_side() {
    let limits = SourceLimits { max_in_flight: 10, ..LIMITS };
    run(async move {
        let (group, _origin) = scripted(limits, |_| {
            let mut steps = vec![Step::Wait(Duration::from_millis(100))];
            steps.extend(answer("200 OK", "", "v"));
            steps
        });
        let keys: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        let answers = group.get_all(&keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert!(answers[..10].iter().all(|answer| *answer == some("v")), "{answers:?}");
        for answer in &answers[10..] {
            assert!(unavailable(answer.clone()).contains("more than 10 fetches in flight (source-max-in-flight)"));
        }
    });
}

#[test]
fn an_origin_that_is_down_is_found_again_without_being_asked() {
    let held = Port::free();
    let port = held.number;
    run(async move {
        let group = at(port, LIMITS);
        let said = unavailable(group.get("k").await);
        assert!(said.starts_with(&format!("source unavailable: http://127.0.0.1:{port}: cannot connect: ")), "{said}");
        assert!(group.health.is_lost() && !group.health.was_up());
        group.until_down().await;
        // No server listens on a port that is only held.
        drop(held);
        let listener = std::net::TcpListener::bind(("127.0.0.1", port)).expect("the port");
        let _origin = ScriptedOrigin::on(listener, |_| answer("200 OK", "", "v"));
        group.until_up().await;
        assert_eq!(group.get("k").await, some("v"));
        assert_eq!(group.health.reconnects(), 0, "the first connection is none");
    });
}

/// An nginx of the test's own, killed when dropped.
pub(crate) struct Nginx(Child);
impl Nginx {
    /// Serves the files in `dir/files` under `/v/` on a port, as `tls` says.
    pub(crate) fn start(dir: &Path, port: u16, tls: Option<&Certificates>) -> Nginx {
        Nginx::with(dir, port, tls, "", "")
    }
    /// With HTTP/2, and further lines of the server's configuration.
    pub(crate) fn with_http2(dir: &Path, port: u16, tls: &Certificates, more: &str) -> Nginx {
        Nginx::with(dir, port, Some(tls), "http2", more)
    }
    fn with(dir: &Path, port: u16, tls: Option<&Certificates>, http2: &str, more: &str) -> Nginx {
        let listen = match tls {
            None => format!("listen 127.0.0.1:{port};"),
            Some(Certificates { ca, cert, key }) => format!(
                "listen 127.0.0.1:{port} ssl {http2}; ssl_certificate {}; ssl_certificate_key {};
                ssl_client_certificate {}; ssl_verify_client optional;",
                cert.display(),
                key.display(),
                ca.display()
            ),
        };
        let config = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr;
            events {{ }}
            http {{
                log_format status '$status'; access_log off;
                log_format protocol '$server_protocol $host $connection'; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
                uwsgi_temp_path uwsgi; scgi_temp_path scgi;
                server {{
                    {listen}
                    {more}
                    location /v/ {{ alias files/; access_log protocol.log protocol; }}
                    location /v/fresh/ {{ alias files/; expires 60s; }}
                    location /v/no-cache/ {{
                        alias files/; add_header Cache-Control no-cache; access_log access.log status;
                    }}
                    location /v/gone {{ return 410; }}
                    location /v/busy {{ return 503; }}
                    location /v/guarded/ {{ if ($ssl_client_verify != SUCCESS) {{ return 403; }} alias files/; }}
                    location /v/secret/ {{ if ($http_x_api_key != hunter2) {{ return 401; }} alias files/; }}
                    location /w/ {{ alias written/; dav_methods PUT DELETE; create_full_put_path on; }}
                }}
            }}"
        );
        std::fs::write(dir.join("nginx.conf"), config).expect("a file");
        let child = Command::new("nginx")
            .args(["-e", "stderr", "-c", "nginx.conf", "-p"])
            .arg(dir)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is installed");
        wait_until("nginx to listen", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Nginx(child)
    }
}
impl Drop for Nginx {
    fn drop(&mut self) {
        // Already dead is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nginx_plain_and_over_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = dir.path().join("files");
    let large: Vec<u8> = (0..8 * 1024 * 1024u32).map(|i| (i % 251) as u8).collect();
    std::fs::create_dir_all(&files).expect("a directory");
    for (name, value) in [("text", &b"value"[..]), ("a b+c?d%", b"odd name"), ("empty", b""), ("large", &large)] {
        std::fs::write(files.join(name), value).expect("a file");
    }
    let tls = certificates(dir.path());
    for tls in [None, Some(&tls)] {
        let held = Port::free();
        let port = held.number;
        let mut nginx = Nginx::start(dir.path(), port, tls);
        let url = |rest: &str| -> SourceUrl {
            let (scheme, fragment) = match tls {
                None => ("http", String::new()),
                Some(Certificates { ca, .. }) => ("https", format!("#ca={}", ca.display())),
            };
            format!("{scheme}://127.0.0.1:{port}/v/{rest}{fragment}").parse().expect("a URL")
        };
        run(async {
            let group = open(&url("{key}"), LIMITS, FillPolicy::default());
            for (key, value) in [("text", &b"value"[..]), ("a b+c?d%", b"odd name"), ("empty", b""), ("large", &large)]
            {
                assert!(group.get(key).await == some(value), "{key}");
                assert_eq!(group.expiry(key), None, "nginx says nothing of freshness here");
            }
            assert_eq!(group.get("no such file").await, Ok(None));
            assert_eq!(group.get("gone").await, Ok(None));
            assert!(unavailable(group.get("busy").await).ends_with("answered 503 Service Unavailable"));
            let fresh = open(&url("fresh/{key}"), LIMITS, FillPolicy::default());
            let now = clock::now();
            assert_eq!(fresh.get("text").await, some("value"));
            let left = fresh.expiry("text").expect("Cache-Control: max-age=60") - now;
            assert!((59_000..=120_000).contains(&left), "{left}");

            let log = std::fs::read_to_string(dir.path().join("protocol.log")).expect("a log");
            assert!(log.lines().all(|line| line.starts_with("HTTP/1.1 127.0.0.1 ")), "{log}");

            // Its idle connections are gone with it.
            drop(std::mem::replace(&mut nginx, Nginx::start(dir.path(), Port::free().number, None)));
            group.forget("text");
            unavailable(group.get("text").await);
            nginx = Nginx::start(dir.path(), port, tls);
            group.until_up().await;
            assert_eq!(group.get("text").await, some("value"));
            assert_eq!(group.health.reconnects(), 1);
            if tls.is_some() {
                let SourceUrl::Http(mut strangers) = url("{key}") else { panic!("a URL") };
                strangers.tls = Some(Default::default());
                let said =
                    unavailable(open(&SourceUrl::Http(strangers), LIMITS, FillPolicy::default()).get("text").await);
                assert!(said.contains("cannot connect") && said.contains("certificate"), "{said}");
            }
        });
    }
}
