//! Commands of one client that run together, in the order in which the client sent them.
use crate::{
    command_context::CommandContext,
    command_outcome::Flow,
    executor::{local_store::pipeline::StorePipeline, upstream::pipeline::UpstreamPipeline},
    session::{Backend, Session},
};
use larder_core::app::Worker;
use larder_proto::output::Output;
use std::task::{Context, Poll};

/// A pipeline that is filled first and then sent.
pub enum ClientPipeline {
    /// For a Redis source.
    Upstream(Box<UpstreamPipeline>),
    /// For a local store.
    Store(Box<StorePipeline>),
}

impl ClientPipeline {
    /// An empty pipeline to the source of this command's backend. `behind` says whether the commands
    /// before it are slow. `None`: the backend has none.
    pub(crate) fn of(call: &CommandContext<'_>, behind: Option<bool>) -> Option<ClientPipeline> {
        match call.session.backend {
            Backend::Upstream => Some(ClientPipeline::Upstream(Box::new(UpstreamPipeline::new(call.session, behind)))),
            Backend::LocalStore => Some(ClientPipeline::Store(Box::new(StorePipeline::new(call.group())))),
            Backend::Memory | Backend::SharedStore | Backend::ValueSource => None,
        }
    }
    /// Whether more commands may join.
    pub fn is_open(&self) -> bool {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.is_open(),
            ClientPipeline::Store(pipeline) => pipeline.is_open(),
        }
    }
    /// Whether the commands may keep the source busy for long.
    pub fn is_slow(&self) -> bool {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.is_slow(),
            ClientPipeline::Store(_) => false,
        }
    }
    /// Bytes of the commands that have joined.
    pub fn bytes(&self) -> usize {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.bytes(),
            ClientPipeline::Store(pipeline) => pipeline.bytes(),
        }
    }
    /// Bytes of memory that the pipeline occupies and that are not accounted for elsewhere.
    pub fn owned(&self) -> usize {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.owned(),
            ClientPipeline::Store(pipeline) => pipeline.bytes(),
        }
    }
    /// Adds a command, or says why it cannot join: it must run alone, or behind the others.
    pub(crate) fn join(&mut self, call: &CommandContext<'_>) -> Flow {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.join(call),
            ClientPipeline::Store(pipeline) => pipeline.join(call),
        }
    }
    /// Ends the turn in which the commands came. Commands to a Redis source are sent now. Commands
    /// to a local store start when polled, and more may join until then.
    pub fn send(&mut self, worker: &Worker, session: &Session) {
        if let ClientPipeline::Upstream(pipeline) = self {
            pipeline.send(worker, session);
        }
    }
    /// Ready when the commands are answered. Starts commands to a local store.
    pub fn poll(&mut self, worker: &Worker, session: &mut Session, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.poll(cx),
            ClientPipeline::Store(pipeline) => pipeline.poll(worker, session, cx),
        }
    }
    /// Writes the replies, after [`poll`](ClientPipeline::poll) was ready.
    pub fn reply(self, worker: &Worker, session: &mut Session, out: &mut Output) {
        match self {
            ClientPipeline::Upstream(pipeline) => pipeline.reply(worker, session, out),
            ClientPipeline::Store(pipeline) => pipeline.reply(worker, session, out),
        }
    }
}
