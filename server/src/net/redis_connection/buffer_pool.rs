//! Buffers that a worker lends to the connection that it serves, so that idle connections hold none.
use crate::source::Fetch;
use larder_proto::output::Output;
use std::{cell::RefCell, mem};

/// Capacity of the lent input buffer: what one read takes at most from a client that sends small commands.
pub(super) const READ: usize = 64 * 1024;

/// One worker's spare buffers. A buffer that is lent is missing here; a connection that finds none makes another.
#[derive(Debug, Default)]
pub struct BufferPool {
    input: RefCell<Vec<u8>>,
    output: RefCell<Output>,
    /// The misses of the connection that is being served; empty between two of them.
    pub(super) batch: RefCell<Vec<Fetch>>,
}

impl BufferPool {
    /// An empty buffer of at least [`READ`] bytes.
    pub(super) fn take_input(&self) -> Vec<u8> {
        let mut buffer = mem::take(&mut *self.input.borrow_mut());
        buffer.reserve_exact(READ);
        buffer
    }

    /// Takes a buffer back; one that grew for a large command is freed instead.
    pub(super) fn put_input(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= 2 * READ {
            buffer.clear();
            *self.input.borrow_mut() = buffer;
        }
    }

    /// An empty output.
    pub(super) fn take_output(&self) -> Output {
        mem::take(&mut *self.output.borrow_mut())
    }

    /// Takes an emptied output back (it bounds its own capacity).
    pub(super) fn put_output(&self, output: Output) {
        *self.output.borrow_mut() = output;
    }
}
