//! Commands of one client that are carried out together, in their order: [relayed](UpstreamPipeline) to a Redis source, or as one change of a
//! source that keeps its entries on this machine ([`StorePipeline`]).
use super::{
    command_context::CommandContext,
    local_store::StorePipeline,
    session::Session,
    upstream_pipeline::{Joined, UpstreamPipeline},
};
use crate::app::Worker;
use larder_proto::output::Output;
use std::task::{Context, Poll};

/// The commands, first put together, then on their way.
pub enum ClientPipeline {
    /// To a Redis source.
    UpstreamPipeline(UpstreamPipeline),
    /// To the store.
    Stored(StorePipeline),
}

impl ClientPipeline {
    /// None yet, from this client, `behind` others that are slow or are not.
    pub fn new(worker: &Worker, session: &Session, behind: Option<bool>) -> ClientPipeline {
        let group = &worker.groups[0];
        match group.source.as_local() {
            Some(_) => ClientPipeline::Stored(StorePipeline::new(group)),
            None => ClientPipeline::UpstreamPipeline(UpstreamPipeline::new(session, behind)),
        }
    }
    /// May more join?
    pub fn is_open(&self) -> bool {
        match self {
            ClientPipeline::UpstreamPipeline(relayed) => relayed.is_open(),
            ClientPipeline::Stored(batch) => batch.is_open(),
        }
    }
    /// May they keep the source busy for long?
    pub fn is_slow(&self) -> bool {
        match self {
            ClientPipeline::UpstreamPipeline(relayed) => relayed.is_slow(),
            ClientPipeline::Stored(_) => false,
        }
    }
    /// Bytes of commands that have joined.
    pub fn bytes(&self) -> usize {
        match self {
            ClientPipeline::UpstreamPipeline(relayed) => relayed.bytes(),
            ClientPipeline::Stored(batch) => batch.bytes(),
        }
    }
    /// Bytes of memory that they occupy and nobody else counts.
    pub fn owned(&self) -> usize {
        match self {
            ClientPipeline::UpstreamPipeline(relayed) => relayed.owned(),
            ClientPipeline::Stored(batch) => batch.bytes(),
        }
    }
    /// Adds a command.
    pub(super) fn join(&mut self, call: &CommandContext<'_>) -> Joined {
        match self {
            ClientPipeline::UpstreamPipeline(relayed) => relayed.join(call),
            ClientPipeline::Stored(batch) => batch.join(call),
        }
    }
    /// The turn in which they came is over: what travels sets out. A store's wait to be polled, and more may join until then.
    pub fn send(&mut self, worker: &Worker, session: &Session) {
        if let ClientPipeline::UpstreamPipeline(relayed) = self {
            relayed.send(worker, session);
        }
    }
    /// Ready once they are answered. Begins those that go to the store.
    pub fn poll(&mut self, worker: &Worker, session: &mut Session, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            ClientPipeline::UpstreamPipeline(relayed) => relayed.poll(cx),
            ClientPipeline::Stored(batch) => batch.poll(worker, session, cx),
        }
    }
    /// Writes the replies, once [`poll`](ClientPipeline::poll) was ready.
    pub fn reply(self, session: &mut Session, out: &mut Output) {
        match self {
            ClientPipeline::UpstreamPipeline(relayed) => relayed.reply(session, out),
            ClientPipeline::Stored(batch) => batch.reply(session, out),
        }
    }
}
