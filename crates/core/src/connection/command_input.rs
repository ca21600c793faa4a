//! Unparsed input of a client.
use larder_base::buffers::GrowingBuffer;
use larder_proto::output::Output;
use larder_source::Fetch;
use std::{
    cell::RefCell,
    io, mem,
    task::{Context, Poll},
};
use tokio::io::AsyncRead;

/// A partial command up to this length is moved out of the lent buffer while the connection waits
/// for the rest.
const HELD: usize = 4096;
/// Capacity for partial commands that a connection keeps, because a pipeline longer than one read
/// needs it repeatedly.
const KEPT: usize = 512;
/// With less room than this, more room is made before a read.
const LEAST_READ: usize = 4096;

/// The input of one connection. While the connection waits for its client, this has a partial
/// command at most.
#[derive(Debug, Default)]
pub struct CommandInput {
    /// Lent by the worker, or the connection's own after a large command made it grow.
    data: GrowingBuffer,
    /// The bytes before this position are parsed.
    start: usize,
    /// A short partial command between two reads. `data` is then given back.
    held: Vec<u8>,
}

impl CommandInput {
    /// The bytes to parse.
    #[inline]
    pub fn unread(&self) -> &[u8] {
        &self.data[self.start..]
    }

    /// Marks the first `bytes` of [`unread`](CommandInput::unread) as processed.
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.data.len() - self.start);
        self.start += bytes;
    }

    /// Reads once. `more` is the known number of bytes that the command at the front still lacks.
    /// The buffer grows towards it as bytes arrive, so a claimed length alone costs nothing.
    pub fn poll_read(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        more: usize,
        pool: &BufferPool,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.prepare(more, pool);
        // Remaining room tells the runtime that the socket is drained. It then waits without asking the
        // kernel again.
        self.data.poll_read(from, cx)
    }

    /// Makes room for a read.
    fn prepare(&mut self, more: usize, pool: &BufferPool) {
        if self.data.capacity() == 0 {
            let mut data = pool.take_input();
            data.extend_from_slice(&self.held);
            self.data = GrowingBuffer::Heap(data);
            self.held.clear();
        }
        if self.start > 0 {
            self.data.remove_front(self.start);
            self.start = 0;
        }
        if self.data.capacity() - self.data.len() < LEAST_READ {
            // A command of many arguments announces one at a time. Room for as much again as has come
            // keeps the copies few.
            let announced = more.saturating_add(LEAST_READ).max(self.data.len());
            self.data.grow(announced.min(READ), announced);
        }
    }

    /// Gives the lent buffer back if little input is left in it. Call this before waiting for the
    /// client.
    pub fn rest(&mut self, pool: &BufferPool) {
        let left = self.data.len() - self.start;
        if self.data.capacity() == 0 || left > HELD {
            return;
        }
        self.held.extend_from_slice(&self.data[self.start..]);
        self.start = 0;
        if let GrowingBuffer::Heap(data) = mem::take(&mut self.data) {
            pool.put_input(data);
        }
        if left == 0 && self.held.capacity() > KEPT {
            self.held = Vec::new();
        }
    }

    /// Bytes of memory that the input occupies and that are not the worker's.
    #[inline]
    pub fn owned(&self) -> usize {
        let lent_and_empty = self.start == self.data.len() && self.data.capacity() <= 2 * READ;
        self.held.capacity() + if lent_and_empty { 0 } else { self.data.occupied() }
    }

    /// Whether a command is arriving that is too large for a lent buffer.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.data.capacity() > 2 * READ
    }

    /// Adds bytes that did not come from a socket (tests).
    pub fn feed(&mut self, bytes: &[u8], pool: &BufferPool) {
        self.prepare(1, pool);
        self.data.extend(bytes, 0);
    }
}

#[cfg(test)]
mod tests;

/// Capacity of the lent input buffer: the most that one read takes from a client that sends small
/// commands.
pub(super) const READ: usize = 64 * 1024;

/// The spare buffers of one worker. If none is left, a connection makes another.
#[derive(Debug, Default)]
pub struct BufferPool {
    input: RefCell<Vec<u8>>,
    output: RefCell<Output>,
    /// The misses of the connection that is being served. Empty between two connections.
    pub batch: RefCell<Vec<Fetch>>,
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

    pub(super) fn take_output(&self) -> Output {
        mem::take(&mut *self.output.borrow_mut())
    }

    /// Takes an emptied output back. It bounds its own capacity.
    pub(super) fn put_output(&self, output: Output) {
        *self.output.borrow_mut() = output;
    }
}
