//! One item of `peers`: the address of a node, as an address or as a URL; or a way to find nodes.
//! And the zone of those nodes.
use super::url_parts::host_port;
use std::{fmt, net::SocketAddr, str::FromStr, sync::Arc};

/// What stands between an item and the zone of its nodes.
const ZONE: &str = ";zone=";
/// Bytes of a zone's name.
const LONGEST_ZONE: usize = 63;
/// The port of a node that is named without one.
const DEFAULT_PORT: u16 = 8080;
/// Bytes of a label selector.
const LONGEST_SELECTOR: usize = 1024;
/// What stands before a label selector, which has commas of its own.
pub(super) const PODS: &str = "pods:";
/// The UDP port of gossip, unless another is named.
pub const GOSSIP_PORT: u16 = 7946;

/// One item of `peers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerEntry {
    /// `host:port`: a node.
    Node(PeerAddress),
    /// `dns:host:port`: every address of the name is a node.
    Name(PeerAddress),
    /// `dns+srv:name`: every target of the name's SRV records is a node.
    Srv(SrvName),
    /// `gossip:host:port`: a node that knows others, by its UDP address.
    Seed(PeerAddress),
    /// `pods:selector:port`: every ready pod that the selector chooses is a node.
    Pods(PodSelector),
}

impl PeerEntry {
    /// What stands before a way to find nodes; empty: it is a node.
    pub(super) fn scheme(&self) -> &'static str {
        match self {
            PeerEntry::Node(_) => "",
            PeerEntry::Name(_) => "dns:",
            PeerEntry::Srv(_) => "dns+srv:",
            PeerEntry::Seed(_) => "gossip:",
            PeerEntry::Pods(_) => PODS,
        }
    }
}

impl fmt::Display for PeerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme())?;
        match self {
            PeerEntry::Node(address) | PeerEntry::Name(address) | PeerEntry::Seed(address) => address.fmt(f),
            PeerEntry::Srv(name) => name.fmt(f),
            PeerEntry::Pods(pods) => write!(f, "{}:{}", pods.labels, pods.port),
        }
    }
}

impl FromStr for PeerEntry {
    type Err = String;
    fn from_str(text: &str) -> Result<PeerEntry, String> {
        if let Some(name) = text.strip_prefix("dns+srv:") {
            let (name, server) = name.split_once('@').map_or((name, None), |(name, server)| (name, Some(server)));
            let wrong = |_| format!("`{text}`: the name server is not an address: write @127.0.0.1:8600");
            let server = server.map(str::parse).transpose().map_err(wrong)?;
            let is_name = |label: &str| !label.is_empty() && label.len() < 64 && label.bytes().all(is_label_byte);
            let labels = name.strip_suffix('.').unwrap_or(name);
            return match labels.len() < 254 && labels.split('.').count() > 1 && labels.split('.').all(is_name) {
                true => Ok(PeerEntry::Srv(SrvName { name: labels.to_owned(), server })),
                false => Err(format!("`{text}` does not name SRV records: write dns+srv:_http._tcp.larder.example")),
            };
        }
        if let Some(name) = text.strip_prefix("dns:") {
            let wrong = |_| format!("`{text}` is not a name of peers: write dns:host:port");
            return name.parse().map(PeerEntry::Name).map_err(wrong);
        }
        if let Some(seed) = text.strip_prefix("gossip:") {
            let (host, port) = host_port(seed, GOSSIP_PORT, "gossip")
                .map_err(|_| format!("`{text}` is not a node to gossip with: write gossip:host:{GOSSIP_PORT}"))?;
            return Ok(PeerEntry::Seed(PeerAddress { host, port }));
        }
        if let Some(pods) = text.strip_prefix(PODS) {
            return PodSelector::read(pods)
                .map(PeerEntry::Pods)
                .ok_or_else(|| format!("`{text}` does not select pods: write pods:app=larder:8080"));
        }
        text.parse().map(PeerEntry::Node)
    }
}

/// A name with SRV records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SrvName {
    /// Complete, without the dot at its end.
    pub name: String,
    /// The name server to ask; `None`: the system's first.
    pub server: Option<SocketAddr>,
}

impl fmt::Display for SrvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.server.iter().try_for_each(|server| write!(f, "@{server}"))
    }
}

/// Which pods are nodes, and where they are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSelector {
    /// A label selector as `kubectl --selector` takes it: `app=larder,tier in (a, b)`. The API
    /// server checks it.
    pub labels: String,
    /// The HTTP port of all of them. Not 0.
    pub port: u16,
}

impl PodSelector {
    fn read(text: &str) -> Option<PodSelector> {
        // A selector has no colon.
        let (labels, port) = match text.rsplit_once(':') {
            Some((labels, port)) => (labels, port.parse().ok().filter(|port| *port > 0)?),
            None => (text, DEFAULT_PORT),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=!,() ".contains(&byte);
        let is_selector = (1..=LONGEST_SELECTOR).contains(&labels.len()) && labels.bytes().all(is_plain);
        is_selector.then(|| PodSelector { labels: labels.to_owned(), port })
    }
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// One item of `peers`, and the zone of the nodes that it stands for: `host:port;zone=a`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonedPeerEntry {
    /// The item.
    pub entry: PeerEntry,
    /// `None`: it says nothing of zones.
    pub zone: Option<Zone>,
}

impl fmt::Display for ZonedPeerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)?;
        self.zone.iter().try_for_each(|zone| write!(f, "{ZONE}{zone}"))
    }
}

impl FromStr for ZonedPeerEntry {
    type Err = String;
    fn from_str(text: &str) -> Result<ZonedPeerEntry, String> {
        match text.split_once(ZONE) {
            None => Ok(ZonedPeerEntry { entry: text.parse()?, zone: None }),
            Some((entry, zone)) => Ok(ZonedPeerEntry { entry: entry.parse()?, zone: Some(zone.parse()?) }),
        }
    }
}

/// The name of a zone: nodes in it reach each other at less cost than other nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Zone(Arc<str>);

impl Zone {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Zone {
    type Err = String;
    fn from_str(text: &str) -> Result<Zone, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        match (1..=LONGEST_ZONE).contains(&text.len()) && text.bytes().all(is_plain) {
            true => Ok(Zone(text.into())),
            false => {
                Err(format!("`{text}` is not a zone: write up to {LONGEST_ZONE} letters, digits, `-`, `.` and `_`"))
            }
        }
    }
}

/// A node, or nodes of one name, and their zone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerNode {
    /// Where it is reached.
    pub address: PeerAddress,
    /// `None`: it is in no zone, or its zone is unknown.
    pub zone: Option<Zone>,
}

impl From<PeerAddress> for PeerNode {
    fn from(address: PeerAddress) -> PeerNode {
        PeerNode { address, zone: None }
    }
}

/// Where a node is reached over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerAddress {
    /// Without the brackets of an IPv6 address.
    pub host: String,
    /// Not 0.
    pub port: u16,
}

impl PeerAddress {
    /// The base URL of the node.
    pub fn url(&self) -> String {
        format!("http://{self}")
    }
}

/// `host:port`, with brackets around an IPv6 address.
impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for PeerAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<PeerAddress, String> {
        let authority = text.strip_prefix("http://").unwrap_or(text);
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let what = || format!("`{text}` is not a peer: write host:port or http://host:port");
        // No percent escapes: a name of a host has none, and what they stand for would get into requests.
        if authority.contains(|c: char| "/@?#%".contains(c) || c.is_whitespace() || c.is_control()) {
            return Err(what());
        }
        let (host, port) = host_port(authority, DEFAULT_PORT, "http").map_err(|_| what())?;
        Ok(PeerAddress { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_find_nodes() {
        for (text, shown) in [
            ("a:81", "a:81"),
            ("dns:a", "dns:a:8080"),
            ("a:81;zone=eu-1", "a:81;zone=eu-1"),
            ("http://[::1]:1/;zone=a", "[::1]:1;zone=a"),
            ("dns:a;zone=A_1.b", "dns:a:8080;zone=A_1.b"),
            ("dns+srv:_http._tcp.a.b.;zone=z", "dns+srv:_http._tcp.a.b;zone=z"),
            ("dns+srv:a.consul@127.0.0.1:8600", "dns+srv:a.consul@127.0.0.1:8600"),
            ("gossip:a", "gossip:a:7946"),
            ("gossip:[::1]:1", "gossip:[::1]:1"),
            ("pods:a=b", "pods:a=b:8080"),
            ("pods:a.b/c=d,e in (f, g),!h:81", "pods:a.b/c=d,e in (f, g),!h:81"),
        ] {
            let entry: ZonedPeerEntry = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(entry.to_string(), shown);
            assert_eq!(shown.parse(), Ok(entry));
        }
        let long = format!("a:1;zone={}", "z".repeat(64));
        for text in [
            "a%20b:1",
            "a\r\nb:1",
            "dns:",
            "dns+srv:a",
            "dns+srv:a..b",
            "dns+srv:a.b@",
            "dns+srv:a.b@c:53",
            "dns+srv:a.b@1.2.3.4",
            "pods:",
            "pods::80",
            "pods:a=b:0",
            "pods:a=b:c",
            "pods:a=b&c:80",
            "gossip:",
            "gossip:a:0",
            "a:1;zone=",
            "a:1;zone=a b",
            "a:1;zone=a;zone=b",
            "a:1;rack=1",
            &long,
        ] {
            assert!(text.parse::<ZonedPeerEntry>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_or_a_base_url() {
        for (text, shown) in [
            ("10.0.0.1:8080", "10.0.0.1:8080"),
            ("a", "a:8080"),
            ("http://a:81/", "a:81"),
            ("http://[::1]:9", "[::1]:9"),
            ("[::1]", "[::1]:8080"),
        ] {
            let address: PeerAddress = text.parse().expect("a peer");
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.url().parse(), Ok(address));
        }
        for text in ["", ":80", "a:0", "a:b", "a/b", "https://a", "a b", "u@a"] {
            let error = text.parse::<PeerAddress>().expect_err(text);
            assert!(error.contains("is not a peer: write host:port"), "{error}");
        }
    }
}
