//! Bounds the reply of a single command, which could be longer than all buffers together.
use super::command_error::CommandError;
use crate::{
    app::Worker,
    buffers::{BufferCharge, BufferKind},
};
use larder_units::show_size;

/// Replies up to this length are not checked while they are written: the connection's turn ends
/// soon enough.
const UNSEEN: usize = 1 << 20;

/// One in this many parts of the bound stays free.
const MARGIN_SHARE: usize = 8;

/// The memory that a reply takes while it is written. When the command is over, the connection
/// accounts for it.
pub(super) struct ReplyBudget<'w> {
    worker: &'w Worker,
    /// Memory is reserved up to this length.
    taken: usize,
    charge: Option<BufferCharge>,
}

impl<'w> ReplyBudget<'w> {
    pub(super) fn new(worker: &'w Worker) -> ReplyBudget<'w> {
        ReplyBudget { worker, taken: UNSEEN, charge: None }
    }

    /// Reserves memory for an output of this many bytes.
    ///
    /// # Errors
    /// The buffers have no room for more.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), CommandError> {
        if bytes <= self.taken { Ok(()) } else { self.take_more(bytes) }
    }

    #[cold]
    fn take_more(&mut self, bytes: usize) -> Result<(), CommandError> {
        let buffers = &self.worker.app.buffers;
        // Memory is reserved in steps, so that a long reply seldom touches the account. Some of the bound
        // stays free, so that the connection is not closed for this reply in the end.
        let taken = bytes + UNSEEN;
        let charge = self.charge.get_or_insert_with(|| buffers.charge(BufferKind::RedisOutput));
        if !charge.try_resize(taken + buffers.limit() / MARGIN_SHARE) {
            let limit = show_size(buffers.limit() as u64);
            let text = format!("ERR the reply does not fit into the buffers now, which may hold {limit} (max-buffers)");
            return Err(CommandError::Owned(text.into_bytes()));
        }
        self.taken = taken;
        Ok(())
    }
}
