//! A groupcache-go v3 node under a test's control: ready when made, gone when dropped.
use super::{common::wait_until, interop, larder::connect};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

pub(crate) struct GoNode {
    child: Child,
    /// Its name on the ring, and where it answers peers.
    pub(crate) address: String,
    control: SocketAddr,
}

impl GoNode {
    /// Starts one on free ports, with more arguments (`tests/interop/node`). It is its own only
    /// peer.
    pub(crate) fn start(args: &[&str]) -> GoNode {
        let mut child = Command::new(interop::program("node"))
            .arg("-while-input")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("no ready line: {error}: {line}"));
        let address = |name: &str| ready[name].as_str().unwrap().to_owned();
        GoNode { child, address: address("address"), control: address("control").parse().unwrap() }
    }

    /// Tells it the ring's members, itself among them, in this order.
    pub(crate) fn set_peers(&self, peers: &[&str]) {
        let body = serde_json::to_string(peers).unwrap();
        assert_eq!(self.control("PUT", "/peers", body.as_bytes()).0, 200);
    }
    /// Who owns a key, by the library.
    pub(crate) fn owner(&self, key: &[u8]) -> String {
        String::from_utf8(self.control("GET", &path("/owner", key), b"").1).unwrap()
    }
    /// The library's get: status and value.
    pub(crate) fn get(&self, key: &[u8]) -> (u16, Vec<u8>) {
        self.control("GET", &path("/key", key), b"")
    }
    /// The library's set, with a life such as `10s`.
    pub(crate) fn set(&self, key: &[u8], value: &[u8], ttl: Option<&str>) {
        let ttl = ttl.map(|ttl| format!("&ttl={ttl}")).unwrap_or_default();
        let (status, answer) = self.control("PUT", &(path("/key", key) + &ttl), value);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    }
    /// The library's remove.
    pub(crate) fn remove(&self, key: &[u8]) {
        let (status, answer) = self.control("DELETE", &path("/key", key), b"");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    }
    /// The library's removal of many keys, as text.
    pub(crate) fn remove_keys(&self, keys: &[&str]) {
        let (status, answer) = self.control("POST", "/remove-keys", serde_json::to_string(keys).unwrap().as_bytes());
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    }
    /// How often its getter was called for a key.
    pub(crate) fn calls(&self, key: &[u8]) -> u64 {
        self.stats(key)["calls"].as_u64().unwrap()
    }
    /// Its counters; the library's own are in `group`.
    pub(crate) fn stats(&self, key: &[u8]) -> serde_json::Value {
        serde_json::from_slice(&self.control("GET", &path("/stats", key), b"").1).unwrap()
    }
    /// Ends it like a crash.
    pub(crate) fn kill(&mut self) {
        // Already dead is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    fn control(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        request(connect(self.control.port()), method, path, body)
    }
}

impl Drop for GoNode {
    fn drop(&mut self) {
        self.kill();
    }
}

fn path(route: &str, key: &[u8]) -> String {
    format!("{route}?key={}", percent_encode(key, NON_ALPHANUMERIC))
}

/// One request on a connection of its own: status and body.
pub(crate) fn request(mut stream: TcpStream, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    // HTTP/1.0: the body comes as it is and ends with the connection.
    let head = format!("{method} {path} HTTP/1.0\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let status = String::from_utf8_lossy(&answer[..end]).split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_off(end + 4))
}

/// A key of the given beginning that belongs to the node of this address.
pub(crate) fn key_of(node: &GoNode, beginning: &str, owner: &str) -> Vec<u8> {
    let mut numbers = 0..;
    let found = numbers.find_map(|number: u32| {
        let key = format!("{beginning}{}", number.wrapping_mul(0x9e37_79b1)).into_bytes();
        (node.owner(&key) == owner).then_some(key)
    });
    found.unwrap()
}

#[test]
#[ignore = "make test-clients"]
fn go_nodes_share_a_ring() {
    // The tests with Larder rely on this: what the nodes do among themselves.
    let (first, second) = (GoNode::start(&[]), GoNode::start(&["-prefix", "second:"]));
    let peers = [first.address.as_str(), second.address.as_str()];
    first.set_peers(&peers);
    second.set_peers(&peers);
    let key = key_of(&first, "k\u{e9}y/ ", &second.address);
    let filled = [b"second:".as_slice(), &key].concat();
    assert_eq!(first.get(&key), (200, filled.clone()));
    assert_eq!(second.get(&key), (200, filled));
    assert_eq!((first.calls(&key), second.calls(&key)), (0, 1), "the owner alone asks its source, once");
    first.set(&key, b"new", Some("1h"));
    assert_eq!(second.get(&key), (200, b"new".to_vec()));
    first.remove(&key);
    assert_eq!(second.get(&key).1, [b"second:".as_slice(), &key].concat());
    assert_eq!(second.calls(&key), 2);
    let (own, others) = (key_of(&first, "own", &first.address), key_of(&first, "others", &second.address));
    let names = [&own, &others].map(|key| std::str::from_utf8(key).unwrap());
    for key in [&own, &others] {
        assert_eq!(second.get(key).0, 200);
    }
    second.remove_keys(&names);
    // Each asked of its owner: the library leaves the caller's own copies of keys that others own
    // (groupcache-go#27).
    assert_eq!((first.get(&own).0, second.get(&others).0), (200, 200));
    assert_eq!((first.calls(&own), second.calls(&others)), (2, 2), "removed, each key is filled again");
    let absent = key_of(&first, "absent:", &second.address);
    assert_eq!(first.get(&absent).0, 404);
    assert_eq!((first.calls(&absent), second.calls(&absent)), (0, 1), "404 of an owner means: do not load it yourself");
    let mut ended = second;
    ended.kill();
    wait_until("the key to be loaded here, its owner being gone", || {
        first.get(b"alone").0 == 200 && first.get(&key).1.starts_with(b"go:")
    });
}
