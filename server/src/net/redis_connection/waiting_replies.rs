//! Replies that wait for the source, in the order of their commands.
use crate::redis::{ClientPipeline, PendingRead};
use larder_proto::output::Output;

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
