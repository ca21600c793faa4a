//! Reads from and writes to the socket of a connection, and the buffers that the worker lends it meanwhile.
use super::connection_loop::ConnectionLoop;
use larder_store::clock;
use std::{
    io::{self, IoSlice},
    mem,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::AsyncWrite;

/// Pieces of output that leave in one write.
const PIECES: usize = 64;
/// Writes to one client in a row before the others get their turn.
const WRITES: usize = 8;
impl ConnectionLoop<'_> {
    /// Reads once; ready if something came. When we are to end (`last`), this is the last look at what the client has sent.
    pub(super) fn poll_read(&mut self, more: usize, last: bool, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.conn.input.is_large() {
            // What it grew for may have been carried out.
            self.conn.input.rest(self.pool);
            self.holder.set(self.conn.holding());
        }
        if !self.holder.poll_room(cx) {
            return Poll::Pending;
        }
        let read = self.conn.input.poll_read(self.stream, more, self.pool, cx);
        self.input_ended |= last;
        match read? {
            Poll::Ready(0) => {
                self.input_ended = true;
                self.conn.input.rest(self.pool);
                Poll::Pending
            }
            Poll::Ready(bytes) => {
                self.worker.counters.redis_bytes_in.add(bytes as u64);
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                self.conn.input.rest(self.pool);
                Poll::Pending
            }
        }
    }

    /// Writes when the socket has room again; ready if something was taken.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let used = self.conn.out.io_slices(&mut pieces);
        let written = Pin::new(&mut *self.stream).poll_write_vectored(cx, &pieces[..used]);
        let Poll::Ready(written) = written? else {
            return Poll::Pending;
        };
        self.sent(written);
        self.return_output();
        // A client that takes a large reply slowly is not idle.
        self.conn.client.touch(clock::now());
        Poll::Ready(Ok(()))
    }

    /// Writes what is due, as far as the socket takes it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        for _ in 0..WRITES {
            if self.conn.out.is_empty() {
                break;
            }
            match self.try_write() {
                Ok(written) => self.sent(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.return_output();
        Ok(())
    }

    pub(super) fn try_write(&self) -> io::Result<usize> {
        let out = &self.conn.out;
        let mut first = [IoSlice::new(&[])];
        out.io_slices(&mut first);
        if first[0].len() == out.len() {
            return self.stream.try_write(&first[0]);
        }
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let used = out.io_slices(&mut pieces);
        self.stream.try_write_vectored(&pieces[..used])
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.conn.out.advance(bytes);
        self.worker.counters.redis_bytes_out.add(bytes as u64);
    }

    /// Before replies are written: an output that holds nothing is exchanged for the worker's, which has room.
    pub(super) fn borrow_output(&mut self) {
        if !self.lent && self.conn.out.is_empty() {
            self.conn.out = self.pool.take_output();
            self.lent = true;
        }
    }

    /// Once everything is sent.
    pub(super) fn return_output(&mut self) {
        if self.lent && self.conn.out.is_empty() {
            self.pool.put_output(mem::take(&mut self.conn.out));
            self.lent = false;
        }
    }
}
