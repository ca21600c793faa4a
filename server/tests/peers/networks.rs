//! Nodes on hosts of their own, joined by a network that loses packets and is cut: network namespaces and the kernel's packet filter. It needs root
//! of a network namespace, which `make test-networks` gives it.
use crate::{
    common::{PATIENCE, RedisServer, wait_until},
    larder::command,
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command},
};

const PORT: u16 = 8080;

/// A host with a Larder on it.
struct Host {
    number: usize,
    larder: Child,
}

fn run(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(output.status.success(), "{line}: {}\nType: make test-networks", String::from_utf8_lossy(&output.stderr));
}

/// Hosts that reach each other and the test over a bridge.
struct Network {
    /// Of the hosts and what joins them; no other network has it.
    name: String,
    /// The hosts are `subnet.1` and so on; the test is `subnet.254`.
    subnet: String,
    hosts: Vec<Host>,
}

impl Network {
    /// `number`: 1 to 254, which no other network has.
    fn start(network: u8, count: usize, args: &[&str]) -> Network {
        let (name, subnet) = (format!("net{network}-"), format!("10.77.{network}"));
        run(&format!("ip link add {name}bridge type bridge"));
        run(&format!("ip addr add {subnet}.254/24 dev {name}bridge"));
        run(&format!("ip link set {name}bridge up"));
        let mut network = Network { name: name.clone(), subnet: subnet.clone(), hosts: Vec::new() };
        let peers: Vec<String> = (1..=count).map(|number| format!("{subnet}.{number}:{PORT}")).collect();
        for number in 1..=count {
            let (host, outside) = (format!("{name}{number}"), format!("{name}{number}out"));
            run(&format!("ip netns add {host}"));
            run(&format!("ip link add {outside} type veth peer name eth0 netns {host}"));
            run(&format!("ip link set {outside} master {name}bridge up"));
            run(&format!("ip -n {host} addr add {subnet}.{number}/24 dev eth0"));
            run(&format!("ip -n {host} link set eth0 up"));
            run(&format!("ip -n {host} link set lo up"));
            let larder = command();
            let mut inside = Command::new("ip");
            inside.args(["netns", "exec", &host]).arg(larder.get_program()).args(larder.get_args());
            inside.envs(larder.get_envs().filter_map(|(name, value)| Some((name, value?))));
            let address = &peers[number - 1];
            inside.args(["--http", address, "--redis", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
            inside.args(["--peers", &peers.join(","), "--peer-self", address, "--peer-hash", "crc32"]).args(args);
            inside.stdout(std::process::Stdio::piped());
            let mut larder = inside.spawn().unwrap();
            let mut ready = String::new();
            BufReader::new(larder.stdout.take().unwrap()).read_line(&mut ready).unwrap();
            assert!(ready.contains("\"ready\":true"), "{ready}");
            network.hosts.push(Host { number, larder });
        }
        network
    }

    /// A request to a host: the status and the body.
    fn request(&self, host: usize, method: &str, path: &str, body: &str) -> (u16, String) {
        let subnet = &self.subnet;
        let address: SocketAddr = format!("{subnet}.{host}:{PORT}").parse().unwrap();
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let len = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn read(&self, host: usize, key: &str) -> String {
        let (status, body) = self.request(host, "GET", &format!("/v1/kv/{key}"), "");
        assert_eq!(status, 200, "{key} at host {host}: {body}");
        body
    }

    /// The number of the host that owns a key.
    fn owner(&self, key: &str) -> usize {
        let said: serde_json::Value =
            serde_json::from_str(&self.request(1, "GET", &format!("/v1/peers?key={key}"), "").1).unwrap();
        let address = said["owner"].as_str().unwrap();
        let subnet = &self.subnet;
        (1..=self.hosts.len()).find(|number| address == format!("{subnet}.{number}:{PORT}")).unwrap()
    }

    /// A rule of the packet filter of a host, for what comes from other hosts and not from the test.
    fn filter(&self, host: usize, add_or_delete: &str, rule: &str) {
        let Network { name, subnet, .. } = self;
        run(&format!("ip netns exec {name}{host} iptables -{add_or_delete} INPUT -s {subnet}.0/25 {rule} -j DROP"));
    }
    /// No packet of another host reaches this one, and none of its own another, until [`heal`](Network::heal).
    fn cut(&self, host: usize) {
        self.filter(host, "I", "");
        (1..=self.hosts.len()).filter(|other| *other != host).for_each(|other| self.filter_from(other, "I", host));
    }
    fn heal(&self, host: usize) {
        self.filter(host, "D", "");
        (1..=self.hosts.len()).filter(|other| *other != host).for_each(|other| self.filter_from(other, "D", host));
    }
    fn filter_from(&self, host: usize, add_or_delete: &str, from: usize) {
        let Network { name, subnet, .. } = self;
        run(&format!("ip netns exec {name}{host} iptables -{add_or_delete} INPUT -s {subnet}.{from} -j DROP"));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let Network { name, hosts, .. } = self;
        for Host { number, larder } in hosts {
            let _ = larder.kill();
            let _ = larder.wait();
            let _ = Command::new("ip").args(["netns", "del", &format!("{name}{number}")]).status();
        }
        let _ = Command::new("ip").args(["link", "del", &format!("{name}bridge")]).status();
    }
}

#[test]
#[ignore = "make test-networks"]
fn packets_that_are_lost_cost_time_and_no_answer() {
    let network = Network::start(1, 3, &["--source", "demo:", "--hot-copy-ttl", "0"]);
    let loss = "-m statistic --mode random --probability 0.1";
    (1..=3).for_each(|host| network.filter(host, "I", loss));
    let keys: Vec<String> = (0..40).map(|number| format!("key-{number:x}-abc")).collect();
    for key in &keys {
        for host in 1..=3 {
            assert!(network.read(host, key).contains(&format!("\"guid\":\"{key}\"")), "{key}");
        }
    }
    (1..=3).for_each(|host| network.filter(host, "D", loss));
    // A node that lost too much was taken for gone; it is asked again, and then all give the owner's copy.
    for key in &keys {
        let owned = network.read(network.owner(key), key);
        wait_until("all to give the owner's copy", || (1..=3).all(|host| network.read(host, key) == owned));
    }
}

#[test]
#[ignore = "make test-networks"]
fn a_host_that_was_cut_off_hears_of_what_it_has_missed() {
    let redis = RedisServer::with(&["--bind", "0.0.0.0", "--protected-mode", "no"]);
    let source = format!("redis://10.77.2.254:{}", redis.port());
    // Without being told, the host would have its copy until the test gives up.
    let args = [
        "--source",
        &source,
        "--coherence",
        "ttl",
        "--ttl",
        "1h",
        "--hot-copy-ttl",
        "1h",
        "--hot-copy-after",
        "1",
        "--source-timeout",
        "2s",
    ];
    let network = Network::start(2, 3, &args);
    let keys: Vec<String> = (0..30).map(|number| format!("key-{number:x}-abc")).collect();
    for key in &keys {
        redis.command(&["SET", key, "old"]);
        (1..=3).for_each(|host| assert_eq!(network.read(host, key), "old"));
    }
    network.cut(3);
    // Each of the two, for keys of both and of the one that is cut off.
    let some: Vec<&String> = (1..=3).filter_map(|owner| keys.iter().find(|key| network.owner(key) == owner)).collect();
    assert_eq!(some.len(), 3, "each owns one of the keys");
    for key in &some {
        let (status, body) = network.request(1, "PUT", &format!("/v1/kv/{key}"), "new");
        assert!(status < 300, "{key}: {status} {body}");
        assert_eq!((network.read(1, key), network.read(2, key)), ("new".into(), "new".into()), "{key}");
        assert_eq!(network.read(3, key), "old", "{key}: nobody can tell it");
    }
    network.heal(3);
    for key in &some {
        wait_until("the host to hear of it", || network.read(3, key) == "new");
    }
}
