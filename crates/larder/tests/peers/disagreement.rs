//! Nodes that do not agree, and nodes that hang.
use super::{
    common::{Port, RedisServer, wait_until},
    fleet::{Fleet, over_each_transport, read, send},
    larder::Larder,
};
use rustix::process::Signal;
use std::{
    thread,
    time::{Duration, Instant},
};

over_each_transport!(
    nodes_that_disagree_make_no_circle,
    an_owner_that_hangs_costs_one_read_its_patience,
    routes_between_nodes_can_ask_for_a_secret,
    nodes_with_another_hash_notice_it_at_the_start,
);

fn owner(node: &Larder, key: &str) -> String {
    let status: serde_json::Value = serde_json::from_str(&node.get(&format!("/v1/peers?key={key}"))).unwrap();
    status["owner"].as_str().unwrap().to_owned()
}

/// Each of two nodes takes the other for the owner, and both are asked at once, again and again.
fn nodes_that_disagree_make_no_circle(transport: &str) {
    let ports = [Port::free(), Port::free()];
    let address = |number: usize| format!("127.0.0.1:{}", ports[number].number);
    let peers = format!("{},{}", address(0), address(1));
    let start = |number: usize, hash: &str| {
        let args = ["--peers", &peers, "--peer-hash", hash, "--source", "demo:?delay=20ms", "--hot-copy-ttl", "0"];
        let args = [&args[..], &["--source-timeout", "20s", "--peer-transport", transport]].concat();
        Larder::with_http_on(ports[number].number, &args)
    };
    let nodes = [start(0, "fnv1"), start(1, "fnv1-url")];
    let keys: Vec<String> = (0..)
        .map(|number| format!("{number:x}-key"))
        .filter(|key| owner(&nodes[0], key).ends_with(&address(1)) && owner(&nodes[1], key).ends_with(&address(0)))
        .take(5)
        .collect();
    let begun = Instant::now();
    for key in &keys {
        thread::scope(|scope| {
            for node in nodes.iter().cycle().take(8) {
                scope.spawn(move || assert!(read(node, key).unwrap().contains(key.as_str())));
            }
        });
    }
    // A circle would last until source-timeout for each key.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

fn an_owner_that_hangs_costs_one_read_its_patience(transport: &str) {
    let fleet = Fleet::over(transport, 3, &["--source", "demo:", "--source-timeout", "300ms", "--hot-copy-ttl", "0"]);
    let keys: Vec<String> = fleet.keys_of(2).take(20).collect();
    read(&fleet.nodes[0], &keys[0]).unwrap();
    fleet.nodes[2].signal(Signal::STOP);
    let begun = Instant::now();
    for key in &keys[1..] {
        read(&fleet.nodes[0], key).unwrap();
    }
    // The owner is left alone for 250 ms after the first failure, and twice as long after each further one:
    // a busy machine takes longer for the reads, and more of them may wait.
    let allowed = 1.0 + (1.0 + begun.elapsed().as_secs_f64() / 0.25).log2();
    let waited = fleet.nodes[0].metric("larder_peer_failed_reads_total");
    fleet.nodes[2].signal(Signal::CONT);
    assert!((1.0..=allowed).contains(&waited), "{waited} of {} reads waited, not {allowed}", keys.len() - 1);
}

fn routes_between_nodes_can_ask_for_a_secret(transport: &str) {
    let fleet = Fleet::over(transport, 2, &["--source", "demo:", "--peer-secret", "open sesame"]);
    for node in &fleet.nodes {
        assert!(read(node, &fleet.key_of(1)).is_some() && read(node, &fleet.key_of(0)).is_some());
    }
    assert!(fleet.peers(0)["peers"].as_array().unwrap().iter().all(|peer| peer["failed_reads"] == 0));
    for (method, path) in [
        ("GET", "/_groupcache/default/a"),
        ("DELETE", "/_groupcache/default/a"),
        ("POST", "/_groupcache/default/_clear/"),
        ("POST", "/larder.peers.v1.Peers/Get"),
    ] {
        assert_eq!(send(&fleet.nodes[0], method, path, ""), 401, "{method}");
    }
}

/// Without a single read. The older node hears of it, and so does the one that starts.
fn nodes_with_another_hash_notice_it_at_the_start(transport: &str) {
    let ports = [Port::free(), Port::free()];
    let peers = ports.each_ref().map(|port| format!("127.0.0.1:{}", port.number)).join(",");
    let start = |number: usize, hash: &str| {
        let args = ["--peers", &peers, "--peer-hash", hash, "--peer-transport", transport];
        Larder::with_http_on(ports[number].number, &args)
    };
    let status = |node: &Larder| serde_json::from_str::<serde_json::Value>(&node.get("/v1/peers")).unwrap();
    let mut nodes = vec![start(0, "xxh3"), start(1, "fnv1")];
    wait_until("both to know", || nodes.iter().all(|node| status(node)["agree"] == false));
    for (node, [ours, theirs]) in nodes.iter().zip([["xxh3", "fnv1"], ["fnv1", "xxh3"]]) {
        let status = status(node);
        assert_eq!((&status["hash"], &status["agree"]), (&ours.into(), &false.into()), "{status}");
        let other = status["peers"].as_array().unwrap().iter().find(|peer| peer["self"] == false).unwrap();
        assert_eq!(other["hash"], theirs);
    }
    drop(nodes.pop());
    nodes.push(start(1, "xxh3"));
    wait_until("both to agree", || nodes.iter().all(|node| status(node)["agree"] == true));
    nodes[0].signal(Signal::TERM);
    nodes[0].wait();
    let log = nodes[0].stderr();
    assert_eq!(log.matches("a peer hashes keys with another function").count(), 1, "{log}");
}

/// A copy of a key that another node owns would not be announced to this node.
#[test]
fn copies_of_redis_are_as_coherent_through_peers() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(2, &["--source", &redis.url()]);
    for owner in 0..2 {
        let key = fleet.key_of(owner);
        for value in ["one", "two", "three"] {
            redis.command(&["SET", &key, value]);
            let begun = Instant::now();
            let old = || fleet.nodes.iter().any(|node| read(node, &key).as_deref() != Some(value));
            while old() {
                assert!(begun.elapsed() < Duration::from_secs(5), "{key} is not {value} everywhere");
            }
            assert!((0..5).all(|_| !old()));
        }
    }
}
