//! Room for the reply of a single command, which may be longer than all buffers together.
use super::command_error::CommandError;
use crate::{
    app::Worker,
    buffers::{BufferCharge, BufferKind},
};
use larder_units::show_size;

/// Replies up to here need not be looked at while they are written: the connection's turn ends soon enough.
const UNSEEN: usize = 1 << 20;

/// This part of the bound is left free.
const MARGIN_SHARE: usize = 8;

/// What a reply that is being written takes. The connection accounts for it when the command is over.
pub(super) struct ReplyBudget<'w> {
    worker: &'w Worker,
    /// Up to here it is taken.
    taken: usize,
    charge: Option<BufferCharge>,
}

impl<'w> ReplyBudget<'w> {
    pub(super) fn new(worker: &'w Worker) -> ReplyBudget<'w> {
        ReplyBudget { worker, taken: UNSEEN, charge: None }
    }

    /// The output has come to so many bytes.
    ///
    /// # Errors
    /// There is no room for more.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), CommandError> {
        if bytes <= self.taken { Ok(()) } else { self.take_more(bytes) }
    }

    #[cold]
    fn take_more(&mut self, bytes: usize) -> Result<(), CommandError> {
        let buffers = &self.worker.app.buffers;
        // In steps, so that a long reply looks at the account now and then only. Some is left free, so that its connection is not cut
        // for it in the end.
        let taken = bytes + UNSEEN;
        let charge = self.charge.get_or_insert_with(|| buffers.charge(BufferKind::RedisOutput));
        if !charge.try_resize(taken + buffers.limit() / MARGIN_SHARE) {
            let limit = show_size(buffers.limit() as u64);
            let text = format!("ERR the reply does not fit into the buffers now, which may hold {limit} (max-buffers)");
            return Err(CommandError::Told(text.into_bytes()));
        }
        self.taken = taken;
        Ok(())
    }
}
