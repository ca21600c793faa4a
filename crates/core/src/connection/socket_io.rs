//! Reads from and writes to a connection's socket, with buffers that the worker lends.
use super::{connection_loop::ConnectionLoop, protocol::Protocol};
use larder_base::tls::ClientStream;
use larder_store::clock;
use std::{
    io::{self, IoSlice},
    mem,
    pin::Pin,
    task::{Context, Poll},
};

/// Maximum pieces of output in one write.
const PIECES: usize = 64;
/// Maximum consecutive writes to one client before other connections get their turn.
const WRITES: usize = 8;
impl<P: Protocol, S: ClientStream> ConnectionLoop<'_, P, S> {
    /// Reads once. Ready if something arrived. With `last`, Larder is closing, and this is the last
    /// read.
    pub(super) fn poll_read(&mut self, more: usize, last: bool, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.conn.input().is_large() {
            // The command for which the buffer grew may be done.
            self.conn.input().rest(self.pool);
            self.account();
        }
        if !self.holder.poll_room(cx) {
            return Poll::Pending;
        }
        let read = self.conn.input().poll_read(&mut *self.stream, more, self.pool, cx);
        self.input_ended |= last;
        match read? {
            Poll::Ready(0) => {
                self.input_ended = true;
                self.conn.input().rest(self.pool);
                Poll::Pending
            }
            Poll::Ready(bytes) => {
                P::counters(&self.worker.counters).bytes_in.add(bytes as u64);
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                self.conn.input().rest(self.pool);
                Poll::Pending
            }
        }
    }

    /// Writes when the socket has room again. Ready if something was sent.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let used = self.conn.out().io_slices(&mut pieces);
        let written = Pin::new(&mut *self.stream).poll_write_vectored(cx, &pieces[..used]);
        let Poll::Ready(written) = written? else {
            return Poll::Pending;
        };
        self.sent(written);
        self.return_output();
        // A client that reads a large reply slowly is not idle.
        self.conn.client().touch(clock::now());
        Poll::Ready(Ok(()))
    }

    /// Sends what the stream has taken and not sent. Ready if that was all of it.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut *self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.conn.client().touch(clock::now());
        }
        flushed
    }

    /// Writes as much output as the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        for _ in 0..WRITES {
            if self.conn.out().is_empty() {
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

    pub(super) fn try_write(&mut self) -> io::Result<usize> {
        let out = self.conn.out();
        let mut first = [IoSlice::new(&[])];
        out.io_slices(&mut first);
        if first[0].len() == out.len() {
            return self.stream.try_write_vectored(&first);
        }
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let used = out.io_slices(&mut pieces);
        self.stream.try_write_vectored(&pieces[..used])
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.conn.out().advance(bytes);
        P::counters(&self.worker.counters).bytes_out.add(bytes as u64);
    }

    /// Replaces an empty output by one of the worker's, which has capacity. Call this before
    /// writing replies.
    pub(super) fn borrow_output(&mut self) {
        if !self.lent && self.conn.out().is_empty() {
            *self.conn.out() = self.pool.take_output();
            self.lent = true;
        }
    }

    /// Gives the output back, when everything is sent.
    pub(super) fn return_output(&mut self) {
        if self.lent && self.conn.out().is_empty() {
            self.pool.put_output(mem::take(self.conn.out()));
            self.lent = false;
        }
    }
}
