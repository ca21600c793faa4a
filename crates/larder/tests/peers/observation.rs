//! What a node says about its reads: `/data`, `/stats`, `/metrics`, `larder peers`.
use super::{
    common::wait_until,
    fleet::{Fleet, over_each_transport, read, send},
    larder::{Larder, binary, connect},
};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    process::{Command, Output},
};

over_each_transport!(a_request_is_logged_at_both_nodes);

fn data(node: &Larder, key: &str) -> (u16, String, String) {
    let (status, head, body) = node.http(&format!("GET /data/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    let content_type = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap().to_owned();
    (status, content_type, String::from_utf8(body).unwrap())
}

/// The same on the fast path.
fn data_at_once(node: &Larder, key: &str) -> (u16, String) {
    let mut stream = connect(node.http);
    stream.write_all(format!("GET /data/{key} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn stats(node: &Larder, path: &str) -> Value {
    serde_json::from_str(&node.get(path)).unwrap()
}

/// The parts of the numbers that are named.
fn picked(stats: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| (name.to_string(), stats[name].clone())).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn data_comes_from_whichever_node_has_it() {
    let fleet = Fleet::start(3, &["--source", "demo:"]);
    for owner in 0..3 {
        let key = fleet.key_of(owner);
        let (status, content_type, value) = data(&fleet.nodes[0], &key);
        assert_eq!((status, &*content_type), (200, "application/json"));
        assert!(value.contains(&format!("\"guid\":\"{key}\"")), "{value}");
        for node in &fleet.nodes {
            assert_eq!(data(node, &key), (200, content_type.clone(), value.clone()));
            assert_eq!(data_at_once(node, &key), (200, value.clone()));
        }
    }
    for (faults, expected) in [("absent=1", 404), ("fail=1", 503)] {
        let fleet = Fleet::start(2, &["--source", &format!("demo:?{faults}")]);
        for key in [fleet.key_of(0), fleet.key_of(1)] {
            for node in &fleet.nodes {
                assert_eq!(data(node, &key).0, expected);
                assert_eq!(data_at_once(node, &key).0, expected);
            }
        }
    }
}

#[test]
fn stats_count_what_was_asked() {
    let fleet = Fleet::start(2, &["--source", "demo:", "--threads", "1", "--hot-copy-ttl", "10s:2"]);
    let key = fleet.key_of(1);
    let value = data(&fleet.nodes[0], &key).2;
    (0..3).for_each(|_| assert_eq!(data(&fleet.nodes[0], &key).2, value));
    let (asking, owner) = (stats(&fleet.nodes[0], "/stats"), stats(&fleet.nodes[1], "/stats"));
    let names = [
        "Gets",
        "CacheHits",
        "PeerLoads",
        "PeerErrors",
        "Loads",
        "LoadsDeduped",
        "LocalLoads",
        "LocalLoadErrs",
        "ServerRequests",
    ];
    let expected = json!({"Gets": 4, "CacheHits": 2, "PeerLoads": 2, "PeerErrors": 0, "Loads": 2, "LoadsDeduped": 2,
        "LocalLoads": 0, "LocalLoadErrs": 0, "ServerRequests": 0});
    assert_eq!(picked(&asking, &names), expected, "{asking}");
    let expected = json!({"Gets": 2, "CacheHits": 1, "PeerLoads": 0, "PeerErrors": 0, "Loads": 1, "LoadsDeduped": 1,
        "LocalLoads": 1, "LocalLoadErrs": 0, "ServerRequests": 2});
    assert_eq!(picked(&owner, &names), expected, "{owner}");
    let size = key.len() + value.len();
    assert_eq!(
        picked(&stats(&fleet.nodes[0], "/stats/hot"), &["Items", "Bytes", "Hits"]),
        json!({"Items": 1, "Bytes": size, "Hits": null})
    );
    assert_eq!(picked(&stats(&fleet.nodes[1], "/stats/hot"), &["Items", "Bytes"]), json!({"Items": 0, "Bytes": 0}));
    let main = stats(&fleet.nodes[0], "/stats/main");
    assert_eq!(
        picked(&main, &["Items", "Gets", "Hits", "Evictions"]),
        json!({"Items": 1, "Gets": 4, "Hits": 2, "Evictions": 0})
    );
    assert!(main["Bytes"].as_u64().unwrap() >= size as u64, "{main}");
    let other = format!("127.0.0.1:{}", fleet.ports[1].number);
    assert_eq!(fleet.nodes[0].metric(&format!("larder_peer_reads_total{{peer=\"{other}\"}}")), 2.0);
    assert_eq!(fleet.nodes[0].metric("larder_hot_copies_kept_total{group=\"default\"}"), 1.0);
    assert_eq!(fleet.nodes[1].metric("larder_peer_requests_total{group=\"default\"}"), 2.0);
    assert_eq!(fleet.nodes[1].metric("larder_peer_other_ring_total{group=\"default\"}"), 0.0);
    assert_eq!(fleet.nodes[1].metric("larder_peers"), 2.0);
    assert_eq!(stats(&fleet.nodes[0], "/v1/stats")["peer_reads"][other.as_str()], 2);
}

#[test]
fn a_source_that_fails_is_counted_at_both_nodes() {
    let fleet = Fleet::start(2, &["--source", "demo:?fail=1", "--threads", "1"]);
    let key = fleet.key_of(1);
    assert_eq!(data(&fleet.nodes[0], &key).0, 503);
    let (asking, owner) = (stats(&fleet.nodes[0], "/stats"), stats(&fleet.nodes[1], "/stats"));
    let names = ["PeerLoads", "PeerErrors", "LocalLoads", "LocalLoadErrs"];
    assert_eq!(picked(&asking, &names), json!({"PeerLoads": 0, "PeerErrors": 1, "LocalLoads": 0, "LocalLoadErrs": 0}));
    let failed = owner["LocalLoadErrs"].as_u64().unwrap();
    assert!(failed >= 1 && owner["LocalLoads"] == 0 && owner["PeerErrors"] == 0, "{owner}");
}

#[test]
fn a_node_that_is_gone_shows() {
    let mut fleet = Fleet::start(2, &["--source", "demo:", "--threads", "1"]);
    let other = format!("{{peer=\"127.0.0.1:{}\"}}", fleet.ports[1].number);
    let metric = |fleet: &Fleet, name: &str| fleet.nodes[0].metric(&format!("{name}{other}"));
    assert_eq!((metric(&fleet, "larder_peer_reachable"), metric(&fleet, "larder_peer_untold_changes")), (1.0, 0.0));
    let share = metric(&fleet, "larder_peer_ring_share");
    assert!(0.0 < share && share < 1.0, "{share}");
    let (key, own) = (fleet.key_of(1), fleet.key_of(0));
    drop(fleet.nodes.pop());
    read(&fleet.nodes[0], &key).unwrap();
    for key in [&key, &own, &own] {
        assert_eq!(send(&fleet.nodes[0], "DELETE", &format!("/v1/keys?key={key}"), ""), 204);
    }
    assert_eq!((metric(&fleet, "larder_peer_reachable"), metric(&fleet, "larder_peer_untold_changes")), (0.0, 2.0));
    assert!(
        metric(&fleet, "larder_peer_failed_reads_total") >= 1.0
            && metric(&fleet, "larder_peer_failed_changes_total") >= 3.0
    );
    assert!(stats(&fleet.nodes[0], "/stats")["PeerErrors"].as_u64().unwrap() >= 1);
    fleet.nodes.push(fleet.start_node(1));
    wait_until("the node to hear of the changes", || metric(&fleet, "larder_peer_untold_changes") == 0.0);
}

#[test]
fn nodes_with_another_ring_are_counted() {
    let fleet = Fleet::start(2, &["--source", "demo:", "--threads", "1"]);
    let (node, key) = (&fleet.nodes[0], fleet.key_of(0));
    let epoch = fleet.peers(0)["epoch"].as_str().unwrap().to_owned();
    let other = "00000000000000ff";
    // By the general path, which ends the connection, and by the fast one, which does not.
    for (ring, counted) in [(other, 1.0), (&*epoch, 1.0)] {
        let head = format!("GET /_groupcache/default/{key} HTTP/1.1\r\nhost: x\r\nlarder-ring: {ring}\r\n");
        assert_eq!(node.http(&format!("{head}connection: close\r\n\r\n")).0, 200);
        assert_eq!(node.metric("larder_peer_other_ring_total{group=\"default\"}"), counted);
    }
    let mut stream = connect(node.http);
    for ring in [other, &epoch, other] {
        write!(stream, "GET /_groupcache/default/{key} HTTP/1.1\r\nhost: x\r\nlarder-ring: {ring}\r\n\r\n").unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    assert_eq!(node.metric("larder_peer_other_ring_total{group=\"default\"}"), 3.0);
    assert_eq!(node.metric("larder_peer_requests_total{group=\"default\"}"), 5.0);
    let mut fleet = fleet;
    let mut node = fleet.nodes.remove(0);
    node.signal(rustix::process::Signal::TERM);
    node.wait();
    let log = node.stderr();
    assert_eq!(log.matches("a peer has another ring").count(), 1, "{log}");
    assert!(log.contains(other) && log.contains(&epoch), "{log}");
}

fn a_request_is_logged_at_both_nodes(transport: &str) {
    let mut fleet = Fleet::over(transport, 2, &["--source", "demo:", "--threads", "1", "--access-log", "100%"]);
    let key = fleet.key_of(1);
    for node in &fleet.nodes {
        let level = "PUT /v1/log-level HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 4\r\n\r\ninfo";
        assert_eq!(node.admin(level).0, 200);
    }
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let head = |id: &str| {
        format!("GET /data/{key} HTTP/1.1\r\nhost: x\r\nX-Request-Id: {id}\r\ntraceparent: {traceparent}\r\n")
    };
    // By the general path, then by the fast one; the second fetch is kept.
    assert_eq!(fleet.nodes[0].http(&(head("one") + "connection: close\r\n\r\n")).0, 200);
    for id in ["two", "three"] {
        let mut stream = connect(fleet.nodes[0].http);
        stream.write_all((head(id) + "\r\n").as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    let logs: Vec<String> = fleet
        .nodes
        .iter_mut()
        .map(|node| {
            node.signal(rustix::process::Signal::TERM);
            node.wait();
            node.stderr()
        })
        .collect();
    let line = |node: usize, id: &str| -> String {
        let id = format!("request_id=\"{id}\"");
        logs[node].lines().filter(|line| line.contains(&id)).collect()
    };
    let (names, log) =
        (fleet.ports.iter().map(|port| format!("127.0.0.1:{}", port.number)).collect::<Vec<_>>(), logs.concat());
    let path = if transport == "grpc" { "/larder.peers.v1.Peers/Get" } else { "/_groupcache/default/" };
    for (id, answered_by) in [("one", "source"), ("two", "hit")] {
        let (asking, asked) = (line(0, id), line(1, id));
        assert!(asking.contains(&format!("answered_by=\"peer {}\"", names[1])), "{log}");
        assert!(asking.contains("outcome=\"peer\"") && asking.contains("fetch_micros="), "{log}");
        let outcome = if answered_by == "source" { "origin" } else { "hit" };
        assert!(asked.contains(&format!("outcome=\"{outcome}\"")), "{log}");
        assert!(asked.contains(&format!("answered_by=\"{answered_by}\"")) && asked.contains(path), "{log}");
        assert!(asked.contains(&format!("node=\"{}\"", names[0])) && !asking.contains("node="), "{log}");
        assert!([asking, asked].iter().all(|line| line.contains(traceparent) && line.contains("status=200")), "{log}");
    }
    assert!(
        line(0, "three").contains("outcome=\"hot-copy\" answered_by=\"hot copy\"") && line(1, "three").is_empty(),
        "{log}"
    );
}

fn peers_command(args: &[&str]) -> Output {
    Command::new(binary()).arg("peers").args(args).env_clear().output().unwrap()
}

#[test]
fn the_ring_is_shown_at_the_command_line() {
    let mut fleet = Fleet::start(3, &["--source", "demo:"]);
    let key = fleet.key_of(2);
    let url = format!("http://127.0.0.1:{}", fleet.nodes[0].http);
    drop(fleet.nodes.pop());
    read(&fleet.nodes[0], &key).unwrap();
    let output = peers_command(&["--url", &url, "--key", &key]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let epoch = fleet.peers(0)["epoch"].as_str().unwrap().to_owned();
    assert!(text.starts_with(&format!("epoch {epoch}, 3 nodes\n")), "{text}");
    for (port, health) in fleet.ports.iter().zip(["  this node  ", "  up  ", "  out  "]) {
        let line = text.lines().find(|line| line.starts_with(&format!("127.0.0.1:{}", port.number))).unwrap();
        assert!(line.contains(health) && line.contains(" %"), "{line}");
    }
    assert!(text.ends_with(&format!("owner of the key: 127.0.0.1:{}\n", fleet.ports[2].number)), "{text}");

    let alone = Larder::start(&[]);
    let output = peers_command(&["--url", &format!("http://127.0.0.1:{}", alone.http)]);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("this node shares nothing: `peers` is not set"), "{text}");
}
