//! Nodes that are found by the addresses of a name.
use super::{
    addressed_node::AddressedNode,
    common::{Port, wait_until},
    larder::{Larder, binary},
};
use std::{iter, net::TcpListener, path::Path, process::Command};

#[test]
fn a_node_finds_itself_by_a_name() {
    let port = Port::free();
    let this = format!("127.0.0.1:{}", port.number);
    let name = format!("dns:localhost:{}", port.number);
    let node = Larder::with_http_on(port.number, &["--peers", &name]);
    let peers: serde_json::Value = serde_json::from_str(&node.get("/v1/peers")).unwrap();
    assert_eq!((peers["self"].as_str(), peers["peers"].as_array().map(Vec::len)), (Some(&*this), Some(1)), "{peers}");
}

/// Starts a node whose `/etc/hosts` is a file of the test's: in a mount namespace of its own.
fn start(hosts: &Path, address: &str, peers: &str) -> AddressedNode {
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\" --peers-refresh 100ms";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(hosts).arg(binary());
    AddressedNode::spawn(command, address, peers)
}

/// Free on 127.0.0.1 to 127.0.0.3: another test may listen on all addresses.
pub fn port_of_three_hosts() -> Port {
    iter::repeat_with(Port::free)
        .find(|port| ["127.0.0.2", "127.0.0.3"].iter().all(|host| TcpListener::bind((*host, port.number)).is_ok()))
        .expect("there are free ports")
}

#[test]
fn nodes_come_and_go_with_the_addresses_of_a_name() {
    // A container may forbid namespaces to its users.
    let allowed = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no user namespaces here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    // In place: the file itself is mounted.
    let set = |hosts_of: &[&str]| {
        let lines: String = hosts_of.iter().map(|host| format!("{host} nodes.test\n")).collect();
        std::fs::write(&hosts, lines).unwrap();
    };
    let port = port_of_three_hosts();
    let name = format!("dns:nodes.test:{}", port.number);
    let address = |host: &str| format!("{host}:{}", port.number);
    set(&["127.0.0.1", "127.0.0.2"]);
    let nodes: Vec<AddressedNode> =
        ["127.0.0.1", "127.0.0.2"].iter().map(|host| start(&hosts, &address(host), &name)).collect();
    let two = ["127.0.0.1", "127.0.0.2"].map(address);
    let three = ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map(address);
    assert!(nodes.iter().all(|node| node.names() == two), "known before the first request");
    let third = start(&hosts, &three[2], &name);
    assert_eq!(third.names(), three, "a node is on its own ring");
    set(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let agree = |expected: &[String]| {
        wait_until("the nodes to agree", || nodes.iter().all(|node| node.names() == expected));
    };
    agree(&three);
    assert_eq!(nodes[0].peers()["epoch"], third.peers()["epoch"]);
    set(&["127.0.0.1", "127.0.0.2"]);
    agree(&two);
    // No answer: those that are known stay. Nothing shows that it has been looked up, so this waits for
    // some look-ups.
    set(&[]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    agree(&two);
}
