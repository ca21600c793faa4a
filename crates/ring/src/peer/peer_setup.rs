//! How a core opens its way to the other nodes, and puts it in front of a group's source.
use super::{
    grpc_transport::GrpcTransport,
    http_transport::HttpTransport,
    membership::Peers,
    peer_client::{NodeCalls, PeerClient},
    peer_group::PeerGroup,
    peer_source::PeerSource,
    transport::Transport,
};
use larder_base::{buffers::Buffers, lifecycle::faults::Faults, tls::ServerTls};
use larder_config::{PeerTransport, Settings};
use larder_engine::Cache;
use larder_source::{FillPolicy, Source};
use std::{rc::Rc, sync::Arc};

/// One core's way to the other nodes. `faults`: those that may be ordered.
pub fn open_client(
    peers: &Arc<Peers>,
    settings: &Settings,
    buffers: &Arc<Buffers>,
    tls: Option<&Arc<ServerTls>>,
    faults: Option<&Arc<Faults>>,
) -> Rc<PeerClient> {
    let (of_peers, max_value) = (&settings.peers, settings.max_value);
    let (buffers, tls) = (buffers.clone(), tls.cloned());
    let transport: Box<dyn Transport> = match of_peers.transport {
        PeerTransport::Http => Box::new(HttpTransport::new(of_peers, max_value, buffers, tls)),
        PeerTransport::Grpc => Box::new(GrpcTransport::new(of_peers, max_value, buffers, tls)),
    };
    let nodes = NodeCalls::new(transport, faults.cloned());
    Rc::new(PeerClient::new(peers.clone(), nodes, settings.groups[0].freshness.source_timeout))
}

/// A group whose keys have owners, and the source that asks them.
pub fn share(
    client: &Rc<PeerClient>,
    name: &Arc<str>,
    cache: &Arc<Cache>,
    policy: &Arc<FillPolicy>,
    source: Rc<dyn Source>,
) -> (Rc<PeerGroup>, Rc<dyn Source>) {
    let group = PeerGroup::new(client.clone(), name.clone(), cache.clone(), policy.clone(), source);
    let group = Rc::new(group);
    let source = Rc::new(PeerSource::new(group.clone()));
    (group, source)
}
