//! Nodes that are found by the addresses of a name.
use crate::{
    common::{Port, wait_until},
    larder::{Larder, binary},
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    iter,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

#[test]
fn a_node_finds_itself_by_a_name() {
    let port = Port::free();
    let this = format!("127.0.0.1:{}", port.number);
    let name = format!("dns:localhost:{}", port.number);
    let node = Larder::with_http_on(port.number, &["--peers", &name]);
    let peers: serde_json::Value = serde_json::from_str(&node.get("/v1/peers")).unwrap();
    assert_eq!((peers["self"].as_str(), peers["peers"].as_array().map(Vec::len)), (Some(&*this), Some(1)), "{peers}");
}

/// A node whose `/etc/hosts` is a file of the test's: in a mount namespace of its own.
struct NamedNode {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    address: String,
}

impl NamedNode {
    fn start(hosts: &Path, address: &str, peers: &str) -> NamedNode {
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        let mut child = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .arg(hosts)
            .arg(binary())
            .args(["serve", "--log-level", "warn", "--redis", "off", "--admin", "off", "--source", "demo:"])
            .args(["--http", address, "--peers", peers, "--peers-refresh", "100ms"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"ready\":true"), "no ready line: {line}");
        NamedNode { child, _stdout: stdout, address: address.to_owned() }
    }

    fn peers(&self) -> serde_json::Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(b"GET /v1/peers HTTP/1.0\r\nhost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
    fn names(&self) -> Vec<String> {
        let peers = self.peers();
        let peers = peers["peers"].as_array().unwrap();
        peers.iter().map(|peer| peer["name"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for NamedNode {
    fn drop(&mut self) {
        // Already dead is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
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
    // Free on the other addresses as well: another test may listen on all.
    let port = iter::repeat_with(Port::free)
        .find(|port| ["127.0.0.2", "127.0.0.3"].iter().all(|host| TcpListener::bind((*host, port.number)).is_ok()))
        .expect("there are free ports");
    let name = format!("dns:nodes.test:{}", port.number);
    let address = |host: &str| format!("{host}:{}", port.number);
    set(&["127.0.0.1", "127.0.0.2"]);
    let nodes: Vec<NamedNode> =
        ["127.0.0.1", "127.0.0.2"].iter().map(|host| NamedNode::start(&hosts, &address(host), &name)).collect();
    let two = ["127.0.0.1", "127.0.0.2"].map(address);
    let three = ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map(address);
    assert!(nodes.iter().all(|node| node.names() == two), "known before the first request");
    let third = NamedNode::start(&hosts, &three[2], &name);
    assert_eq!(third.names(), three, "a node is on its own ring");
    set(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let agree = |expected: &[String]| {
        wait_until("the nodes to agree", || nodes.iter().all(|node| node.names() == expected));
    };
    agree(&three);
    assert_eq!(nodes[0].peers()["epoch"], third.peers()["epoch"]);
    set(&["127.0.0.1", "127.0.0.2"]);
    agree(&two);
    // No answer: those that are known stay. Nothing shows that it has been looked up, so this waits for some look-ups.
    set(&[]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    agree(&two);
}
