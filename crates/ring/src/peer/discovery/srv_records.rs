//! Nodes by the SRV records of a name (RFC 2782): each target with its port. Priority and weight do
//! not matter: all nodes own keys.
//!
//! Where this node is named by a name, its peers are the targets as they are written, so that a
//! node's keys follow from its name; where it is named by an address, the targets are looked up.
use super::{
    dns_query::{SrvTarget, name_server, targets},
    found_nodes::FoundNodes,
    names::addresses,
};
use larder_config::{PeerAddress, PeerDiscovery, PeerNode, Zone};
use larder_source::jittered;
use std::net::{IpAddr, SocketAddr};
use tokio::time::sleep;

/// Looks up the names of the settings.
pub(super) struct SrvLookup {
    found: FoundNodes,
    /// Each with the name server to ask, and the zone of its nodes.
    names: Vec<(String, SocketAddr, Option<Zone>)>,
}

impl SrvLookup {
    pub(super) fn new(found: FoundNodes) -> Result<SrvLookup, String> {
        let PeerDiscovery::Srv(names) = &found.peers.settings.discovery else { return Err("no SRV records".into()) };
        let mut servers = Vec::new();
        for (of, zone) in names {
            let server = of.server.map_or_else(|| name_server("/etc/resolv.conf".as_ref()), Ok)?;
            servers.push((of.name.clone(), server, zone.clone()));
        }
        Ok(SrvLookup { names: servers, found })
    }

    pub(super) async fn look_up(&mut self) {
        let mut all: Vec<(SrvTarget, Option<Zone>)> = Vec::new();
        for (name, server, zone) in &self.names {
            match targets(*server, name).await {
                Ok(targets) => all.extend(targets.into_iter().map(|target| (target, zone.clone()))),
                Err(reason) => return self.found.take(Err(format!("{name}: {reason} (name server {server})"))),
            }
        }
        if self.found.peers.this().host.parse::<IpAddr>().is_err() {
            let nodes = all
                .into_iter()
                .map(|(SrvTarget { host, port }, zone)| PeerNode { address: PeerAddress { host, port }, zone });
            return self.found.take(Ok(nodes.collect()));
        }
        let mut found = Vec::new();
        for (SrvTarget { host, port }, zone) in all {
            let name = PeerAddress { host, port };
            match addresses(&name).await {
                Ok(addresses) => found.extend(addresses.into_iter().map(|address| (address, zone.clone()))),
                Err(error) => return self.found.take(Err(format!("{name}: {error}"))),
            }
        }
        self.found.take_addresses(Ok(found));
    }

    pub(super) async fn keep_looking(mut self) {
        loop {
            sleep(jittered(self.found.peers.settings.refresh)).await;
            self.look_up().await;
        }
    }
}
