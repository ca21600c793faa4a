//! Nodes that come and go: who is on the ring now, by one of several ways to find out.
//!
//! ```text
//! names         dns:       every address of a name, by the system's resolver, again and again
//! srv_records   dns+srv:   every target of a name's SRV records, asked of a name server, again and again
//! gossip        gossip:    whom the other nodes know and can reach (SWIM), from a few that are named
//! pods          pods:      the ready pods that a label selector chooses, as the API server of Kubernetes tells of them
//! ```
//!
//! Invariants:
//! - What cannot be found out changes nothing: the last known nodes stay, and the log says so once.
//! - This node is on its own ring, whatever is found.
//!
//! Decisions 0037, 0052 and 0058.
mod dns_query;
mod found_nodes;
mod gossip;
mod gossip_packets;
mod kubernetes_api;
mod names;
mod pod_objects;
mod pods;
mod ready_pods;
mod srv_records;

use super::membership::Peers;
use found_nodes::FoundNodes;
use gossip::Gossip;
use larder_config::PeerDiscovery;
use names::NameLookup;
use pods::PodWatch;
use srv_records::SrvLookup;
use std::sync::Arc;

/// How this process finds the nodes.
pub struct Discovery(Way);

enum Way {
    Names(NameLookup),
    Srv(SrvLookup),
    Gossip(Box<Gossip>),
    Pods(Box<PodWatch>),
}

impl Discovery {
    /// `None`: the nodes are fixed.
    ///
    /// # Errors
    /// What this way needs is not there; a text for people.
    pub async fn new(peers: &Arc<Peers>) -> Result<Option<Discovery>, String> {
        let found = FoundNodes::new(peers.clone());
        Ok(Some(Discovery(match &peers.settings.discovery {
            PeerDiscovery::Fixed => return Ok(None),
            PeerDiscovery::Names(_) => Way::Names(NameLookup::new(found)),
            PeerDiscovery::Srv(_) => Way::Srv(SrvLookup::new(found)?),
            PeerDiscovery::Gossip(_) => Way::Gossip(Box::new(Gossip::new(found).await?)),
            PeerDiscovery::Pods(pods) => Way::Pods(Box::new(PodWatch::new(found, pods)?)),
        })))
    }

    /// Finds the nodes for the first time.
    pub async fn look_up(&mut self) {
        match &mut self.0 {
            Way::Names(names) => names.look_up().await,
            Way::Srv(records) => records.look_up().await,
            Way::Gossip(gossip) => gossip.look_up().await,
            Way::Pods(pods) => pods.look_up().await,
        }
    }

    /// Goes on finding them.
    pub async fn keep_looking(self) {
        match self.0 {
            Way::Names(names) => names.keep_looking().await,
            Way::Srv(records) => records.keep_looking().await,
            Way::Gossip(gossip) => gossip.keep_looking().await,
            Way::Pods(pods) => pods.keep_looking().await,
        }
    }
}
