//! Nodes by name: the addresses that a name has now are the ring, and it is looked up again and again.
//!
//! The system's resolver answers (`/etc/hosts`, `/etc/resolv.conf`, its search domains), as for every other host name that Larder is given. It
//! knows addresses only: no SRV records. Decision 0037.
use super::membership::Peers;
use crate::{
    config::{PeerAddress, PeerDiscovery, PeerNode, Zone},
    source::jittered,
};
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// How long a look-up may take; the resolver has shorter deadlines of its own.
const LONGEST_LOOKUP: Duration = Duration::from_secs(15);

/// Looks up the names of the settings. The last known nodes stay where a name has no answer.
pub struct Discovery {
    peers: Arc<Peers>,
    /// The latest look-up failed, which was logged.
    failing: bool,
}

impl Discovery {
    /// `None`: the nodes are fixed.
    pub fn new(peers: &Arc<Peers>) -> Option<Discovery> {
        (peers.settings.discovery != PeerDiscovery::Fixed).then(|| Discovery { peers: peers.clone(), failing: false })
    }

    /// Looks up all names, and makes what was found the ring.
    pub async fn look_up(&mut self) {
        let mut found = Vec::new();
        let mut failure = None;
        let PeerDiscovery::Names(names) = &self.peers.settings.discovery else { return };
        for PeerNode { address: name, zone } in names {
            match addresses(name).await {
                Ok(addresses) => found.extend(addresses.into_iter().map(|address| (address, zone.clone()))),
                Err(error) => failure = Some(format!("{name}: {error}")),
            }
        }
        self.found(found, failure);
    }

    /// Looks up again and again.
    pub async fn keep_looking(mut self) {
        loop {
            // Not all nodes at once.
            sleep(jittered(self.peers.settings.refresh)).await;
            self.look_up().await;
        }
    }

    /// One name without an answer would take its nodes off the ring, and their keys with them: then all stays as it is.
    fn found(&mut self, found: Vec<(SocketAddr, Option<Zone>)>, failure: Option<String>) {
        let failure = failure.or_else(|| found.is_empty().then(|| "no addresses".to_owned()));
        match failure {
            Some(reason) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%reason, "peers cannot be looked up: those that are known stay");
                }
            }
            None => {
                if std::mem::replace(&mut self.failing, false) {
                    tracing::info!("peers can be looked up again");
                }
                self.peers.replace(members(&found, self.peers.this()));
            }
        }
    }
}

/// What a name has: each address once.
async fn addresses(name: &PeerAddress) -> io::Result<Vec<SocketAddr>> {
    let lookup = tokio::net::lookup_host((name.host.as_str(), name.port));
    let found = timeout(LONGEST_LOOKUP, lookup).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(found.collect())
}

/// A node with an IPv4 and an IPv6 address must not be two on the ring: where this node is named by an address, those of its family count.
fn members(found: &[(SocketAddr, Option<Zone>)], this: &PeerAddress) -> Vec<PeerNode> {
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
    use crate::config::PeerSettings;

    fn discovery(this: &str) -> Discovery {
        let this: PeerAddress = this.parse().expect("an address");
        let settings = PeerSettings {
            discovery: PeerDiscovery::Names(vec!["nodes:1".parse::<PeerAddress>().expect("a name").into()]),
            this: Some(this.clone()),
            ..PeerSettings::default()
        };
        let peers = Arc::new(Peers::new(settings, this, Vec::new()));
        Discovery::new(&peers).expect("there are names")
    }

    fn names(discovery: &Discovery) -> Vec<String> {
        discovery.peers.now().members().iter().map(|member| member.name.to_string()).collect()
    }
    fn at(texts: &[&str]) -> Vec<(SocketAddr, Option<Zone>)> {
        texts.iter().map(|text| (text.parse().expect("an address"), None)).collect()
    }

    #[test]
    fn the_ring_follows_the_answers_and_stays_without_one() {
        let mut discovery = discovery("10.0.0.1:1");
        assert_eq!(names(&discovery), ["10.0.0.1:1"], "a node is on its own ring");
        let three = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"];
        discovery.found(at(&["10.0.0.2:1", "10.0.0.1:1", "10.0.0.3:1", "[fd00::2]:1", "10.0.0.2:1"]), None);
        assert_eq!(names(&discovery), three, "each once, of the family of this node");
        discovery.found(Vec::new(), None);
        assert!(discovery.failing);
        assert_eq!(names(&discovery), three);
        discovery.found(at(&["10.0.0.2:1"]), Some("the other name has no answer".into()));
        assert_eq!(names(&discovery), three);
        discovery.found(at(&["10.0.0.3:1"]), None);
        assert!(!discovery.failing);
        assert_eq!(names(&discovery), ["10.0.0.1:1", "10.0.0.3:1"]);
    }
}
