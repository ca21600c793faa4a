//! Real proxies name the client, and Larder believes them: throttle, logs, CLIENT LIST, MONITOR.
use super::{
    certificates::{Authority, text},
    common::{Client, RedisServer},
    larder::Larder,
    programs,
    proxy_programs::Proxy,
    sockets::{exchange, from, shown_address},
};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};

const GET: &[u8] = b"GET /v1/kv/none HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

/// The client's host of an `addr=` field.
fn host(address: &str) -> &str {
    address.rsplit_once(':').unwrap().0
}

#[test]
fn nginx_names_the_client_of_every_protocol() {
    let args = ["--trusted-proxies=127.0.0.1", "--proxy-protocol=optional", "--throttle=6/m"];
    let logs = ["--log-level=info", "--access-log=100%"];
    // MONITOR needs a source.
    let redis = RedisServer::start();
    let source = format!("--source={}", redis.url());
    let mut larder = Larder::start(&[&args[..], &logs, &[&source]].concat());
    let stream = |port: u16| format!("proxy_pass 127.0.0.1:{port}; proxy_protocol on;");
    let forwarding = format!(
        "location / {{ proxy_pass http://127.0.0.1:{}; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }}",
        larder.http
    );
    let nginx = Proxy::nginx(&[stream(larder.redis), stream(larder.http)], &[forwarding]);

    // MONITOR and CLIENT LIST have the client's address and port, not nginx's.
    let mut monitor = from(71, nginx.port(0));
    monitor.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(monitor).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "+OK");
    let client = from(72, nginx.port(0));
    let own = client.local_addr().unwrap().to_string();
    assert_eq!(shown_address(client, b""), own);
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains(&format!(" {own}]")) && line.contains("\"CLIENT\""), "{line}");

    // Each client has its own budget; what it writes into the header itself does not help it.
    for (port, request) in [
        (nginx.port(1), String::from_utf8_lossy(GET).into_owned()),
        (
            nginx.port(2),
            "GET /v1/kv/none HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 192.0.2.N\r\nconnection: close\r\n\r\n".into(),
        ),
    ] {
        let client = if port == nginx.port(1) { 73 } else { 74 };
        let answers: Vec<u16> = (0..14)
            .map(|at: u32| status(&exchange(from(client, port), request.replace('N', &at.to_string()).as_bytes())))
            .collect();
        assert_eq!(answers[..6], [404; 6], "{answers:?}");
        assert!(answers.contains(&429), "{answers:?}");
        assert_eq!(
            status(&exchange(from(client + 10, port), request.replace('N', "1").as_bytes())),
            404,
            "another client"
        );
    }
    drop((lines, nginx));
    larder.signal(Signal::TERM);
    larder.wait();
    let log = larder.stderr();
    assert!(log.contains("127.0.0.73:"), "a client of the stream has its port: {log}");
    assert!(log.contains("\"127.0.0.74\"") || log.contains("client=127.0.0.74 "), "{log}");
    assert!(!log.contains("192.0.2."), "{log}");
}

#[test]
fn haproxy_names_the_client_by_both_versions_and_over_tls() {
    let authority = Authority::new();
    let args = ["--trusted-proxies=127.0.0.0/30", "--proxy-protocol=required", "--forwarded-header=forwarded"];
    let larder = programs::larder(&[&authority.issue("a", &["a.test"])], &args);
    let tcp = |port: u16, how: &str| format!("mode tcp\nserver s 127.0.0.1:{port} {how}");
    let haproxy = Proxy::haproxy(&[
        tcp(larder.redis, "send-proxy"),
        tcp(larder.redis, "send-proxy-v2"),
        // Type-length-values: a checksum, an identifier, the host of the handshake.
        tcp(larder.rediss[0], "send-proxy-v2-ssl-cn proxy-v2-options crc32c,unique-id,authority"),
        tcp(larder.https[0], "send-proxy"),
        tcp(larder.redis, ""),
        // Health checks of haproxy's own: LOCAL.
        tcp(larder.redis, "send-proxy-v2 check check-send-proxy inter 50ms"),
    ]);
    for version in 0..2 {
        let client = from(75, haproxy.port(version));
        let own = client.local_addr().unwrap().to_string();
        assert_eq!(shown_address(client, b""), own, "version {}", version + 1);
    }
    // TLS begins behind the header.
    let listed = programs::redis_cli(&authority, haproxy.port(2), &[], &["CLIENT", "LIST"]);
    assert!(listed.contains("addr=127.0.0.1:"), "{listed}");
    let code = ["--output", "/dev/null", "--write-out", "%{http_code} %{http_version}"];
    assert_eq!(programs::curl(&authority, haproxy.port(3), "a.test", "/healthz", &code), "200 2");
    let output = programs::run(
        "redis-cli",
        &["-p", &larder.rediss[0].to_string(), "--tls", "--cacert", text(&authority.file()), "PING"],
        b"",
    );
    assert!(
        !String::from_utf8_lossy(&output.stdout).contains("PONG"),
        "a trusted address without a header: {output:?}"
    );
    // A proxy that sends none is told so.
    let answer = exchange(from(75, haproxy.port(4)), b"PING\r\n");
    assert!(
        answer.starts_with("-ERR PROXY protocol: no PROXY header came (setting `proxy-protocol` is `required`)"),
        "{answer}"
    );
    super::common::wait_until("health checks of the proxy itself", || {
        larder.metric("larder_proxy_headers_total{result=\"read\"}") > 12.0
    });
    assert!(larder.metric("larder_proxy_headers_total{result=\"missing\"}") >= 2.0);
    assert_eq!(larder.metric("larder_proxy_headers_total{result=\"malformed\"}"), 0.0);
}

#[test]
fn only_the_header_of_the_setting_counts_and_only_from_trusted_proxies() {
    for (header, counts, other) in [
        ("forwarded", "Forwarded: for=127.0.0.98", "X-Forwarded-For: 127.0.0.99"),
        ("x-forwarded-for", "X-Forwarded-For: 127.0.0.98", "Forwarded: for=127.0.0.99"),
    ] {
        let header = format!("--forwarded-header={header}");
        let larder = Larder::start(&["--trusted-proxies=127.0.0.81", &header, "--throttle=4/m"]);
        // Plain reads, those of other routes, HTTP/2 and the admin listener's health are all of the same
        // client or of none.
        let ask = |host: u8, fields: &str, path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{fields}\r\nconnection: close\r\n\r\n");
            status(&exchange(from(host, larder.http), request.as_bytes()))
        };
        let used_up = |host: u8, fields: &str, path: &str| (0..10).any(|_| ask(host, fields, path) == 429);
        assert!(used_up(81, counts, "/v1/kv/a"), "the client behind the proxy");
        assert!((0..3).any(|_| ask(81, counts, "/v1/keys") == 429), "on another route");
        assert_eq!(ask(81, other, "/v1/kv/a"), 404, "the proxy itself: the other header does not count");
        assert_eq!(ask(82, counts, "/v1/kv/a"), 404, "an untrusted address is its own client");
        assert!(used_up(82, &format!("{}7", counts), "/v1/kv/a"), "whatever it claims");
        let mut direct = Client::connect(larder.redis).unwrap();
        assert_eq!(host(&shown_address(from(81, larder.redis), b"")), "127.0.0.81");
        assert_eq!(direct.command(&["GET", "a"]), super::common::Reply::nil());
    }
}
