//! The simulated network: what carries a node's messages, and what becomes of them at the other.
use super::{node::Node, world::World};
use crate::read::PeerRequest;
use async_trait::async_trait;
use larder_ring::peer::{NodeReply, NodeRequest, PeerChange, PeerError, To, Transport, peer_answers};
use larder_store::clock;
use std::{future::pending, rc::Rc, time::Duration};
use tokio::{sync::oneshot, time::timeout_at};

/// How long it takes to see that a node cannot be connected to.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
/// The part of messages that are sent twice, because the connection seemed to be gone.
const REPEATED: f64 = 0.02;

/// Carries the messages of one node.
pub(super) struct SimulatedTransport {
    pub(super) world: Rc<World>,
    pub(super) from: usize,
    /// 0: none. Node number n is in zone n mod `zones`.
    pub(super) zones: usize,
}

/// `None`: the node does not answer for its keys now.
async fn reply(node: &Node, request: NodeRequest) -> Option<NodeReply> {
    let ring = match request {
        NodeRequest::Get { epoch, .. } | NodeRequest::GetMany { epoch, .. } => Some(format!("{epoch:016x}")),
        _ => None,
    };
    let ring = ring.as_ref().map(String::as_bytes);
    let asked = PeerRequest { group: &node.group, now: clock::now(), instance: 1, ring, trace: None };
    match ring.is_some() && !asked.is_answered() {
        true => None,
        false => Some(asked.run(request).await),
    }
}

impl SimulatedTransport {
    /// A key that only clients of one node ask for (`world` has no others that begin so): no other
    /// node may send it on, but one that reads for its zone.
    fn check_sender(&self, key: &[u8], what: &str, for_zone: bool) {
        let owner = key.strip_prefix(b"private-").and_then(|rest| rest.first()).map(|digit| usize::from(digit - b'0'));
        let is_of_zone = |asked: usize| for_zone && self.zones > 0 && asked % self.zones == self.from % self.zones;
        if owner.is_some_and(|asked| asked != self.from && !is_of_zone(asked)) {
            let key = String::from_utf8_lossy(key);
            self.world.violation(format_args!("{what} of {key} was forwarded by node {}", self.from));
        }
    }

    async fn exchange(&self, to: To<'_>, message: NodeRequest) -> Result<NodeReply, PeerError> {
        let To { member, deadline, .. } = to;
        let (world, from, to) = (&self.world, self.from, usize::from(member.address.port) - 1);
        world.messages.update(|count| count + 1);
        let exchange = async {
            let (there, back) = (world.way(from, to), world.way(to, from));
            let lost = |way: &super::world::Way| way.is_cut || world.happens(way.loss);
            let (request_lost, reply_lost) = (lost(&there), lost(&back));
            // On a new connection, which a cut in either direction prevents; or on one that is open.
            if (request_lost || reply_lost) && world.happens(0.5) {
                tokio::time::sleep(CONNECT_TIMEOUT).await;
                return Err(peer_answers::not_reached(member, "cannot connect"));
            }
            if request_lost {
                return pending().await;
            }
            world.pause(there.delay.clone()).await;
            let repeated = world.happens(REPEATED).then(|| message.clone());
            let mut answer = self.deliver(to, message);
            if let Some(message) = repeated {
                drop(answer);
                world.pause(there.delay).await;
                answer = self.deliver(to, message);
            }
            let reply = answer.await.map_err(|_| peer_answers::not_reached(member, "the connection was closed"))?;
            if reply_lost {
                return pending().await;
            }
            world.pause(back.delay).await;
            Ok(reply)
        };
        let reply = timeout_at(deadline, exchange)
            .await
            .unwrap_or_else(|_| Err(PeerError::NoAnswer(format!("peer {}: no answer in time", member.name).into())));
        world.note((from, to, reply.is_ok()));
        reply?.ok_or_else(|| peer_answers::not_reached(member, "it does not answer now"))
    }

    /// Has the other node reply, if one runs there.
    fn deliver(&self, to: usize, message: NodeRequest) -> oneshot::Receiver<Option<NodeReply>> {
        let (sender, receiver) = oneshot::channel();
        if let Some(node) = self.world.node(to) {
            self.world.spawn(to, async move {
                // Who asked may have given up.
                let _ = sender.send(reply(&node, message).await);
            });
        }
        receiver
    }
}

#[async_trait(?Send)]
impl Transport for SimulatedTransport {
    async fn call(&self, to: To<'_>, request: NodeRequest) -> Result<NodeReply, PeerError> {
        match &request {
            // Entries that a node takes over are asked for without a request.
            NodeRequest::Get { key, .. } if !to.asked_for.node.is_empty() => self.check_sender(key, "a read", true),
            NodeRequest::GetMany { keys, .. } => keys.iter().for_each(|key| self.check_sender(key, "a read", true)),
            NodeRequest::Tell(PeerChange::Remove(key) | PeerChange::Set { key, .. }) => {
                self.check_sender(key, "a change", false);
            }
            // The simulated nodes have a source.
            NodeRequest::AtOwner(_) => return Err(PeerError::Refused("it runs no commands".into())),
            _ => {}
        }
        self.exchange(to, request).await
    }
}
