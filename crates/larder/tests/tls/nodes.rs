//! Nodes that share their caches over TLS.
use super::{
    certificates::{Authority, Files, text},
    common::Port,
    larder::Larder,
    programs::{curl, curl_args, run},
};
use std::path::Path;

/// A node on a known port for HTTPS. Its plain listeners are on ports of their own.
fn node(port: &Port, peers: &str, files: &Files, ca: &Path, more: &[&str]) -> Larder {
    let [cert, key] = files.flags();
    let https = format!("--https=127.0.0.1:{}", port.number);
    let ca = format!("--peer-tls-ca={}", text(ca));
    let args = ["--peers", peers, &https, &ca, &cert, &key, "--source", "demo:?delay=0ms"];
    // A busy machine takes its time for a handshake, which may take a quarter of this.
    Larder::start(&[&args[..], &["--source-timeout=80s"], more].concat())
}

fn ring(ports: &[Port]) -> String {
    ports.iter().map(|port| format!("127.0.0.1:{}", port.number)).collect::<Vec<_>>().join(",")
}

/// What a node counts of the others.
fn counted(node: &Larder, what: &str) -> u64 {
    let status: serde_json::Value = serde_json::from_str(&node.get("/v1/peers")).unwrap();
    status["peers"].as_array().unwrap().iter().filter_map(|peer| peer[what].as_u64()).sum()
}

fn read_many(node: &Larder) {
    for key in 0..40 {
        let request = format!("GET /v1/kv/{key:x}-key HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        assert_eq!(node.http(&request).0, 200);
    }
}

#[test]
fn nodes_know_each_other_by_their_certificates() {
    ["http", "grpc"].into_iter().for_each(nodes_know_each_other);
}

fn nodes_know_each_other(transport: &str) {
    let (servers, nodes) = (Authority::new(), Authority::new());
    let ports = [Port::free(), Port::free()];
    let peers = ring(&ports);
    let files = ["a", "b"].map(|name| nodes.issue(name, &["127.0.0.1"]));
    let ca = nodes.file();
    let transport = ["--peer-transport", transport];
    let [a, b] = [0, 1].map(|at| node(&ports[at], &peers, &files[at], &ca, &transport));
    read_many(&a);
    assert!(counted(&a, "reads") > 0);
    assert_eq!(counted(&a, "failed_reads"), 0, "{}", a.get("/v1/peers"));
    // Changes reach the other as well.
    let put = |key: &str| {
        let request = format!("DELETE /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        a.http(&request).0
    };
    for key in 0..10 {
        put(&format!("{key:x}-key"));
    }
    assert_eq!(counted(&a, "untold_changes"), 0);
    // Others read keys, but do not speak for a node.
    let status = |node: &Larder, shown: Option<&Files>, path: &str| {
        let own: Vec<&str> = shown.map_or(Vec::new(), |of| vec!["--cert", text(&of.cert), "--key", text(&of.key)]);
        let connect = format!("::127.0.0.1:{}", node.https[0]);
        let url = format!("https://127.0.0.1:{}{path}", node.https[0]);
        let code = ["--output", "/dev/null", "--write-out", "%{http_code}", &url];
        let done = run("curl", &[&curl_args(&ca, &connect)[..], &own, &code].concat(), b"");
        String::from_utf8(done.stdout).unwrap()
    };
    let (of_node, of_client) = ("/_groupcache/default/0-key", "/v1/kv/0-key");
    assert_eq!(status(&b, Some(&files[0]), of_node), "200");
    assert_eq!(status(&b, None, of_client), "200");
    assert_eq!(status(&b, None, of_node), "401");
    // The same over gRPC, whichever the nodes use.
    let over_grpc = |shown: Option<&Files>| {
        let own: Vec<&str> = shown.map_or(Vec::new(), |of| vec!["--cert", text(&of.cert), "--key", text(&of.key)]);
        let connect = format!("::127.0.0.1:{}", b.https[0]);
        let url = format!("https://127.0.0.1:{}/larder.peers.v1.Peers/Get", b.https[0]);
        let call =
            ["--http2", "--header", "content-type: application/grpc", "--header", "te: trailers", "--data-binary", "x"];
        let code = ["--output", "/dev/null", "--write-out", "%{http_code}", &url];
        String::from_utf8(run("curl", &[&curl_args(&ca, &connect)[..], &own, &call, &code].concat(), b"").stdout)
            .unwrap()
    };
    assert_eq!([over_grpc(Some(&files[0])), over_grpc(None)], ["200", "401"]);
    // A certificate of another authority is refused in the handshake.
    assert_eq!(status(&b, Some(&servers.issue("x", &["127.0.0.1"])), of_client), "000");
    // Nor is the plain listener a way around it.
    let request = format!("GET {of_node} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(b.http(&request).0, 401);
    assert_eq!(curl(&nodes, b.https[0], "127.0.0.1", of_client, &["--fail", "--output", "/dev/null"]), "");
}

#[test]
fn a_node_without_the_right_certificate_is_no_peer() {
    ["http", "grpc"].into_iter().for_each(no_peer_without_the_right_certificate);
}

fn no_peer_without_the_right_certificate(transport: &str) {
    let transport = ["--peer-transport", transport];
    let (nodes, others) = (Authority::new(), Authority::new());
    let ports = [Port::free(), Port::free()];
    let peers = ring(&ports);
    let ca = nodes.file();
    let a = node(&ports[0], &peers, &nodes.issue("a", &["127.0.0.1"]), &ca, &transport);
    // It trusts the others' authority, but its own certificate is not of it.
    let _b = node(&ports[1], &peers, &others.issue("b", &["127.0.0.1"]), &ca, &transport);
    // Each fills from the source instead.
    read_many(&a);
    assert!(counted(&a, "failed_reads") > 0);
    assert_eq!(counted(&a, "failed_reads"), counted(&a, "reads"));
    read_many(&_b);
    assert!(counted(&_b, "failed_reads") > 0);
}

#[test]
fn clients_authorities_and_nodes_authorities_are_told_apart() {
    let (nodes, clients) = (Authority::new(), Authority::new());
    let ports = [Port::free()];
    let files = nodes.issue("a", &["127.0.0.1"]);
    let client_ca = format!("--tls-client-ca={}", text(&clients.file()));
    let a = node(&ports[0], &ring(&ports), &files, &nodes.file(), &[&client_ca]);
    let client = clients.issue("client", &["client.test"]);
    let ca = nodes.file();
    let status = |shown: &Files, path: &str| {
        let connect = format!("::127.0.0.1:{}", a.https[0]);
        let url = format!("https://127.0.0.1:{}{path}", a.https[0]);
        let own = ["--cert", text(&shown.cert), "--key", text(&shown.key)];
        let code = ["--output", "/dev/null", "--write-out", "%{http_code}", &url];
        String::from_utf8(run("curl", &[&curl_args(&ca, &connect)[..], &own, &code].concat(), b"").stdout).unwrap()
    };
    assert_eq!(status(&client, "/v1/kv/0-key"), "200");
    assert_eq!(status(&client, "/_groupcache/default/0-key"), "401");
    assert_eq!(status(&files, "/_groupcache/default/0-key"), "200");
}

#[test]
fn one_name_for_all_nodes() {
    ["http", "grpc"].into_iter().for_each(one_name);
}

fn one_name(transport: &str) {
    let transport = format!("--peer-transport={transport}");
    let nodes = Authority::new();
    let ports = [Port::free(), Port::free()];
    let peers = ring(&ports);
    let files = nodes.issue("node", &["larder.internal"]);
    let start = |at: usize, name: &str| node(&ports[at], &peers, &files, &nodes.file(), &[name, &transport]);
    let a = start(0, "--peer-tls-name=larder.internal");
    let _b = start(1, "--peer-tls-name=other.internal");
    read_many(&a);
    assert!(counted(&a, "reads") > 0);
    assert_eq!(counted(&a, "failed_reads"), 0);
    read_many(&_b);
    assert_eq!(counted(&_b, "failed_reads"), counted(&_b, "reads"), "the certificate has another name");
}
