//! The settings of the nodes that share their caches.
use super::{
    peer_entry::{PeerAddress, PeerEntry, PeerNode, PodSelector, SrvName, Zone, ZonedPeerEntry},
    secret::Secret,
    tls_settings::PeerTls,
};
use larder_units::{parse_duration, show_duration};
use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

/// The settings of the nodes that share their caches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerSettings {
    /// Every node, if their addresses are fixed.
    pub peers: Vec<PeerNode>,
    /// How the nodes are found, if their addresses are not fixed.
    pub discovery: PeerDiscovery,
    /// Time between two look-ups.
    pub refresh: Duration,
    /// The folder with the token of this pod's service account, the API server's authority and the
    /// namespace.
    pub service_account: PathBuf,
    /// Where this node listens for gossip.
    pub gossip: Option<SocketAddr>,
    /// This node, as the others name it; `None`: by its first HTTP listener.
    pub this: Option<PeerAddress>,
    /// The zone of this node.
    pub zone: Option<Zone>,
    /// `None`: the owner is asked, whatever is under way there.
    pub bounded_load: Option<LoadFactor>,
    pub hash: PeerHash,
    pub transport: PeerTransport,
    pub hot_copies: HotCopies,
    pub secret: Option<Secret>,
    /// `None`: the nodes speak plain HTTP.
    pub tls: Option<PeerTls>,
    /// Bytes of entries; 0: none.
    pub handover: usize,
    /// A quarter of group `default`'s `source-timeout`: a node that cannot be reached leaves time to
    /// ask the next one and the source.
    pub connect_timeout: Duration,
}

impl PeerSettings {
    /// Fetches from the source at a time, per thread, for keys whose owner cannot be reached. With
    /// more, the source would get a large part of a lost node's reads at once.
    pub const FALLBACK_LIMIT: usize = 64;

    /// Whether this process shares its cache with others.
    pub fn are_set(&self) -> bool {
        !self.peers.is_empty() || self.discovery != PeerDiscovery::Fixed
    }

    /// Whether other nodes may ask this process: it shares its cache, or knows how nodes show
    /// themselves.
    pub fn have_nodes(&self) -> bool {
        self.are_set() || self.secret.is_some() || self.tls.is_some()
    }

    /// What a node is called on the ring.
    pub fn name_of(&self, address: &PeerAddress) -> String {
        match self.hash {
            PeerHash::Xxh3 | PeerHash::Fnv1 => address.to_string(),
            PeerHash::Fnv1Url | PeerHash::Crc32 if self.tls.is_some() => format!("https://{address}"),
            PeerHash::Fnv1Url | PeerHash::Crc32 => address.url(),
        }
    }
}

impl PeerSettings {
    /// Takes an item of `peers`. All are of one kind, which was checked.
    pub(super) fn add(&mut self, ZonedPeerEntry { entry, zone }: ZonedPeerEntry) {
        match (entry, &mut self.discovery) {
            (PeerEntry::Node(address), _) => self.peers.push(PeerNode { address, zone }),
            (PeerEntry::Name(address), PeerDiscovery::Names(names)) => names.push(PeerNode { address, zone }),
            (PeerEntry::Name(address), discovery) => {
                *discovery = PeerDiscovery::Names(vec![PeerNode { address, zone }]);
            }
            (PeerEntry::Srv(name), PeerDiscovery::Srv(names)) => names.push((name, zone)),
            (PeerEntry::Srv(name), discovery) => *discovery = PeerDiscovery::Srv(vec![(name, zone)]),
            // Each node says itself in which zone it is.
            (PeerEntry::Seed(seed), PeerDiscovery::Gossip(seeds)) => seeds.push(seed),
            (PeerEntry::Seed(seed), discovery) => *discovery = PeerDiscovery::Gossip(vec![seed]),
            // It has its zone in a label.
            (PeerEntry::Pods(pods), discovery) => *discovery = PeerDiscovery::Pods(pods),
        }
    }
}

/// How nodes are found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PeerDiscovery {
    /// They are listed.
    #[default]
    Fixed,
    /// Every address of these names.
    Names(Vec<PeerNode>),
    /// Every target of the SRV records of these names; and the zone of those of each.
    Srv(Vec<(SrvName, Option<Zone>)>),
    /// Whom these nodes know, and who knows them.
    Gossip(Vec<PeerAddress>),
    /// The ready pods that these labels select.
    Pods(PodSelector),
}

/// How many times the mean a node may have of what another has under way at all nodes; in
/// hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadFactor(u32);

impl LoadFactor {
    const LEAST: u32 = 100;
    const MOST: u32 = 10_000;

    /// 1 to 100.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

impl fmt::Display for LoadFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

impl FromStr for LoadFactor {
    type Err = String;
    fn from_str(text: &str) -> Result<LoadFactor, String> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let hundredths = text.parse::<f64>().ok().filter(|_| is_plain).map(|factor| (factor * 100.0).round());
        match hundredths.filter(|n| (f64::from(Self::LEAST)..=f64::from(Self::MOST)).contains(n)) {
            Some(hundredths) => Ok(LoadFactor(hundredths as u32)),
            None => Err(format!("`{text}` is not a factor between 1 and 100: write 1.25")),
        }
    }
}

/// Which keys of other nodes are copied, and for how long: `10s`, `10s:5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotCopies {
    /// Zero: no copies.
    pub ttl: Duration,
    /// Reads of a key at this node within ten seconds.
    pub after: u8,
}
impl HotCopies {
    const LONGEST: Duration = Duration::from_secs(86_400);
}
impl Default for HotCopies {
    fn default() -> HotCopies {
        HotCopies { ttl: Duration::ZERO, after: 2 }
    }
}
impl FromStr for HotCopies {
    type Err = String;
    fn from_str(text: &str) -> Result<HotCopies, String> {
        let (ttl, after) = text.split_once(':').map_or((text, None), |(ttl, after)| (ttl, Some(after)));
        let ttl = if ttl == "0" { Duration::ZERO } else { parse_duration(ttl)? };
        if ttl > HotCopies::LONGEST {
            return Err(format!("{} is too large: the most is 1d", show_duration(ttl)));
        }
        let Some(after) = after else { return Ok(HotCopies { ttl, ..HotCopies::default() }) };
        match after.parse() {
            Ok(after @ 1..=100) => Ok(HotCopies { ttl, after }),
            _ => Err(format!("`{text}`: what follows the colon is not a number of reads from 1 to 100")),
        }
    }
}
impl fmt::Display for HotCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_duration(self.ttl))?;
        match self.after == HotCopies::default().after {
            true => Ok(()),
            false => write!(f, ":{}", self.after),
        }
    }
}

/// How the points of the ring are computed, and from which names of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerHash {
    /// Spreads all keys evenly, however much alike they are.
    #[default]
    Xxh3,
    /// As groupcache-go v3 does.
    Fnv1,
    /// As mailgun's groupcache from v2.2.1 does: of the nodes' URLs.
    Fnv1Url,
    /// As the original groupcache and mailgun's up to v2.2.0 do: of the nodes' URLs.
    Crc32,
}
impl PeerHash {
    /// The names of all, in the order of the variants.
    pub const NAMES: &'static [&'static str] = &["xxh3", "fnv1", "fnv1-url", "crc32"];
    pub(super) fn from_name(name: &str) -> PeerHash {
        match name {
            "fnv1" => PeerHash::Fnv1,
            "fnv1-url" => PeerHash::Fnv1Url,
            "crc32" => PeerHash::Crc32,
            _ => PeerHash::Xxh3,
        }
    }
}

/// What carries requests between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerTransport {
    /// groupcache's messages over HTTP/1.1.
    #[default]
    Http,
    /// Larder's own over gRPC, between Larders.
    Grpc,
}
impl PeerTransport {
    pub(super) const NAMES: &'static [&'static str] = &["http", "grpc"];
}
