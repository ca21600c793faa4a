//! Memory for the reply of a single command, which could be longer than all buffers together.
use super::command_outcome::{CommandError, CommandResult};
use larder_base::buffers::{BufferCharge, BufferKind, Buffers};
use larder_proto::output::{Room, UNCHECKED};
use larder_units::show_size;
use std::{cell::RefCell, sync::Arc};

/// The memory that the replies of one connection take while they are written. At the end of a turn
/// the connection accounts for it ([`ReplyRoom::release`]).
#[derive(Debug)]
pub(super) struct ReplyRoom {
    buffers: Arc<Buffers>,
    charge: RefCell<Option<BufferCharge>>,
}

impl ReplyRoom {
    pub(super) fn new(buffers: &Arc<Buffers>) -> ReplyRoom {
        ReplyRoom { buffers: buffers.clone(), charge: RefCell::default() }
    }

    /// Reserves memory for an output of this many bytes.
    ///
    /// # Errors
    /// The buffers have no room for more.
    #[inline]
    pub(super) fn reserve(&self, bytes: usize) -> CommandResult {
        if bytes <= UNCHECKED || self.take(bytes) { Ok(()) } else { Err(self.no_room()) }
    }

    /// Reserves memory for the next growth of an output that has this many bytes: before a command
    /// runs whose effect must not be without a reply.
    ///
    /// # Errors
    /// The buffers have no room for more.
    pub(super) fn reserve_next(&self, bytes: usize) -> CommandResult {
        if bytes <= UNCHECKED { Ok(()) } else { self.reserve(bytes + bytes / 4 + UNCHECKED) }
    }

    /// Whether something of this length could be added to a reply now.
    ///
    /// # Errors
    /// The buffers have no room for it.
    pub(super) fn check(&self, bytes: usize) -> CommandResult {
        self.charge(bytes).map(drop)
    }

    /// Whether the buffers have room for anything: before each of many parts that are charged by
    /// themselves.
    ///
    /// # Errors
    /// They have none.
    pub(super) fn check_margin(&self) -> CommandResult {
        if self.buffers.room() >= self.buffers.reply_margin() { Ok(()) } else { Err(self.no_room()) }
    }

    /// A charge for this many bytes beside the reply: texts that it is made from.
    ///
    /// # Errors
    /// The buffers have no room for them.
    pub(super) fn charge(&self, bytes: usize) -> Result<BufferCharge, CommandError> {
        let mut charge = self.buffers.charge(BufferKind::RedisOutput);
        match bytes <= UNCHECKED || charge.try_resize(bytes + self.buffers.reply_margin()) {
            true => {
                charge.resize(bytes);
                Ok(charge)
            }
            false => Err(self.no_room()),
        }
    }

    /// Gives the memory back, of which the connection accounts for what is left.
    #[inline]
    pub(super) fn release(&self) {
        let mut charge = self.charge.borrow_mut();
        if charge.is_some() {
            *charge = None;
        }
    }

    #[cold]
    pub(super) fn no_room(&self) -> CommandError {
        let limit = show_size(self.buffers.limit() as u64);
        let text = format!("ERR the reply does not fit into the buffers now, which may hold {limit} (max-buffers)");
        CommandError::NoRoom(text.into_bytes())
    }
}

impl Room for ReplyRoom {
    fn take(&self, bytes: usize) -> bool {
        let mut charge = self.charge.borrow_mut();
        let charge = charge.get_or_insert_with(|| self.buffers.charge(BufferKind::RedisOutput));
        let fits = charge.try_resize(bytes.saturating_add(self.buffers.reply_margin()));
        if fits {
            charge.resize(bytes);
        }
        fits
    }
}
