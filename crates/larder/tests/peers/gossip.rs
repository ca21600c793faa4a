//! Nodes that find each other by gossip, and notice who is gone.
use super::{
    common::{Port, wait_until},
    fleet::{Fleet, read, send},
    larder::Larder,
};
use rustix::process::Signal;
use std::{
    net::UdpSocket,
    sync::{Arc, Mutex},
    thread::spawn,
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
    // No node can tell it.
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

/// Stands on the way to a node: passes each datagram on, and keeps it.
fn record(listen: String, to: u16) -> Arc<Mutex<Vec<Vec<u8>>>> {
    let kept = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let (socket, keep) = (UdpSocket::bind(listen).unwrap(), kept.clone());
    spawn(move || {
        let mut packet = [0; 65536];
        while let Ok((len, _)) = socket.recv_from(&mut packet) {
            keep.lock().unwrap().push(packet[..len].to_vec());
            // The node may have gone.
            let _ = socket.send_to(&packet[..len], ("127.0.0.1", to));
        }
    });
    kept
}

#[test]
fn packets_that_were_recorded_keep_no_node_alive() {
    // Others reach a node at the host of `peer-self`. There the recorder listens.
    let udp = [Port::free(), Port::free()];
    let address = |number: usize| format!("127.0.0.{}:{}", number + 2, udp[number].number);
    let recorded = [0, 1].map(|number| record(address(number), udp[number].number));
    let seed = format!("gossip:{}", address(0));
    let mut nodes = [0, 1].map(|number| {
        let (name, own) = (format!("127.0.0.{}:80", number + 2), format!("127.0.0.1:{}", udp[number].number));
        let args = ["--peers", &seed, "--peer-self", &name, "--peer-gossip", &own, "--peer-secret", "of these nodes"];
        Larder::start(&[&args[..], &["--source", "demo:"]].concat())
    });
    wait_until("the nodes to find each other", || nodes.iter().all(|node| names(node).len() == 2));
    wait_until("enough to be recorded", || recorded.iter().all(|kept| kept.lock().unwrap().len() >= 30));
    nodes[0].signal(Signal::KILL);
    nodes[0].wait();
    let begun = Instant::now();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let kept = recorded[1].lock().unwrap().clone();
    wait_until("the node that was killed to be gone", || {
        kept.iter().for_each(|packet| _ = socket.send_to(packet, ("127.0.0.1", udp[1].number)).unwrap());
        names(&nodes[1]) == ["127.0.0.3:80"]
    });
    assert!(begun.elapsed() < BOUND);
    nodes[1].signal(Signal::TERM);
    nodes[1].wait();
    let log = nodes[1].stderr();
    assert!(log.contains("a gossip packet is refused: it was sent before"), "{log}");
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
