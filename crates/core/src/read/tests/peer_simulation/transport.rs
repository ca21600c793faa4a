//! The simulated network: what carries a node's messages, and what becomes of them at the other.
use super::{node::Node, world::World};
use crate::read::PeerRequest;
use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use larder_ring::peer::{
    AskedFor, KeyAnswer, MemberMove, OwnerAnswer, OwnerRequest, PeerAnswer, PeerChange, PeerError, To, Transport,
    peer_answers,
};
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

#[derive(Clone)]
enum Message {
    Get { key: Bytes, ring: String },
    GetMany { keys: Vec<Bytes>, held_only: bool, ring: String },
    Tell(PeerChange),
    Hottest { of: String, max_bytes: usize },
    Announce { of: String, what: MemberMove },
}

enum Reply {
    /// To each key.
    Answers(Vec<KeyAnswer>),
    Keys(Vec<Bytes>),
    Done,
    /// It does not answer for its keys now.
    NotNow,
}

async fn reply(node: &Node, message: Message) -> Reply {
    let asked = |ring| PeerRequest { group: &node.group, now: clock::now(), instance: 1, ring, trace: None };
    let shared = node.group.peers.as_ref().expect("the nodes share the group");
    match message {
        Message::Get { .. } | Message::GetMany { .. } if !asked(None).is_answered() => Reply::NotNow,
        Message::Get { key, ring } => {
            let (status, body) = match asked(Some(ring.as_bytes())).get(&key).await {
                Ok(Some(body)) => (StatusCode::OK, body),
                Ok(None) => (StatusCode::NOT_FOUND, Bytes::new()),
                Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string().into()),
            };
            Reply::Answers(vec![KeyAnswer { status: status.as_u16().into(), body }])
        }
        Message::GetMany { keys, held_only, ring } => {
            Reply::Answers(asked(Some(ring.as_bytes())).get_many(&keys, held_only).await)
        }
        Message::Tell(change) => {
            match change {
                PeerChange::Set { key, value, expiry } => asked(None).set(&key, &value, expiry),
                PeerChange::Remove(key) => asked(None).remove(&key),
                PeerChange::Clear { scope, soft } => asked(None).clear(&scope, soft).await,
            }
            Reply::Done
        }
        Message::Hottest { of, max_bytes } => Reply::Keys(shared.hottest_for(&of, max_bytes).await),
        Message::Announce { of, what } => {
            shared.announced(of.as_bytes(), what, "").await;
            Reply::Done
        }
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

    async fn exchange(&self, to: To<'_>, message: Message) -> Result<Reply, PeerError> {
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
        match reply? {
            Reply::NotNow => Err(peer_answers::not_reached(member, "it does not answer now")),
            reply => Ok(reply),
        }
    }

    /// Has the other node reply, if one runs there.
    fn deliver(&self, to: usize, message: Message) -> oneshot::Receiver<Reply> {
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

fn ring(epoch: u64) -> String {
    format!("{epoch:016x}")
}

#[async_trait(?Send)]
impl Transport for SimulatedTransport {
    async fn get(&self, to: To<'_>, key: &[u8], epoch: u64, asked_for: AskedFor<'_>) -> Result<PeerAnswer, PeerError> {
        // Entries that a node takes over are asked for without a request.
        if !asked_for.node.is_empty() {
            self.check_sender(key, "a read", true);
        }
        let message = Message::Get { key: Bytes::copy_from_slice(key), ring: ring(epoch) };
        let Reply::Answers(mut answers) = self.exchange(to, message).await? else { unreachable!() };
        let KeyAnswer { status, body } = answers.remove(0);
        let status = StatusCode::from_u16(u16::try_from(status).expect("a status")).expect("a status");
        peer_answers::answer(to.member, status, body)
    }

    async fn get_many(
        &self,
        to: To<'_>,
        keys: Vec<Bytes>,
        held_only: bool,
        epoch: u64,
    ) -> Result<Vec<Option<PeerAnswer>>, PeerError> {
        keys.iter().for_each(|key| self.check_sender(key, "a read", true));
        let asked = keys.len();
        let message = Message::GetMany { keys, held_only, ring: ring(epoch) };
        let Reply::Answers(answers) = self.exchange(to, message).await? else { unreachable!() };
        peer_answers::answers(to.member, asked, answers)
    }

    async fn tell(&self, to: To<'_>, change: &PeerChange) -> Result<(), PeerError> {
        if let PeerChange::Remove(key) | PeerChange::Set { key, .. } = change {
            self.check_sender(key, "a change", false);
        }
        self.exchange(to, Message::Tell(change.clone())).await.map(drop)
    }

    /// The simulated nodes have a source.
    async fn at_owner(&self, _to: To<'_>, _request: &OwnerRequest) -> Result<OwnerAnswer, PeerError> {
        Err(PeerError::Refused("it runs no commands".into()))
    }

    async fn hottest(&self, to: To<'_>, this: &str, max_bytes: usize) -> Result<Vec<Bytes>, PeerError> {
        let message = Message::Hottest { of: this.to_owned(), max_bytes };
        let Reply::Keys(keys) = self.exchange(to, message).await? else { unreachable!() };
        Ok(keys)
    }

    async fn announce(&self, to: To<'_>, this: &str, what: MemberMove, hash: &str) -> Result<String, PeerError> {
        let message = Message::Announce { of: this.to_owned(), what };
        self.exchange(to, message).await.map(|_| hash.to_owned())
    }
}
