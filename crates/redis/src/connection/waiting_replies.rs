//! Replies that wait for the source, in the order of their commands.
use crate::{ClientPipeline, PendingRead, plain_gets::GetReplies};
use larder_proto::output::Output;
use std::collections::VecDeque;

/// A reply that is not ready, and the output between it and the next one.
pub(super) struct WaitingReply {
    pub(super) what: WaitingKind,
    pub(super) after: Output,
}
pub(super) enum WaitingKind {
    Read(PendingRead),
    ClientPipeline(ClientPipeline),
}
impl WaitingReply {
    /// Bytes of memory that it occupies.
    pub(super) fn owned(&self) -> usize {
        self.after.owned()
            + match &self.what {
                WaitingKind::Read(read) => read.owned(),
                WaitingKind::ClientPipeline(together) => together.owned(),
            }
    }
    /// Bytes that it refers to. Forwarded commands are accounted for elsewhere.
    pub(super) fn referred(&self) -> usize {
        self.after.referred()
            + match &self.what {
                WaitingKind::Read(_) => 0,
                WaitingKind::ClientPipeline(together) => together.bytes(),
            }
    }
}

/// Takes the replies to a run of plain GETs: into the output, or behind the last waiting reply.
pub(super) struct RunReplies<'c> {
    out: &'c mut Output,
    queue: &'c mut VecDeque<WaitingReply>,
    /// Bytes in the `after` outputs of the queue.
    held: &'c mut usize,
    /// The run stops when so many bytes are due, or so many replies wait.
    max_due: usize,
    max_waiting: usize,
    /// Bytes behind the last waiting reply that `held` counts already.
    counted: usize,
}
impl<'c> RunReplies<'c> {
    pub(super) fn new(
        (out, queue, held): (&'c mut Output, &'c mut VecDeque<WaitingReply>, &'c mut usize),
        (max_due, max_waiting): (usize, usize),
    ) -> RunReplies<'c> {
        let counted = queue.back().map_or(0, |last| last.after.len());
        RunReplies { out, queue, held, max_due, max_waiting, counted }
    }
    /// No more replies come for now: counts those behind the last waiting one.
    pub(super) fn count(&mut self) {
        if let Some(last) = self.queue.back() {
            *self.held += last.after.len() - self.counted;
            self.counted = last.after.len();
        }
    }
}
impl GetReplies for RunReplies<'_> {
    fn output(&mut self) -> (&mut Output, usize) {
        let room = self.max_due.saturating_sub(self.out.len() + *self.held);
        let out = self.queue.back_mut().map_or(&mut *self.out, |last| &mut last.after);
        let enough = out.len() + room;
        (out, enough)
    }
    fn wait(&mut self, read: PendingRead) -> bool {
        self.count();
        self.queue.push_back(WaitingReply { what: WaitingKind::Read(read), after: Output::default() });
        self.counted = 0;
        self.queue.len() < self.max_waiting
    }
}
