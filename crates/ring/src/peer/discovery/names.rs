//! Nodes by name: the addresses that a name has now are the ring, and it is looked up again and
//! again.
//!
//! The system's resolver answers (`/etc/hosts`, `/etc/resolv.conf`, its search domains), as for
//! every other host name that Larder is given. Decision 0037.
use super::found_nodes::FoundNodes;
use larder_config::{PeerAddress, PeerDiscovery, PeerNode};
use larder_source::jittered;
use std::{io, net::SocketAddr, time::Duration};
use tokio::time::{sleep, timeout};

/// How long a look-up may take; the resolver has shorter deadlines of its own.
const LONGEST_LOOKUP: Duration = Duration::from_secs(15);

/// Looks up the names of the settings.
pub(super) struct NameLookup {
    found: FoundNodes,
}

impl NameLookup {
    pub(super) fn new(found: FoundNodes) -> NameLookup {
        NameLookup { found }
    }

    /// Looks up all names. One without an answer would take its nodes off the ring, and their keys
    /// with them: then all stays as it is.
    pub(super) async fn look_up(&mut self) {
        let PeerDiscovery::Names(names) = self.found.peers.settings.discovery.clone() else { return };
        let mut all = Ok(Vec::new());
        for PeerNode { address: name, zone } in &names {
            match (addresses(name).await, &mut all) {
                (Ok(addresses), Ok(all)) => all.extend(addresses.into_iter().map(|address| (address, zone.clone()))),
                (Err(error), _) => all = Err(format!("{name}: {error}")),
                (Ok(_), Err(_)) => {}
            }
        }
        self.found.take_addresses(all);
    }

    pub(super) async fn keep_looking(mut self) {
        loop {
            // Not all nodes at once.
            sleep(jittered(self.found.peers.settings.refresh)).await;
            self.look_up().await;
        }
    }
}

/// What a name has: each address once.
pub(super) async fn addresses(name: &PeerAddress) -> io::Result<Vec<SocketAddr>> {
    let lookup = tokio::net::lookup_host((name.host.as_str(), name.port));
    let found = timeout(LONGEST_LOOKUP, lookup).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(found.collect())
}
