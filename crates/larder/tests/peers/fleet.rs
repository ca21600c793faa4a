//! Several Larders as one cache.
use super::{common::Port, larder::Larder};

/// Each test of the list over each transport, which it takes as its argument.
macro_rules! over_each_transport {
    ($($test:ident),+ $(,)?) => {
        mod over_http {
            $(#[test] fn $test() { super::$test("http") })+
        }
        mod over_grpc {
            $(#[test] fn $test() { super::$test("grpc") })+
        }
    };
}
pub(crate) use over_each_transport;

/// Nodes of one ring, each on a port that the others know.
pub struct Fleet {
    pub nodes: Vec<Larder>,
    pub ports: Vec<Port>,
    args: Vec<String>,
    /// 0: none. Node number n is in zone n mod `zones`.
    zones: usize,
    /// The nodes find each other by gossip, on the UDP ports of these numbers, and each is told of
    /// so many.
    seeds: Option<(usize, Vec<Port>)>,
}

impl Fleet {
    /// Starts so many nodes with these arguments.
    pub fn start(count: usize, args: &[&str]) -> Fleet {
        Fleet::in_zones(0, count, args)
    }

    /// The same in so many zones, in turn.
    pub fn in_zones(zones: usize, count: usize, args: &[&str]) -> Fleet {
        Fleet::with(count, zones, None, args)
    }

    /// The same of nodes that gossip. Each is told of the first `seeds`.
    pub fn gossiping(count: usize, seeds: usize, args: &[&str]) -> Fleet {
        Fleet::with(count, 0, Some((seeds, (0..count).map(|_| Port::free()).collect())), args)
    }

    fn with(count: usize, zones: usize, seeds: Option<(usize, Vec<Port>)>, args: &[&str]) -> Fleet {
        let ports: Vec<Port> = (0..count).map(|_| Port::free()).collect();
        let args = args.iter().map(|arg| arg.to_string()).collect();
        let mut fleet = Fleet { nodes: Vec::new(), ports, args, zones, seeds };
        fleet.nodes = (0..count).map(|number| fleet.start_node(number)).collect();
        fleet
    }

    /// The same over a transport.
    pub fn over(transport: &str, count: usize, args: &[&str]) -> Fleet {
        Fleet::start(count, &[args, &["--peer-transport", transport]].concat())
    }

    /// Starts a node of the fleet, in place of one that has ended or for the first time.
    pub fn start_node(&self, number: usize) -> Larder {
        let entry = |(number, port): (usize, &Port)| match number.checked_rem(self.zones) {
            Some(zone) => format!("127.0.0.1:{};zone=z{zone}", port.number),
            None => format!("127.0.0.1:{}", port.number),
        };
        let listed = || self.ports.iter().enumerate().map(entry).collect::<Vec<_>>().join(",");
        let seed = |port: &Port| format!("gossip:127.0.0.1:{}", port.number);
        let (peers, gossip) = match &self.seeds {
            None => (listed(), String::new()),
            Some((seeds, ports)) => (
                ports[..*seeds].iter().map(seed).collect::<Vec<_>>().join(","),
                format!("127.0.0.1:{}", ports[number].number),
            ),
        };
        let mut args: Vec<&str> = vec!["--peers", &peers];
        if !gossip.is_empty() {
            args.extend(["--peer-gossip", &gossip]);
        }
        args.extend(self.args.iter().map(String::as_str));
        Larder::with_http_on(self.ports[number].number, &args)
    }

    /// Of how many nodes each is told, and the UDP ports of all, if they gossip.
    pub fn gossip(&self) -> Option<&(usize, Vec<Port>)> {
        self.seeds.as_ref()
    }

    /// The number of the node that owns a key.
    pub fn owner(&self, key: &str) -> usize {
        let status: serde_json::Value =
            serde_json::from_str(&self.nodes[0].get(&format!("/v1/peers?key={key}"))).unwrap();
        let owner = status["owner"].as_str().unwrap();
        self.ports.iter().position(|port| owner == format!("127.0.0.1:{}", port.number)).unwrap()
    }

    /// Keys that a node owns.
    pub fn keys_of(&self, node: usize) -> impl Iterator<Item = String> {
        (0..).map(|number| format!("{number:x}-key")).filter(move |key| self.owner(key) == node)
    }
    /// The first of them.
    pub fn key_of(&self, node: usize) -> String {
        self.keys_of(node).next().unwrap()
    }

    /// Asks the node at `number` and its peers what they have asked of each other.
    pub fn peers(&self, number: usize) -> serde_json::Value {
        serde_json::from_str(&self.nodes[number].get("/v1/peers")).unwrap()
    }
}

/// `GET /v1/kv/{key}`: the value; `None` if there is none.
pub fn read(node: &Larder, key: &str) -> Option<String> {
    let (status, _, body) = node.http(&format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    match status {
        200 => Some(String::from_utf8(body).expect("text")),
        404 => None,
        _ => panic!("{key}: {status} {}", String::from_utf8_lossy(&body)),
    }
}

/// A request without a body; the status.
pub fn send(node: &Larder, method: &str, path: &str, body: &str) -> u16 {
    let len = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}");
    node.http(&request).0
}
