//! Nodes that find each other by gossip, and notice who is gone.
use super::{
    common::wait_until,
    fleet::{Fleet, read, send},
    larder::Larder,
};
use rustix::process::Signal;
use std::{
    net::UdpSocket,
    time::{Duration, Instant},
};

/// The longest that a node which has gone without a word stays on the rings of the others, by
/// docs/peers.md; doubled for a busy machine.
const BOUND: Duration = Duration::from_secs(10);

fn names(node: &Larder) -> Vec<String> {
    let peers: serde_json::Value = serde_json::from_str(&node.get("/v1/peers")).unwrap();
    peers["peers"].as_array().unwrap().iter().map(|peer| peer["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the nodes of these numbers have each other on their rings, and no others.
fn agree(fleet: &Fleet, numbers: &[usize]) -> Duration {
    let mut expected: Vec<String> =
        numbers.iter().map(|number| format!("127.0.0.1:{}", fleet.ports[*number].number)).collect();
    expected.sort();
    let begun = Instant::now();
    wait_until(&format!("nodes {numbers:?} to agree"), || {
        numbers.iter().all(|number| {
            let mut names = names(&fleet.nodes[*number]);
            names.sort();
            names == expected
        })
    });
    begun.elapsed()
}

#[test]
fn nodes_that_know_one_find_all_and_lose_those_that_are_gone() {
    let mut fleet = Fleet::gossiping(4, 1, &["--source", "demo:", "--peer-secret", "of these nodes"]);
    agree(&fleet, &[0, 1, 2, 3]);
    let epochs: Vec<_> = (0..4).map(|number| fleet.peers(number)["epoch"].clone()).collect();
    assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");

    // Killed: it says nothing.
    fleet.nodes[3].signal(Signal::KILL);
    fleet.nodes[3].wait();
    let took = agree(&fleet, &[0, 1, 2]);
    println!("killed: gone after {took:.1?}");
    assert!(took < BOUND, "{took:?}");

    // Frozen: its sockets are open, and it comes back.
    let key = fleet.key_of(1);
    let before = read(&fleet.nodes[1], &key).unwrap();
    fleet.nodes[1].signal(Signal::STOP);
    let took = agree(&fleet, &[0, 2]);
    println!("frozen: gone after {took:.1?}");
    assert!(took < BOUND, "{took:?}");
    // Nobody can tell it.
    assert_eq!(send(&fleet.nodes[0], "DELETE", &format!("/v1/keys?key={key}"), ""), 204);
    let now = read(&fleet.nodes[0], &key).unwrap();
    assert_ne!(now, before);
    fleet.nodes[1].signal(Signal::CONT);
    agree(&fleet, &[0, 1, 2]);
    wait_until("the node that was frozen to forget what it held", || read(&fleet.nodes[1], &key).unwrap() != before);

    // Started again, at the same address.
    fleet.nodes[3] = fleet.start_node(3);
    agree(&fleet, &[0, 1, 2, 3]);

    // One that ends says so.
    fleet.nodes[2].signal(Signal::TERM);
    assert!(fleet.nodes[2].wait().0.success());
    let took = agree(&fleet, &[0, 1, 3]);
    println!("ended: gone after {took:.1?}");
}

#[test]
fn a_node_without_the_secret_is_no_peer_and_junk_does_no_harm() {
    let mut fleet = Fleet::gossiping(2, 1, &["--source", "demo:", "--peer-secret", "of these nodes"]);
    agree(&fleet, &[0, 1]);
    let (_, udp) = fleet.gossip().unwrap();
    let seed = format!("gossip:127.0.0.1:{}", udp[0].number);
    let args = ["--peers", &seed, "--peer-self", "127.0.0.1:1", "--peer-gossip", "127.0.0.1:0"];
    for secret in [&[][..], &["--peer-secret", "of others"]] {
        let stranger = Larder::with_http_on(0, &[&args[..], secret].concat());
        assert_eq!(names(&stranger), ["127.0.0.1:1"]);
        agree(&fleet, &[0, 1]);
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for len in [0, 1, 31, 32, 33, 1300, 5000] {
        let junk: Vec<u8> = (0..len).map(|_| fastrand::u8(..)).collect();
        socket.send_to(&junk, ("127.0.0.1", udp[1].number)).unwrap();
    }
    // It gossips all the same: who ends is gone at once.
    agree(&fleet, &[0, 1]);
    fleet.nodes[0].signal(Signal::TERM);
    fleet.nodes[0].wait();
    agree(&fleet, &[1]);
}

#[test]
fn an_address_that_is_taken_stops_the_start() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = socket.local_addr().unwrap().to_string();
    let output = super::larder::command()
        .args(["--http", "127.0.0.1:0", "--redis", "off", "--admin", "off", "--peers", "gossip:127.0.0.1:1"])
        .args(["--peer-self", "127.0.0.1:1", "--peer-gossip", &taken])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains(&format!("cannot listen on UDP {taken} (peer-gossip)")),
        "{error}"
    );
}
