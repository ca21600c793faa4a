//! Commands of one client that are carried out together, in their order.
use super::{local_store::pipeline::StorePipeline, upstream::pipeline::UpstreamPipeline};
use crate::{
    app::Worker,
    redis::{command_context::CommandContext, flow::Joined, session::Session},
};
use larder_proto::output::Output;
use std::task::{Context, Poll};

/// The commands, first put together, then on their way.
pub enum ClientPipeline {
    /// To a Redis source.
    Upstream(UpstreamPipeline),
    /// To the store.
    Store(StorePipeline),
}

impl ClientPipeline {
    /// May more join?
    pub fn is_open(&self) -> bool {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.is_open(),
            ClientPipeline::Store(pipeline) => pipeline.is_open(),
        }
    }
    /// May they keep the source busy for long?
    pub fn is_slow(&self) -> bool {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.is_slow(),
            ClientPipeline::Store(_) => false,
        }
    }
    /// Bytes of commands that have joined.
    pub fn bytes(&self) -> usize {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.bytes(),
            ClientPipeline::Store(pipeline) => pipeline.bytes(),
        }
    }
    /// Bytes of memory that they occupy and nobody else counts.
    pub fn owned(&self) -> usize {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.owned(),
            ClientPipeline::Store(pipeline) => pipeline.bytes(),
        }
    }
    /// Adds a command.
    pub(in crate::redis) fn join(&mut self, call: &CommandContext<'_>) -> Joined {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.join(call),
            ClientPipeline::Store(pipeline) => pipeline.join(call),
        }
    }
    /// The turn in which they came is over: what travels sets out. A store's wait to be polled, and more may join until then.
    pub fn send(&mut self, worker: &Worker, session: &Session) {
        if let ClientPipeline::Upstream(pipeline) = self {
            pipeline.send(worker, session);
        }
    }
    /// Ready once they are answered. Begins those that go to the store.
    pub fn poll(&mut self, worker: &Worker, session: &mut Session, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.poll(cx),
            ClientPipeline::Store(pipeline) => pipeline.poll(worker, session, cx),
        }
    }
    /// Writes the replies, once [`poll`](ClientPipeline::poll) was ready.
    pub fn reply(self, session: &mut Session, out: &mut Output) {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.reply(session, out),
            ClientPipeline::Store(pipeline) => pipeline.reply(session, out),
        }
    }
}
