//! The listeners with TLS, spoken to by other people's clients.
use super::{
    certificates::{Authority, text},
    common::{Reply, wait_until},
    programs::{curl, larder, openssl, output, redis_cli},
};
use std::path::Path;

#[test]
fn curl_speaks_both_versions_of_http() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &[]);
    let port = larder.https[0];
    let status = ["--output", "/dev/null", "--write-out", "%{http_code} %{http_version}"];
    let put = [&["--upload-file", "-"][..], &status].concat();
    assert_eq!(curl(&authority, port, "a.test", "/v1/kv/k", &put), "201 2");
    assert_eq!(curl(&authority, port, "a.test", "/v1/kv/k", &status), "200 2", "HTTP/2 is preferred");
    let first = [&["--http1.1"][..], &status].concat();
    assert_eq!(curl(&authority, port, "a.test", "/v1/kv/k", &first), "200 1.1");
    // Without ALPN.
    let none = [&["--no-alpn"][..], &status].concat();
    assert_eq!(curl(&authority, port, "a.test", "/v1/kv/k", &none), "200 1.1");
    let old = [&["--tls-max", "1.2"][..], &status].concat();
    assert_eq!(curl(&authority, port, "a.test", "/v1/kv/k", &old), "200 2", "TLS 1.2");
}

#[test]
fn refusals_reach_clients_that_send_a_body() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &[]);
    let long = "x".repeat(40_000);
    for body in ["x", &long] {
        let put = ["--request", "PUT", "--data", body, "--output", "/dev/null", "--write-out", "%{http_code}"];
        for (path, status) in [("/v1/nothing", "404"), ("/v1/keys", "405"), ("/v1/kv/k?tll=1s", "400")] {
            for _ in 0..10 {
                assert_eq!(curl(&authority, larder.https[0], "a.test", path, &put), status, "{path}");
            }
        }
    }
}

#[test]
fn values_of_all_sizes_go_both_ways() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &["--max-memory=256MiB"]);
    let port = larder.https[0];
    // Around the sizes of a TLS record and of what the library keeps unsent.
    for size in [0, 1, 16_383, 16_384, 16_385, 65_536, 70_000, 20_000_000] {
        let value: Vec<u8> = (0..size).map(|at: u32| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        let file = authority.dir().join("value");
        std::fs::write(&file, &value).unwrap();
        for version in ["--http1.1", "--http2"] {
            let read = authority.dir().join("read");
            let path = format!("/v1/kv/{size}");
            let fail = ["--fail", "--output", text(&read), version];
            curl(&authority, port, "a.test", &path, &[&["--upload-file", text(&file)][..], &fail].concat());
            curl(&authority, port, "a.test", &path, &fail);
            assert!(std::fs::read(&read).unwrap_or_default() == value, "{size} bytes over {version}");
            // The same value by the other protocol, without TLS.
            assert!(larder.client().command(&["GET", &size.to_string()]) == Reply::Bulk(Some(value.clone())));
        }
    }
}

#[test]
#[ignore = "make test-clients"]
fn redis_py_reads_and_writes_values_of_all_sizes() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &["--max-memory=256MiB"]);
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/python/bin/python");
    let script = r#"
import redis, sys
port, ca = int(sys.argv[1]), sys.argv[2]
client = redis.Redis(host="127.0.0.1", port=port, ssl=True, ssl_ca_certs=ca, ssl_check_hostname=False)
for protocol in (2, 3):
    client = redis.Redis(host="127.0.0.1", port=port, ssl=True, ssl_ca_certs=ca, ssl_check_hostname=False, protocol=protocol)
    for size in (0, 1, 16383, 16384, 16385, 65536, 70000, 20000000):
        value = bytes(at * 2654435761 % 251 for at in range(min(size, 4096))) * max(1, size // 4096)
        client.set("k", value)
        assert client.get("k") == value, size
    pipeline = client.pipeline(transaction=False)
    for at in range(20000):
        pipeline.set(f"key:{at}", "v" * (at % 300))
    for at in range(20000):
        pipeline.get(f"key:{at}")
    replies = pipeline.execute()
    assert replies[20000:] == [b"v" * (at % 300) for at in range(20000)]
    subscriber = client.pubsub()
    subscriber.subscribe("news")
    assert subscriber.get_message(timeout=30)["type"] == "subscribe"
    client.publish("news", "hello")
    assert subscriber.get_message(timeout=30)["data"] == b"hello"
    subscriber.close()
print("done")
"#;
    let (port, ca) = (larder.rediss[0].to_string(), authority.file());
    let args = ["-c", script, &port, text(&ca)];
    assert_eq!(output(text(&python), &args, b""), "done\n");
}

#[test]
fn redis_cli_and_the_admin_listener() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["127.0.0.1", "a.test"])], &["--admin-tls"]);
    let port = larder.rediss[0];
    assert_eq!(redis_cli(&authority, port, &[], &["SET", "k", "v"]), "OK\n");
    assert_eq!(redis_cli(&authority, port, &["-3"], &["GET", "k"]), "v\n");
    let metrics = curl(&authority, larder.admin, "a.test", "/metrics", &[]);
    assert!(metrics.contains("larder_tls_handshakes_total{session=\"new\"} 3\n"), "{metrics}");
    assert_eq!(curl(&authority, larder.admin, "a.test", "/healthz", &["--http1.1"]), "ok\n");
}

#[test]
fn each_host_has_its_certificate() {
    let authority = Authority::new();
    let [a, b] = [&["a.test"][..], &["b.test", "*.b.test"]].map(|hosts| authority.issue(hosts[0], hosts));
    let larder = larder(&[&a, &b], &[]);
    for port in [larder.https[0], larder.rediss[0]] {
        let shown = |name: &[&str]| {
            let said = openssl(port, name, b"");
            let subject = said.lines().find_map(|line| line.trim().strip_prefix("subject=CN = ")).map(str::to_owned);
            subject.unwrap_or_else(|| panic!("no certificate: {said}"))
        };
        assert_eq!(shown(&["-servername", "a.test"]), "a.test");
        assert_eq!(shown(&["-servername", "B.test"]), "b.test");
        assert_eq!(shown(&["-servername", "x.b.test"]), "b.test");
        assert_eq!(shown(&["-servername", "x.y.b.test"]), "a.test", "a wildcard is for one label");
        assert_eq!(shown(&["-servername", "c.test"]), "a.test", "the first is for all others");
        assert_eq!(shown(&["-noservername"]), "a.test");
    }
    for host in ["a.test", "b.test", "x.b.test"] {
        assert_eq!(curl(&authority, larder.https[0], host, "/healthz", &[]), "ok\n");
    }
}

#[test]
fn the_cheapest_cipher_is_chosen_though_the_client_prefers_another() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &[]);
    let tls13 = ["-tls1_3", "-ciphersuites"];
    let tls12 = ["-tls1_2", "-cipher"];
    for (setting, offered, chosen) in [
        (tls13, "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        (tls13, "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
        (tls13, "TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
        (tls12, "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ] {
        for port in [larder.https[0], larder.rediss[0]] {
            let said = openssl(port, &[setting[0], setting[1], offered], b"");
            assert!(said.contains(&format!("Cipher is {chosen}\n")), "{offered}: {said}");
        }
    }
}

#[test]
fn sessions_are_resumed() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &[]);
    let session = authority.dir().join("session");
    for (version, port) in [("-tls1_2", larder.https[0]), ("-tls1_3", larder.https[0]), ("-tls1_3", larder.rediss[0])] {
        // Tickets of TLS 1.3 come after the handshake: `Q` alone could end the client before.
        let request: &[u8] =
            if port == larder.https[0] { b"GET /healthz HTTP/1.0\r\n\r\n" } else { b"PING\r\nQUIT\r\n" };
        let before = larder.metric("larder_tls_handshakes_total{session=\"resumed\"}");
        let out = openssl(port, &[version, "-ign_eof", "-sess_out", text(&session)], request);
        assert!(out.contains("New, "), "{out}");
        let out = openssl(port, &[version, "-ign_eof", "-sess_in", text(&session)], request);
        assert!(out.contains("Reused, "), "{out}");
        assert_eq!(larder.metric("larder_tls_handshakes_total{session=\"resumed\"}"), before + 1.0);
    }
    // A session of one service is none of the other's.
    let out = openssl(
        larder.https[0],
        &["-tls1_3", "-ign_eof", "-sess_in", text(&session)],
        b"GET /healthz HTTP/1.0\r\n\r\n",
    );
    assert!(out.contains("New, "), "{out}");
}

#[test]
fn a_drain_lets_clients_finish() {
    let authority = Authority::new();
    let mut larder = larder(&[&authority.issue("a", &["127.0.0.1"])], &[]);
    let port = larder.rediss[0];
    let (ca, port) = (authority.file(), port.to_string());
    let args = ["-h", "127.0.0.1", "-p", &port, "--tls", "--cacert", text(&ca), "SUBSCRIBE", "news"];
    let waiting = std::thread::spawn({
        let args = args.map(str::to_owned);
        move || super::programs::run("redis-cli", &args.each_ref().map(String::as_str), b"")
    });
    wait_until("the client to connect", || larder.metric("larder_tls_handshakes_total{session=\"new\"}") == 1.0);
    larder.signal(rustix::process::Signal::TERM);
    assert!(larder.wait().0.success());
    waiting.join().unwrap();
}
