//! Groups that some nodes lack, and owners that cannot be reached where there is no source.
use super::{
    common::{Port, Reply, wait_until},
    fleet::{Fleet, over_each_transport, read, send},
    go_node::{GoNode, key_of},
    larder::Larder,
};
use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

over_each_transport!(
    a_group_that_one_node_lacks_is_fetched_by_the_others,
    a_key_of_a_store_is_unavailable_at_a_node_that_lacks_its_group,
    what_a_lost_owner_may_have_is_absent_on_no_route,
);

/// A configuration file with a group.
fn config(folder: &Path, group: &str, source: &str) -> String {
    let path = folder.join("larder.toml");
    let mut file = std::fs::File::create(&path).unwrap();
    write!(file, "[groups.{group}]\nmax-memory = \"16MiB\"\nsource = \"{source}\"\n").unwrap();
    path.to_str().unwrap().to_owned()
}

/// Two nodes of which only the first has the group `data`, and its configuration file.
struct HalfFleet {
    nodes: Vec<Larder>,
    ports: [Port; 2],
    transport: String,
    config: String,
    _folder: tempfile::TempDir,
}

impl HalfFleet {
    fn start(transport: &str, source: &str) -> HalfFleet {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), "data", source);
        let mut fleet = HalfFleet {
            nodes: Vec::new(),
            ports: [Port::free(), Port::free()],
            transport: transport.to_owned(),
            config,
            _folder: folder,
        };
        fleet.nodes = vec![fleet.node(0, true), fleet.node(1, false)];
        fleet
    }
    fn node(&self, number: usize, has_group: bool) -> Larder {
        let peers = self.ports.each_ref().map(|port| format!("127.0.0.1:{}", port.number)).join(",");
        let mut args = vec!["--peers", &peers, "--peer-transport", &self.transport, "--threads", "1"];
        if has_group {
            args.extend(["--config", &self.config]);
        }
        Larder::with_http_on(self.ports[number].number, &args)
    }
    /// Keys that the second node owns.
    fn keys(&self) -> impl Iterator<Item = String> {
        let owner = format!("\"owner\":\"127.0.0.1:{}\"", self.ports[1].number);
        (0..)
            .map(|id| id.to_string())
            .filter(move |key| self.nodes[0].get(&format!("/v1/peers?key={key}")).contains(&owner))
    }
    /// What the first node says of the second.
    fn second(&self) -> serde_json::Value {
        let ring: serde_json::Value = serde_json::from_str(&self.nodes[0].get("/v1/peers")).unwrap();
        ring["peers"].as_array().unwrap().iter().find(|peer| peer["self"] == false).unwrap().clone()
    }
}

fn status(node: &Larder, path: &str) -> u16 {
    node.http(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).0
}

fn a_group_that_one_node_lacks_is_fetched_by_the_others(transport: &str) {
    let mut fleet = HalfFleet::start(transport, "demo:");
    let node = &fleet.nodes[0];
    let keys: Vec<String> = fleet.keys().take(20).collect();
    for key in &keys {
        assert_eq!(status(node, &format!("/v1/groups/data/kv/{key}")), 200, "{key}");
        assert_eq!(status(node, &format!("/data/{key}")), 200, "{key}");
    }
    // All at once.
    let body = format!("{{\"keys\":[\"{}\"]}}", fleet.keys().skip(20).take(30).collect::<Vec<_>>().join("\",\""));
    let len = body.len();
    let (code, _, answer) = node.http(&format!(
        "POST /v1/groups/data/mget HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
    ));
    let answer = String::from_utf8(answer).unwrap();
    assert_eq!((code, answer.matches("guid").count()), (200, 30), "{answer}");
    assert_eq!(send(node, "DELETE", &format!("/v1/groups/data/kv/{}", keys[0]), ""), 405);
    let second = fleet.second();
    assert_eq!((&second["reachable"], &second["groups_out"]), (&true.into(), &serde_json::json!(["data"])));
    assert_eq!(second["untold_changes"], 0, "it has no copies");
    // The group `default` is shared as before.
    assert_eq!(send(node, "PUT", &format!("/v1/kv/{}", keys[0]), "value"), 201);
    assert_eq!(read(&fleet.nodes[1], &keys[0]).as_deref(), Some("value"));
    let (code, _, body) =
        fleet.nodes[1].http("GET /_groupcache/data/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!((code, &*body), (421, &b"no such group: data\n"[..]));

    drop(fleet.nodes.pop());
    fleet.nodes.push(fleet.node(1, true));
    let mut more = fleet.keys().skip(50);
    wait_until("the node to be asked for its group again", || {
        assert_eq!(status(&fleet.nodes[0], &format!("/v1/groups/data/kv/{}", more.next().unwrap())), 200);
        fleet.second()["groups_out"].as_array().unwrap().is_empty()
    });
    drop(more);
    let mut node = fleet.nodes.remove(0);
    node.signal(rustix::process::Signal::TERM);
    node.wait();
    let log = node.stderr();
    assert_eq!(log.matches("peer is out for a group").count(), 1, "{log}");
    assert!(log.contains("it has no group `data`"), "{log}");
}

fn a_key_of_a_store_is_unavailable_at_a_node_that_lacks_its_group(transport: &str) {
    let fleet = HalfFleet::start(transport, "none:");
    let node = &fleet.nodes[0];
    for key in fleet.keys().take(3) {
        let path = format!("/v1/groups/data/kv/{key}");
        for method in ["GET", "PUT", "DELETE", "GET"] {
            assert_eq!(send(node, method, &path, ""), 503, "{method} {key}");
        }
        assert_eq!(status(node, &format!("/data/{key}")), 503, "{key}");
    }
    let second = fleet.second();
    assert_eq!((&second["reachable"], &second["groups_out"]), (&true.into(), &serde_json::json!(["data"])));
}

fn what_a_lost_owner_may_have_is_absent_on_no_route(transport: &str) {
    let mut fleet = Fleet::over(transport, 3, &[]);
    let [here, gone] = [0, 2].map(|owner| fleet.key_of(owner));
    let more: Vec<String> = fleet.keys_of(2).skip(1).take(40).collect();
    let mut client = fleet.nodes[0].client();
    assert_eq!(client.command(&["MSET", &here, "1", &gone, "1"]), Reply::ok());
    drop(fleet.nodes.pop());
    // The first read finds out, and the later ones know; keys that no node has had may have been set, too.
    for node in &fleet.nodes {
        let mut client = node.client();
        for key in [&gone].into_iter().chain(&more) {
            for path in [
                format!("/v1/kv/{key}"),
                format!("/v1/groups/default/kv/{key}"),
                format!("/data/{key}"),
                format!("/?key={key}"),
                format!("/lookup?key={key}"),
                format!("/v1/lookup?key={key}"),
                format!("/v0/entity?id={key}"),
            ] {
                assert_eq!(status(node, &path), 503, "{path}");
            }
            let reply = client.command(&["GET", key]);
            assert!(reply.error().starts_with("ERR source unavailable: "), "{reply:?}");
        }
        for command in [
            &["MGET", &here, &gone][..],
            &["STRLEN", &gone],
            &["GETRANGE", &gone, "0", "1"],
            &["EXISTS", &gone],
            &["TTL", &gone],
            &["TYPE", &gone],
            &["GETEX", &gone],
            &["JSON.GET", &gone],
        ] {
            let reply = client.command(command);
            assert!(reply.error().starts_with("ERR source unavailable: "), "{command:?}: {reply:?}");
        }
        let body = format!("{{\"keys\":[\"{gone}\",\"{here}\"]}}");
        let len = body.len();
        let (code, _, answer) = node.http(&format!(
            "POST /v1/mget HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
        ));
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(code == 503 || answer.contains("source unavailable"), "{code} {answer}");
        let (code, _, answer) =
            node.http(&format!("GET /cache/v1/item?key={gone} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(code == 503 && answer.contains("source unavailable"), "{code} {answer}");
        assert_eq!(read(node, &here).as_deref(), Some("1"), "other owners answer");
    }
}

/// Answers like a node without the group `data`, and counts the reads of it.
fn lacks_the_group(stream: TcpStream, reads: &AtomicUsize) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        if head.starts_with("GET /_groupcache/data/") {
            reads.fetch_add(1, Relaxed);
        }
        let body = "no such group: data\n";
        let length = body.len();
        write!(stream.get_mut(), "HTTP/1.1 421 Misdirected Request\r\ncontent-length: {length}\r\n\r\n{body}")?;
    }
}

/// Each of them may take its time, so a read does not ask all nodes of the ring.
#[test]
fn a_read_finds_out_about_two_nodes_without_its_group_at_most() {
    let reads = Arc::new(AtomicUsize::new(0));
    let port = Port::free();
    let mut peers = vec![format!("127.0.0.1:{}", port.number)];
    for _ in 0..11 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        peers.push(listener.local_addr().unwrap().to_string());
        let reads = reads.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let reads = reads.clone();
                std::thread::spawn(move || lacks_the_group(stream, &reads));
            }
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "data", "demo:");
    let args = ["--peers", &peers.join(","), "--peer-transport", "http", "--threads", "1", "--config", &config];
    let larder = Larder::with_http_on(port.number, &args);
    for key in 0..20 {
        let before = reads.load(Relaxed);
        assert_eq!(status(&larder, &format!("/v1/groups/data/kv/{key}")), 200, "{key}");
        let asked = reads.load(Relaxed) - before;
        assert!(asked <= 2, "{key}: {asked} nodes were asked");
    }
    assert!(reads.load(Relaxed) > 2, "nodes are asked");
}

/// A ring of a Larder with a group that the Go node lacks.
struct GoRing {
    go: GoNode,
    larder: Larder,
    /// The Larder's, then the Go node's.
    names: [String; 2],
    _port: Port,
    _folder: tempfile::TempDir,
}

impl GoRing {
    fn start(hash: &str) -> GoRing {
        let (go, port, folder) = (GoNode::start(&[]), Port::free(), tempfile::tempdir().unwrap());
        let config = config(folder.path(), "other", "demo:");
        let names = [format!("127.0.0.1:{}", port.number), go.address.clone()];
        let peers = names.join(",");
        let args = ["--peers", &peers, "--peer-hash", hash, "--threads", "1", "--source", "demo:", "--config", &config];
        let larder = Larder::with_http_on(port.number, &args);
        go.set_peers(&names.each_ref().map(String::as_str));
        GoRing { go, larder, names, _port: port, _folder: folder }
    }
    fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.larder.get("/v1/peers")).unwrap()
    }
    fn go_status(&self) -> serde_json::Value {
        self.status()["peers"].as_array().unwrap().iter().find(|peer| peer["name"] == *self.names[1]).unwrap().clone()
    }
}

#[test]
#[ignore = "make test-clients"]
fn a_go_node_that_lacks_a_group_is_asked_for_its_own() {
    let ring = GoRing::start("fnv1");
    let key = |number: usize| String::from_utf8(key_of(&ring.go, &format!("k{number}-"), &ring.names[1])).unwrap();
    let keys: Vec<String> = (0..20).map(key).collect();
    for key in &keys {
        assert_eq!(status(&ring.larder, &format!("/v1/groups/other/kv/{key}")), 200, "the Larder fetches {key}");
        // Between them, the Go node's own group.
        assert_eq!(read(&ring.larder, key).unwrap(), format!("go:{key}"));
    }
    // It closes the connection when it is told of a removal, too.
    for key in &keys[..5] {
        assert_eq!(send(&ring.larder, "DELETE", &format!("/v1/groups/other/keys?key={key}"), ""), 204);
        assert_eq!(send(&ring.larder, "DELETE", &format!("/v1/keys?key={key}"), ""), 204);
        assert_eq!(read(&ring.larder, key).unwrap(), format!("go:{key}"));
        assert_eq!(ring.go.calls(key.as_bytes()), 2, "removed at the Go node");
    }
    let go = ring.go_status();
    assert_eq!((&go["reachable"], &go["groups_out"]), (&true.into(), &serde_json::json!(["other"])), "{go}");
    assert_eq!(ring.status()["agree"], true, "{}", ring.status());
}

#[test]
#[ignore = "make test-clients"]
fn a_go_node_with_another_ring_is_noticed_by_what_it_asks() {
    let mut ring = GoRing::start("xxh3");
    assert_eq!(ring.status()["agree"], true);
    // The Go node asks the Larder for keys that the Larder takes for the Go node's.
    for number in 0..40 {
        ring.go.get(format!("{:x}-key", number * 0x9e37_79b1_u64).as_bytes());
    }
    let status = ring.status();
    assert_eq!(status["agree"], false, "{status}");
    let other = &status["other_rings"][0];
    assert_eq!(
        (&other["epoch"], &other["owner"]),
        (&serde_json::Value::Null, &ring.names[1].clone().into()),
        "{status}"
    );
    assert!(other["key"].as_str().unwrap().ends_with("-key"), "{status}");
    ring.larder.signal(rustix::process::Signal::TERM);
    ring.larder.wait();
    let log = ring.larder.stderr();
    assert_eq!(log.matches("takes this node for the owner").count(), 1, "{log}");
    assert!(log.contains("peer-hash"), "{log}");
}
