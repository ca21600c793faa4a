//! What was found becomes the ring; what failed is logged, once until it works again.
use crate::peer::membership::Peers;
use larder_config::{PeerAddress, PeerNode, Zone};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// Where a node was found, and its zone.
pub(super) type ZonedAddress = (SocketAddr, Option<Zone>);

/// Takes what was found.
pub(super) struct FoundNodes {
    pub(super) peers: Arc<Peers>,
    /// The latest attempt failed, which was logged.
    failing: bool,
}

impl FoundNodes {
    pub(super) fn new(peers: Arc<Peers>) -> FoundNodes {
        FoundNodes { peers, failing: false }
    }

    /// These nodes are on the ring from now on; or it was not found out who is, for this reason.
    pub(super) fn take(&mut self, found: Result<Vec<PeerNode>, String>) {
        match found {
            Err(reason) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%reason, "peers cannot be looked up: those that are known stay");
                }
            }
            Ok(found) => {
                if std::mem::replace(&mut self.failing, false) {
                    tracing::info!("peers can be looked up again");
                }
                self.peers.replace(found);
            }
        }
    }

    /// Like `take`, for addresses. A node with an IPv4 and an IPv6 address must not be two on the
    /// ring: where this node is named by an address, those of its family count.
    pub(super) fn take_addresses(&mut self, found: Result<Vec<ZonedAddress>, String>) {
        let found = found.and_then(|found| if found.is_empty() { Err("no addresses".to_owned()) } else { Ok(found) });
        let this = self.peers.this().clone();
        self.take(found.map(|found| unique(&found, &this)));
    }
}

/// Each address once, of the family of `this`.
pub(super) fn unique(found: &[ZonedAddress], this: &PeerAddress) -> Vec<PeerNode> {
    let family = this.host.parse::<IpAddr>().ok().map(|ip| ip.is_ipv4());
    let of_family = found.iter().filter(|(address, _)| family.is_none_or(|is_ipv4| address.is_ipv4() == is_ipv4));
    let unique: BTreeMap<(IpAddr, u16), Option<Zone>> =
        of_family.map(|(address, zone)| ((address.ip(), address.port()), zone.clone())).collect();
    let node =
        |((ip, port), zone): ((IpAddr, u16), _)| PeerNode { address: PeerAddress { host: ip.to_string(), port }, zone };
    unique.into_iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_config::{PeerDiscovery, PeerSettings};

    fn found_nodes(this: &str) -> FoundNodes {
        let this: PeerAddress = this.parse().expect("an address");
        let settings = PeerSettings {
            discovery: PeerDiscovery::Names(vec!["nodes:1".parse::<PeerAddress>().expect("a name").into()]),
            this: Some(this.clone()),
            ..PeerSettings::default()
        };
        FoundNodes::new(Arc::new(Peers::new(settings, this, Vec::new(), Vec::new())))
    }

    fn names(found: &FoundNodes) -> Vec<String> {
        found.peers.now().members().iter().map(|member| member.name.to_string()).collect()
    }
    fn at(texts: &[&str]) -> Vec<ZonedAddress> {
        texts.iter().map(|text| (text.parse().expect("an address"), None)).collect()
    }

    #[test]
    fn the_ring_follows_the_answers_and_stays_without_one() {
        let mut found = found_nodes("10.0.0.1:1");
        assert_eq!(names(&found), ["10.0.0.1:1"], "a node is on its own ring");
        let three = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"];
        found.take_addresses(Ok(at(&["10.0.0.2:1", "10.0.0.1:1", "10.0.0.3:1", "[fd00::2]:1", "10.0.0.2:1"])));
        assert_eq!(names(&found), three, "each once, of the family of this node");
        found.take_addresses(Ok(Vec::new()));
        assert!(found.failing);
        assert_eq!(names(&found), three);
        found.take_addresses(Err("the other name has no answer".into()));
        assert_eq!(names(&found), three);
        found.take_addresses(Ok(at(&["10.0.0.3:1"])));
        assert!(!found.failing);
        assert_eq!(names(&found), ["10.0.0.1:1", "10.0.0.3:1"]);
    }
}
