//! Dedicated connections to one node of a cluster.
use super::{
    cluster_core::ClusterCore,
    command_routing::{Destination, RoutedCommands, RoutingPlan, routing_key},
    key_slot::slot,
    slot_redirects::{ConnectionClass, ConnectionRoute, SlotRedirect},
};
use crate::{
    local_future::LocalFuture,
    push_queue::PushQueue,
    raw_replies::RawReplies,
    redis_server_trait::{DedicatedConnection, Pace, Relay},
    source_error::SourceError,
};
use bytes::Bytes;
use larder_proto::resp::{Args, encode};
use std::rc::Rc;

/// A dedicated connection to one node. Blocking commands block at the node and are redirected if
/// needed.
struct NodeConnection {
    inner: Box<dyn DedicatedConnection>,
    resp3: bool,
    core: Rc<ClusterCore>,
}

impl ClusterCore {
    /// Opens a connection to the node of the command's keys, or to any node if it has none.
    pub(super) async fn open_dedicated(
        self: Rc<ClusterCore>,
        args: Args<'_>,
        resp3: bool,
    ) -> Result<Box<dyn DedicatedConnection>, SourceError> {
        let deadline = self.deadline();
        let known = self.commands(deadline).await?;
        let key = routing_key(&known, args);
        let to = key.map_or(Destination::Anyone, |key| Destination::Slot(slot(key)));
        if let Some(key) = key {
            // This finds the slot's node, whatever the reply: a dedicated connection cannot be redirected
            // later.
            let part = RoutedCommands { commands: encode(&[b"EXISTS", key]).into(), count: 1, to: to.clone() };
            let route = ConnectionRoute::shared(false);
            let answer = self.send_to_destination(&part, route).await;
            let answer = self.follow_redirects(&part, answer, route, deadline).await;
            if SlotRedirect::of(&answer).is_some() {
                answer?;
            }
        }
        let address = self.address(&self.map(), &to)?;
        let inner = self.node(&address)?.take_dedicated(resp3)?;
        Ok(Box::new(NodeConnection { inner, resp3, core: self }))
    }
}

impl Relay for NodeConnection {
    fn relay_at(
        &self,
        pace: Pace,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.inner.relay_at(pace, commands, count, resp3)
    }
}

impl DedicatedConnection for NodeConnection {
    fn relay_blocking(&self, command: Bytes) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        let (core, route) = (
            self.core.clone(),
            ConnectionRoute { class: ConnectionClass::Unlimited, ..ConnectionRoute::shared(self.resp3) },
        );
        let plan = core.known_commands().map(|known| RoutingPlan::new(&command, &known, &core.map()));
        match plan.as_ref().map(|plan| &plan.parts[..]) {
            Some([part]) => {
                let (part, answer) = (part.clone(), self.inner.relay_blocking(command));
                Box::pin(async move {
                    let answer = answer.await;
                    core.follow_redirects(&part, answer, route, core.deadline()).await
                })
            }
            // Commands for all nodes (SCRIPT KILL).
            _ => core.relay(command, route),
        }
    }
    fn ask(&self, command: Vec<u8>, marked: bool) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.inner.ask(command, marked)
    }
    fn pushes(&self) -> &PushQueue {
        self.inner.pushes()
    }
    fn note_protocol(&mut self, resp3: bool) {
        self.resp3 = resp3;
        self.inner.note_protocol(resp3);
    }
    fn release(self: Box<Self>) {
        self.inner.release();
    }
}
