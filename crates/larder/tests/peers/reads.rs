//! Reads of keys that other nodes own.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    fleet::{Fleet, over_each_transport, read},
    larder::Larder,
    scripted_origin::{ScriptedOrigin, answer},
};
use rustix::process::Signal;
use std::io::Write;

over_each_transport!(
    a_key_is_fetched_once_for_all,
    an_owner_that_is_gone_is_replaced_by_the_next_node,
    a_node_that_reaches_nobody_asks_the_source_itself,
    hot_keys_are_copied_for_a_while,
    keys_of_one_owner_travel_together,
    reads_of_several_clients_travel_together_and_none_waits_for_the_fetch_of_another,
    every_node_sends_the_headers_of_the_owner,
    full_buffers_put_no_node_out_of_the_ring,
);

/// Neither those of the node that asks, nor those of the owner.
fn full_buffers_put_no_node_out_of_the_ring(transport: &str) {
    let redis = RedisServer::start();
    let args = ["--source", &redis.url(), "--max-buffers", "4MiB", "--threads", "1", "--hot-copy-ttl", "0"];
    let fleet = Fleet::over(transport, 2, &args);
    let mut keys = fleet.keys_of(1);
    let (large, small) = (keys.next().unwrap(), keys.next().unwrap());
    redis.command(&["SET", &large, &"v".repeat(3 << 20)]);
    redis.command(&["SET", &small, "v"]);
    assert_eq!(read(&fleet.nodes[0], &small).as_deref(), Some("v"));
    let mut refused = 0;
    for full in [0, 1] {
        // Half a value holds most of the node's buffers.
        let node = &fleet.nodes[full];
        let mut holder = node.stream();
        holder.write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 3 << 20).as_bytes()).unwrap();
        holder.write_all(&vec![b'x'; 5 << 19]).unwrap();
        let held = || node.metric("larder_buffers_bytes{kind=\"redis_input\"}");
        wait_until("half a value to be held", || held() > 2e6);
        for _ in 0..3 {
            // The owner's copy needs no room.
            redis.command(&["SET", &large, &"w".repeat(3 << 20)]);
            let request = format!("GET /v1/kv/{large} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            // A full node may also make room by closing the connection that holds the most.
            let (status, _, _) = fleet.nodes[0].http(&request);
            refused += usize::from(status != 200);
            let peers = fleet.peers(0);
            let all = peers["peers"].as_array().unwrap();
            assert!(all.iter().all(|peer| peer["reachable"] == true), "node {full} is full: {peers}");
            assert_eq!(read(&fleet.nodes[0], &small).as_deref(), Some("v"));
        }
    }
    assert!(refused > 0, "the buffers were never full");
}

/// One answer carries at most 1 MiB of values, and the node makes no message of the others.
#[test]
fn an_answer_for_many_large_keys_takes_the_memory_of_what_it_carries() {
    let fleet = Fleet::start(1, &["--threads", "1"]);
    let node = &fleet.nodes[0];
    assert_eq!(node.client().command(&["SET", "k", &"v".repeat(1 << 19)]), Reply::ok());
    let before = node.peak();
    // As often as a request may have keys: `GetKeysRequest` with the key `k`.
    let body = "\x0a\x01k".repeat(128);
    let request = format!(
        "POST /_groupcache/default/_get-keys/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (status, _, answer) = node.http(&request);
    assert_eq!((status, answer.len() >> 19), (200, 1), "one value, the next exceeds 1 MiB with its metadata");
    assert!(node.peak() < before + (16 << 20), "{} after {before}", node.peak());
}

/// `Age` and the `max-age` of a read.
fn lifetime(node: &Larder, key: &str) -> (u64, u64) {
    let request = format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let (status, head, _) = node.http(&request);
    assert_eq!(status, 200, "{head}");
    let number = |name: &str| {
        let value = head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} {head}"));
        value.parse().unwrap_or_else(|_| panic!("{name} {head}"))
    };
    (number("age: "), number("cache-control: max-age="))
}

fn every_node_sends_the_headers_of_the_owner(transport: &str) {
    let origin = ScriptedOrigin::start(|_| answer("200 OK", "cache-control: max-age=600\r\nage: 100\r\n", "v"));
    let source = format!("http://127.0.0.1:{}/{{key}}", origin.port);
    // From the owner, from a node that asks it, and from that node's own copy.
    let fleet = Fleet::over(transport, 2, &["--source", &source, "--threads", "1", "--hot-copy-ttl", "10s:3"]);
    let key = fleet.key_of(1);
    for node in [1, 0, 0, 0, 0, 0] {
        let (age, max_age) = lifetime(&fleet.nodes[node], &key);
        assert_eq!(max_age, 600, "the origin's: node {node}");
        assert!((100..200).contains(&age), "with the origin's age: {age}");
    }
    let fleet = Fleet::over(transport, 2, &["--source", "demo:", "--ttl", "1000s", "--hot-copy-ttl", "10s:3"]);
    let key = fleet.key_of(1);
    for node in [1, 0, 0, 0, 0, 0] {
        let (age, max_age) = lifetime(&fleet.nodes[node], &key);
        assert!((999..=1001).contains(&max_age) && age < 100, "{age} {max_age} at node {node}");
    }
}

fn fetches(node: &Larder) -> f64 {
    node.metric("larder_source_fetches_total{group=\"default\"}")
}

fn a_key_is_fetched_once_for_all(transport: &str) {
    let fleet = Fleet::over(transport, 3, &["--source", "demo:"]);
    for owner in 0..3 {
        let key = fleet.key_of(owner);
        let before: Vec<f64> = fleet.nodes.iter().map(fetches).collect();
        let values: Vec<_> = fleet.nodes.iter().map(|node| read(node, &key).unwrap()).collect();
        assert!(values[0].contains(&format!("\"guid\":\"{key}\"")), "{}", values[0]);
        assert!(values.iter().all(|value| *value == values[0]), "one fill, with one date: {values:?}");
        let asked: Vec<usize> = (0..3).filter(|node| fetches(&fleet.nodes[*node]) > before[*node]).collect();
        assert_eq!(asked, [owner], "{key}: the owner alone asks the source");
    }
}

fn an_owner_that_is_gone_is_replaced_by_the_next_node(transport: &str) {
    let mut fleet = Fleet::over(transport, 3, &["--source", "demo:", "--hot-copy-ttl", "0"]);
    let key = fleet.key_of(2);
    let reachable = |fleet: &Fleet| {
        let peers = fleet.peers(0);
        peers["peers"].as_array().unwrap().iter().all(|peer| peer["reachable"] == true)
    };
    drop(fleet.nodes.pop());
    let values: Vec<_> = fleet.nodes.iter().map(|node| read(node, &key).unwrap()).collect();
    assert_eq!(values[0], values[1], "one of the two fills it for both");
    assert!(!reachable(&fleet));
    fleet.nodes.push(fleet.start_node(2));
    // Of which no node has a copy yet.
    let mut keys = fleet.keys_of(2).skip(1);
    wait_until("the owner to be asked again", || {
        read(&fleet.nodes[0], &keys.next().unwrap()).unwrap();
        reachable(&fleet)
    });
}

fn a_node_that_reaches_nobody_asks_the_source_itself(transport: &str) {
    let mut fleet = Fleet::over(transport, 3, &["--source", "demo:"]);
    let keys: Vec<String> = (1..3).flat_map(|owner| fleet.keys_of(owner).take(10).collect::<Vec<_>>()).collect();
    fleet.nodes.truncate(1);
    for key in &keys {
        assert!(read(&fleet.nodes[0], key).unwrap().contains(key.as_str()), "{key}");
    }
    assert!(fleet.nodes[0].metric("larder_peer_fallbacks_total{group=\"default\"}") > 0.0);
}

fn hot_keys_are_copied_for_a_while(transport: &str) {
    let fleet = Fleet::over(transport, 2, &["--source", "demo:", "--threads", "1", "--hot-copy-ttl", "10s:3"]);
    let key = fleet.key_of(1);
    let reads = || {
        let peers = fleet.peers(0);
        let other = peers["peers"].as_array().unwrap().iter().find(|peer| peer["self"] == false).unwrap().clone();
        other["reads"].as_u64().unwrap()
    };
    let asked: Vec<u64> = (0..6)
        .map(|_| {
            let before = reads();
            read(&fleet.nodes[0], &key).unwrap();
            reads() - before
        })
        .collect();
    assert_eq!(asked, [1, 1, 1, 0, 0, 0]);
}

fn keys_of_one_owner_travel_together(transport: &str) {
    let fleet = Fleet::over(transport, 2, &["--source", "demo:?absent=0.1", "--hot-copy-ttl", "0"]);
    let keys: Vec<String> = fleet.keys_of(1).take(200).collect();
    let body = serde_json::json!({ "keys": keys }).to_string();
    let answered = || fleet.nodes[1].metric("larder_http_responses_total{class=\"2xx\"}");
    let read_all = || {
        let (status, _, answer) = fleet.nodes[0].http(&format!(
            "POST /v1/mget HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(status, 200);
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        answer["values"].as_array().unwrap().clone()
    };
    // The first answers show that the owner is a Larder.
    let alone = read_all();
    let before = answered();
    let together = read_all();
    // The look at the metrics is counted as well.
    assert!(answered() - before <= 3.0, "200 keys in two requests");
    let is_of = |value: &serde_json::Value, key: &str| value.to_string().contains(&format!("\\\"{key}\\\""));
    for ((key, alone), together) in keys.iter().zip(&alone).zip(&together) {
        assert_eq!(alone, together, "{key}");
        assert!(together.is_null() || is_of(together, key), "{key}: {together}");
    }
    let absent = together.iter().filter(|value| value.is_null()).count();
    assert!((1..100).contains(&absent), "{absent} of 200 are absent");
}

fn reads_of_several_clients_travel_together_and_none_waits_for_the_fetch_of_another(transport: &str) {
    let fleet = Fleet::over(
        transport,
        2,
        &["--source", "demo:?delay=3s", "--source-timeout", "20s", "--hot-copy-ttl", "0", "--threads", "1"],
    );
    let keys: Vec<String> = fleet.keys_of(1).take(60).collect();
    let (held, missing) = keys.split_at(50);
    // The owner fills, and the asking node sees that the owner is a Larder.
    for node in [1, 0] {
        let clients = ask(&fleet.nodes[node], held);
        clients.into_iter().for_each(|mut client| drop(value(&mut client)));
    }
    let answered = || fleet.nodes[1].metric("larder_http_responses_total{class=\"2xx\"}");
    let before = answered();
    let mut clients = ask(&fleet.nodes[0], &keys);
    let waiting = clients.split_off(held.len());
    for (mut client, key) in clients.into_iter().zip(held) {
        assert!(value(&mut client).contains(key), "{key}");
    }
    assert!(waiting.iter().all(Client::is_open), "the others are being fetched");
    assert!(answered() - before < 25.0, "50 answers came in a few messages");
    for (mut client, key) in waiting.into_iter().zip(missing) {
        assert!(value(&mut client).contains(key), "{key}");
    }
}

/// One `GET` from a client of its own for each key; all are there when the node looks.
fn ask(node: &Larder, keys: &[String]) -> Vec<Client> {
    let mut clients: Vec<Client> = keys.iter().map(|_| node.client()).collect();
    node.signal(Signal::STOP);
    for (client, key) in clients.iter_mut().zip(keys) {
        client.send(&["GET", key]).unwrap();
    }
    node.signal(Signal::CONT);
    clients
}

fn value(client: &mut Client) -> String {
    match client.read().unwrap() {
        Reply::Bulk(Some(value)) => String::from_utf8(value).unwrap(),
        other => panic!("{other:?}"),
    }
}
