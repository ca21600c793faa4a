//! Buffers that a worker lends to the connection that it is serving, so that idle connections have
//! none.
use larder_proto::output::Output;
use larder_source::Fetch;
use std::{cell::RefCell, mem};

/// Capacity of the lent input buffer: the most that one read takes from a client that sends small
/// commands.
pub(super) const READ: usize = 64 * 1024;

/// The spare buffers of one worker. If none is left, a connection makes another.
#[derive(Debug, Default)]
pub struct BufferPool {
    input: RefCell<Vec<u8>>,
    output: RefCell<Output>,
    /// The misses of the connection that is being served. Empty between two connections.
    pub(super) batch: RefCell<Vec<Fetch>>,
}

impl BufferPool {
    /// An empty buffer of at least [`READ`] bytes.
    pub(super) fn take_input(&self) -> Vec<u8> {
        let mut buffer = mem::take(&mut *self.input.borrow_mut());
        buffer.reserve_exact(READ);
        buffer
    }

    /// Takes a buffer back. A buffer that grew for a large command is freed instead.
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

    /// Takes an emptied output back. It bounds its own capacity.
    pub(super) fn put_output(&self, output: Output) {
        *self.output.borrow_mut() = output;
    }
}
