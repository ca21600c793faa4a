//! A connection to one node of a cluster that is one client's alone.
use super::{
    Core,
    key_slot::slot,
    redirect::{Detour, Lane, Way},
    routing::{Part, Plan, To, place},
};
use crate::source::{DedicatedConnection, LocalFuture, PushQueue, RawReplies, Relay, SourceError};
use bytes::Bytes;
use larder_proto::resp::{Args, encode};
use std::rc::Rc;

/// What was pinned there. What may wait does so at the node, and goes elsewhere if it has to.
struct OnNode {
    inner: Box<dyn DedicatedConnection>,
    resp3: bool,
    core: Rc<Core>,
}

impl Core {
    /// A connection to the node that the command's keys are at, or to any.
    pub(super) async fn open_dedicated(
        self: Rc<Core>,
        args: Args<'_>,
        resp3: bool,
    ) -> Result<Box<dyn DedicatedConnection>, SourceError> {
        let deadline = self.deadline();
        let known = self.commands(deadline).await?;
        let key = place(&known, args);
        let to = key.map_or(To::Anyone, |key| To::Slot(slot(key)));
        if let Some(key) = key {
            // Whatever it says, by then it is known where the slot is: there is no being sent on from a connection with state.
            let part = Part { commands: encode(&[b"EXISTS", key]).into(), count: 1, to: to.clone() };
            let way = Way { lane: Lane::Shared, resp3: false };
            let answer = self.ask(&part, way).await;
            let answer = self.follow(&part, answer, way, deadline).await;
            if Detour::of(&answer).is_some() {
                answer?;
            }
        }
        let address = self.address(&self.map(), &to)?;
        let inner = self.node(&address)?.pin_now(resp3)?;
        Ok(Box::new(OnNode { inner, resp3, core: self }))
    }
}

impl Relay for OnNode {
    fn relay(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.inner.relay(commands, count, resp3)
    }
    fn relay_slow(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.inner.relay_slow(commands, count, resp3)
    }
}

impl DedicatedConnection for OnNode {
    fn relay_blocking(&self, command: Bytes) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        let (core, way) = (self.core.clone(), Way { lane: Lane::Own, resp3: self.resp3 });
        let plan = core.known_commands().map(|known| Plan::new(&command, &known, &core.map()));
        match plan.as_ref().map(|plan| &plan.parts[..]) {
            Some([part]) => {
                let (part, answer) = (part.clone(), self.inner.relay_blocking(command));
                Box::pin(async move {
                    let answer = answer.await;
                    core.follow(&part, answer, way, core.deadline()).await
                })
            }
            // For all nodes (SCRIPT KILL).
            _ => core.relay(command, way),
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
