//! What one core has to ask the other nodes with, whatever the group.
use super::{member::Member, membership::Peers, transport::Transport, untold::Untold};
use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

/// What one core asks of the other nodes, for all groups.
pub struct PeerClient {
    pub(super) peers: Arc<Peers>,
    transport: Rc<dyn Transport>,
    pub(super) untold: Rc<Untold>,
    timeout: Duration,
    /// Fetches under way here for keys whose owner cannot be reached.
    pub(super) fallbacks: Rc<Cell<usize>>,
}

impl PeerClient {
    pub fn new(peers: Arc<Peers>, transport: Rc<dyn Transport>, timeout: Duration) -> PeerClient {
        let untold = Untold::new(transport.clone(), timeout);
        PeerClient { peers, transport, untold, timeout, fallbacks: Rc::default() }
    }
    /// How long a node has time to answer: a little longer than its source has, so that the owner
    /// itself says that its source is too slow. One that is out is only tried.
    pub(super) fn patience(&self, member: &Member) -> Duration {
        let connect = self.peers.settings.connect_timeout;
        if member.is_out() { connect } else { self.timeout + connect }
    }
    /// The nodes.
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }
    pub(super) fn transport(&self) -> &Rc<dyn Transport> {
        &self.transport
    }
}
