//! One ring of two Larders and a groupcache-go v3 node: each reads, sets and removes keys that the
//! other owns.
use super::{
    common::Port,
    fleet::send,
    go_node::{GoNode, key_of},
    larder::Larder,
};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

struct MixedRing {
    go: GoNode,
    larders: [Larder; 2],
    /// What the nodes are called: the Larders, then the Go node.
    names: [String; 3],
    _ports: [Port; 2],
}

impl MixedRing {
    fn start(args: &[&str]) -> MixedRing {
        let go = GoNode::start(&[]);
        let ports = [Port::free(), Port::free()];
        let [first, second] = ports.each_ref().map(|port| format!("127.0.0.1:{}", port.number));
        let names = [first, second, go.address.clone()];
        let peers = names.join(",");
        let larders = ports.each_ref().map(|port| {
            Larder::with_http_on(
                port.number,
                &[&["--peers", &peers, "--peer-hash", "fnv1", "--threads", "1"], args].concat(),
            )
        });
        go.set_peers(&names.each_ref().map(String::as_str));
        MixedRing { go, larders, names, _ports: ports }
    }

    /// A key of each node, with letters that paths and queries escape.
    fn keys(&self, beginning: &str) -> [Vec<u8>; 3] {
        self.names.each_ref().map(|owner| key_of(&self.go, &format!("{beginning} 100%/\u{e9}+?"), owner))
    }

    /// What each node answers for a key.
    fn read(&self, key: &[u8]) -> [Option<String>; 3] {
        let text = |(status, body): (u16, Vec<u8>)| match status {
            200 => Some(String::from_utf8(body).unwrap()),
            404 => None,
            _ => panic!("{status} {}", String::from_utf8_lossy(&body)),
        };
        let larder = |node: &Larder| {
            let request = format!("GET {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", path(key));
            let (status, _, body) = node.http(&request);
            text((status, body))
        };
        [larder(&self.larders[0]), larder(&self.larders[1]), text(self.go.get(key))]
    }
    /// The answer that all nodes give, asked so often that each has copies.
    #[track_caller]
    fn read_by_all(&self, key: &[u8]) -> Option<String> {
        let answers: Vec<_> = (0..4).flat_map(|_| self.read(key)).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{}: {answers:?}", String::from_utf8_lossy(key));
        answers[0].clone()
    }

    fn remove(&self, node: usize, key: &[u8]) {
        match self.larders.get(node) {
            Some(larder) => assert!(matches!(send(larder, "DELETE", &path(key).replace("kv/", "keys?key="), ""), 204)),
            None => self.go.remove(key),
        }
    }
    fn set(&self, node: usize, key: &[u8], value: &str) {
        match self.larders.get(node) {
            Some(larder) => assert!(matches!(send(larder, "PUT", &path(key), value), 201 | 204)),
            None => self.go.set(key, value.as_bytes(), None),
        }
    }
}

fn path(key: &[u8]) -> String {
    format!("/v1/kv/{}", percent_encode(key, NON_ALPHANUMERIC))
}

#[test]
#[ignore = "make test-clients"]
fn all_nodes_name_the_same_owners() {
    let ring = MixedRing::start(&[]);
    for number in 0..300_u32 {
        let key = number.wrapping_mul(0x9e37_79b1).to_string();
        let owner = ring.go.owner(key.as_bytes());
        for larder in &ring.larders {
            let status: serde_json::Value = serde_json::from_str(&larder.get(&format!("/v1/peers?key={key}"))).unwrap();
            assert_eq!(status["owner"], owner, "{key}");
        }
    }
}

#[test]
#[ignore = "make test-clients"]
fn a_key_is_filled_by_its_owner_alone_and_a_removal_is_heard_by_all() {
    let mut ring = MixedRing::start(&["--source", "demo:"]);
    for remover in 0..3 {
        let [first, second, go] = ring.keys(&format!("removed by {remover}"));
        for key in [&first, &second] {
            let before = ring.read_by_all(key).unwrap();
            assert!(before.contains("guid"), "{before}");
            ring.remove(remover, key);
            let after = ring.read_by_all(key).unwrap();
            assert_ne!(before, after, "removed by {remover}, it is made again");
            assert_eq!(ring.go.calls(key), 0, "the Go node leaves the key to its owner");
        }
        let value = format!("go:{}", String::from_utf8_lossy(&go));
        assert_eq!(ring.read_by_all(&go).unwrap(), value);
        assert_eq!(ring.go.calls(&go), 1, "a dozen reads at three nodes, one call of the getter");
        ring.remove(remover, &go);
        assert_eq!(ring.read_by_all(&go).unwrap(), value);
        assert_eq!(ring.go.calls(&go), 2, "removed by {remover}, it is asked for again");
    }
    // What its getter does not find, or fails at, is not looked for elsewhere.
    let [.., absent] = ring.keys("absent:");
    assert_eq!(ring.read_by_all(&absent), None);
    let [.., failing] = ring.keys("error:");
    let request = format!("GET {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", path(&failing));
    assert_eq!(ring.larders[0].http(&request).0, 503);

    let [.., orphan] = ring.keys("orphan");
    ring.go.kill();
    let (status, _, body) =
        ring.larders[0].http(&format!("GET {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", path(&orphan)));
    assert_eq!(status, 200);
    assert!(String::from_utf8(body).unwrap().contains("guid"), "a Larder takes the place of the Go node");
}

#[test]
#[ignore = "make test-clients"]
fn a_value_that_one_node_sets_is_read_by_all() {
    let ring = MixedRing::start(&[]);
    for (setter, beginning) in ["set by the first", "set by the second", "set by Go"].iter().enumerate() {
        for key in ring.keys(beginning) {
            ring.set(setter, &key, "one");
            assert_eq!(ring.read_by_all(&key).as_deref(), Some("one"), "set by {setter}");
            ring.set((setter + 1) % 3, &key, "two");
            assert_eq!(ring.read_by_all(&key).as_deref(), Some("two"), "set by {}", (setter + 1) % 3);
            assert_eq!(ring.go.calls(&key), 0);
            ring.remove((setter + 2) % 3, &key);
            let getter = format!("go:{}", String::from_utf8_lossy(&key));
            let after = (ring.go.owner(&key) == ring.go.address).then_some(getter);
            assert_eq!(ring.read_by_all(&key), after, "removed: only the Go node has a source");
        }
    }
}

#[test]
#[ignore = "make test-clients"]
fn several_keys_are_removed_at_once_and_lives_are_kept() {
    let ring = MixedRing::start(&[]);
    // Of one owner: groupcache-go tells an owner its own keys alone, so that of other keys it keeps
    // what it has.
    let ([first, ..], [second, ..]) = (ring.keys("many"), ring.keys("more"));
    for key in [&first, &second] {
        ring.go.set(key, b"value", Some("1h"));
        for larder in &ring.larders {
            let (status, head, _) =
                larder.http(&format!("GET {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", path(key)));
            assert_eq!(status, 200);
            let life = head.split("max-age=").nth(1).unwrap_or_else(|| panic!("no life: {head}"));
            let life: u32 = life.split(|byte: char| !byte.is_ascii_digit()).next().unwrap().parse().unwrap();
            assert!((1..=3600).contains(&life), "{life}");
        }
    }
    ring.go.remove_keys(&[&first, &second].map(|key| std::str::from_utf8(key).unwrap()));
    for key in [&first, &second] {
        let [one, other, _] = ring.read(key);
        assert_eq!((one, other), (None, None));
    }
}
