//! Larders on hosts of their own, joined by a network that loses packets and is cut: network
//! namespaces and the kernel's packet filter. It needs root of a network namespace, which `make
//! test-networks` gives it.
use crate::{common::PATIENCE, larder::command};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

/// Where each host serves HTTP and the Redis protocol.
pub const HTTP: u16 = 8080;
pub const REDIS: u16 = 6380;

fn run(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(output.status.success(), "{line}: {}\nType: make test-networks", String::from_utf8_lossy(&output.stderr));
}

/// Hosts that reach each other and the test over a bridge.
pub struct Network {
    /// Of the hosts and what joins them; no other network has it.
    name: String,
    /// The hosts are `subnet.1` and so on; the test is `subnet.254`.
    pub subnet: String,
    hosts: usize,
    /// Of the first hosts.
    larders: Vec<Child>,
}

impl Network {
    /// `number`: 1 to 254, which no other network has. Each host's Larder gets its arguments, and
    /// its addresses.
    pub fn start(network: u8, hosts: &[Vec<String>]) -> Network {
        let mut network = Network::without_larders(network, hosts.len());
        for (at, args) in hosts.iter().enumerate() {
            let larder = network.start_larder(at + 1, args);
            network.larders.push(larder);
        }
        network
    }

    /// Hosts on which nothing runs yet.
    pub fn without_larders(network: u8, hosts: usize) -> Network {
        let (name, subnet) = (format!("net{network}-"), Network::subnet(network));
        run(&format!("ip link add {name}bridge type bridge"));
        run(&format!("ip addr add {subnet}.254/24 dev {name}bridge"));
        run(&format!("ip link set {name}bridge up"));
        let network = Network { name, subnet, hosts, larders: Vec::new() };
        network.hosts().for_each(|host| network.add_host(host));
        network
    }

    /// Runs this program on a host. The process becomes that program.
    pub fn command_on(&self, host: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}{host}", self.name)]).arg(program);
        command
    }

    /// The first three numbers of its addresses.
    pub fn subnet(network: u8) -> String {
        format!("10.77.{network}")
    }

    fn add_host(&self, number: usize) {
        let Network { name, subnet, .. } = self;
        let (host, outside) = (format!("{name}{number}"), format!("{name}{number}out"));
        run(&format!("ip netns add {host}"));
        run(&format!("ip link add {outside} type veth peer name eth0 netns {host}"));
        run(&format!("ip link set {outside} master {name}bridge up"));
        run(&format!("ip -n {host} addr add {subnet}.{number}/24 dev eth0"));
        run(&format!("ip -n {host} link set eth0 up"));
        run(&format!("ip -n {host} link set lo up"));
    }

    fn start_larder(&self, number: usize, args: &[String]) -> Child {
        let (subnet, larder) = (&self.subnet, command());
        let mut inside = self.command_on(number, larder.get_program());
        inside.args(larder.get_args());
        inside.envs(larder.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside.args(["--http", &format!("{subnet}.{number}:{HTTP}"), "--redis", &format!("{subnet}.{number}:{REDIS}")]);
        inside.args(["--admin", "127.0.0.1:0", "--insecure"]).args(args).stdout(Stdio::piped());
        let mut larder = inside.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(larder.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("\"ready\":true"), "{ready}");
        larder
    }

    /// Kills the Larder of a host.
    pub fn kill(&mut self, host: usize) {
        let larder = &mut self.larders[host - 1];
        kill_process(Pid::from_raw(i32::try_from(larder.id()).unwrap()).unwrap(), Signal::KILL).unwrap();
        larder.wait().unwrap();
    }
    /// Starts another one there.
    pub fn start_again(&mut self, host: usize, args: &[String]) {
        self.larders[host - 1] = self.start_larder(host, args);
    }

    /// Where a host serves a protocol.
    pub fn address(&self, host: usize, port: u16) -> SocketAddr {
        format!("{}.{host}:{port}", self.subnet).parse().unwrap()
    }

    /// A request to a host: the status and the body.
    pub fn request(&self, host: usize, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect_timeout(&self.address(host, HTTP), PATIENCE).unwrap();
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

    /// The value of a key at a host.
    pub fn read(&self, host: usize, key: &str) -> String {
        let (status, body) = self.request(host, "GET", &format!("/v1/kv/{key}"), "");
        assert_eq!(status, 200, "{key} at host {host}: {body}");
        body
    }

    /// Hosts, by their numbers.
    pub fn hosts(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.hosts
    }

    /// A rule of the packet filter of a host, for what comes from other hosts and not from the
    /// test.
    pub fn filter(&self, host: usize, add_or_delete: &str, rule: &str) {
        let Network { name, subnet, .. } = self;
        run(&format!("ip netns exec {name}{host} iptables -{add_or_delete} INPUT -s {subnet}.0/25 {rule} -j DROP"));
    }
    /// No packet of another host reaches this one, and none of its own another, until
    /// [`heal`](Network::heal).
    pub fn cut(&self, host: usize) {
        self.filter(host, "I", "");
        self.hosts().filter(|other| *other != host).for_each(|other| self.filter_from(other, "I", host));
    }
    pub fn heal(&self, host: usize) {
        self.filter(host, "D", "");
        self.hosts().filter(|other| *other != host).for_each(|other| self.filter_from(other, "D", host));
    }
    /// A rule for what comes from one other host.
    pub fn filter_from(&self, host: usize, add_or_delete: &str, from: usize) {
        let Network { name, subnet, .. } = self;
        run(&format!("ip netns exec {name}{host} iptables -{add_or_delete} INPUT -s {subnet}.{from} -j DROP"));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let Network { name, hosts, larders, .. } = self;
        for larder in larders {
            let _ = larder.kill();
            let _ = larder.wait();
        }
        for number in 1..=*hosts {
            let _ = Command::new("ip").args(["netns", "del", &format!("{name}{number}")]).status();
        }
        let _ = Command::new("ip").args(["link", "del", &format!("{name}bridge")]).status();
    }
}
