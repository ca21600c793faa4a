//! One worker's client for the other nodes, for all groups.
use super::{
    member::Member,
    membership::Peers,
    messages::KeyAnswer,
    peer_answers::{answer, status_of},
    transport::{NodeReply, NodeRequest, PeerAnswer, PeerError, To, Transport},
    untold::Untold,
};
use bytes::Bytes;
use larder_base::lifecycle::faults::{FaultKind, FaultPlace, Faults};
use larder_store::clock;
use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};

const FAILED: &str = "injected fault (POST /v1/faults)";
const CUT: &str = "connection cut by an injected fault (POST /v1/faults)";

/// One core's way to the other nodes, on which faults may be ordered: requests then wait, fail, or
/// do not arrive.
pub struct NodeCalls {
    transport: Box<dyn Transport>,
    faults: Option<Arc<Faults>>,
}

impl NodeCalls {
    pub fn new(transport: Box<dyn Transport>, faults: Option<Arc<Faults>>) -> Rc<NodeCalls> {
        Rc::new(NodeCalls { transport, faults })
    }

    /// Asks a node.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub(super) async fn call(&self, to: To<'_>, request: NodeRequest) -> Result<NodeReply, PeerError> {
        match self.faults.as_ref().and_then(|faults| faults.strike(FaultPlace::Peers, "", clock::now())) {
            None => {}
            Some(FaultKind::Delay(delay)) => {
                let until = Instant::now() + delay;
                sleep_until(until.min(to.deadline)).await;
                if until >= to.deadline {
                    return Err(PeerError::NoAnswer(FAILED.into()));
                }
            }
            Some(FaultKind::Cut) => return Err(PeerError::NotReached(CUT.into())),
            Some(FaultKind::Error | FaultKind::Full | FaultKind::Jump(_)) => {
                return Err(PeerError::NoAnswer(FAILED.into()));
            }
        }
        self.transport.call(to, request).await
    }
}

/// One worker's client for the other nodes, for all groups.
pub struct PeerClient {
    pub(super) peers: Arc<Peers>,
    pub(super) nodes: Rc<NodeCalls>,
    pub(super) untold: Rc<Untold>,
    timeout: Duration,
    /// Fetches under way here for keys whose owner cannot be reached.
    pub(super) fallbacks: Rc<Cell<usize>>,
}

impl PeerClient {
    pub fn new(peers: Arc<Peers>, nodes: Rc<NodeCalls>, timeout: Duration) -> PeerClient {
        let untold = Untold::new(peers.clone(), nodes.clone(), timeout);
        PeerClient { peers, nodes, untold, timeout, fallbacks: Rc::default() }
    }
    /// How long a node has time to answer: a little longer than its source has, so that the owner
    /// itself says that its source is too slow. One that is out is only tried.
    pub(super) fn patience(&self, member: &Member) -> Duration {
        let connect = self.peers.settings.connect_timeout;
        if member.is_out() { connect } else { self.timeout + connect }
    }
    /// Asks a node for a key.
    pub(super) async fn get(&self, to: To<'_>, key: &[u8], epoch: u64) -> Result<PeerAnswer, PeerError> {
        let request = NodeRequest::Get { key: Bytes::copy_from_slice(key), epoch };
        let KeyAnswer { status, body } = self.nodes.call(to, request).await?.answers.pop().unwrap_or_default();
        answer(to.member, status_of(status), body)
    }
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }
}
