//! A connection in use: requests are written, replies read, deadlines kept, silence questioned.
use super::{Inner, PROBE, timing::Alarm};
use crate::{
    buffers::BufferCharge,
    source::redis::{
        connect::Stream,
        handshake::reason,
        pipeline::{CONFUSED, Pipeline},
        request::{Call, Request},
    },
};
use bytes::{BufMut, Bytes, BytesMut};
use larder_proto::output::Output;
use std::{
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWrite},
    time::Instant,
};

/// Read buffer, and how little room in it calls for more.
const INPUT: (usize, usize) = (64 * 1024, 4 * 1024);
/// An emptied read buffer larger than this is given back.
const INPUT_KEPT: usize = 1024 * 1024;
/// Slices per vectored write.
const SLICES: usize = 16;

/// A connection in use.
pub(super) struct ConnectionIo<'l> {
    pub(super) link: &'l Inner,
    pub(super) stream: Stream,
    pub(super) input: BytesMut,
    pub(super) out: Output,
    pub(super) unflushed: bool,
    pub(super) pipeline: Pipeline,
    pub(super) alarm: Alarm,
    /// When the server was last heard, or asked.
    pub(super) heard: Instant,
    /// How long the answer to a probe may take.
    pub(super) probe_limit: Duration,
    /// What is held here.
    pub(super) charge: BufferCharge,
}
impl ConnectionIo<'_> {
    /// Ready with the reason when the connection is of no use any more.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Arc<str>> {
        let polled = self.poll_all(cx);
        self.charge.settle(self.input.capacity() + self.out.owned() + self.pipeline.held());
        polled
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<Arc<str>> {
        self.link.waker.set(Some(cx.waker().clone()));
        loop {
            self.pipeline.send(&mut self.link.queue.borrow_mut(), &mut self.out);
            if let Err(error) = self.write(cx) {
                return Poll::Ready(reason(error));
            }
            match self.read(cx) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready("connection closed by the source".into());
                }
                Poll::Ready(Err(error)) => return Poll::Ready(reason(error)),
                Poll::Ready(Ok(_)) => {
                    self.heard = Instant::now();
                    if self.pipeline.receive(&mut self.input).is_err() {
                        return Poll::Ready(CONFUSED.into());
                    }
                    self.pipeline.requeue(&mut self.link.queue.borrow_mut());
                    if let Some(reason) = self.pipeline.shut_out() {
                        return Poll::Ready(reason);
                    }
                    if self.pipeline.take_doubt() {
                        self.probe(Instant::now());
                    }
                    continue;
                }
                Poll::Pending => {}
            }
            let next = [
                self.pipeline.deadline(),
                self.link.deadline(),
                (!self.pipeline.is_owed()).then(|| self.heard + PROBE),
            ];
            let next = next.into_iter().flatten().min();
            ready!(self.alarm.poll(cx, next));
            let now = Instant::now();
            self.link.expire(now);
            if self.pipeline.deadline().is_some_and(|at| at <= now) {
                return Poll::Ready(self.pipeline.timed_out());
            }
            if !self.pipeline.is_owed() && self.heard + PROBE <= now {
                self.probe(now);
            }
        }
    }

    fn probe(&mut self, now: Instant) {
        self.heard = now;
        let probe = Call {
            commands: Bytes::from_static(b"*1\r\n$4\r\nPING\r\n"),
            count: 1,
            deadline: now + self.probe_limit,
            limit: self.probe_limit,
            answer: None,
        };
        let mut queue = self.link.queue.borrow_mut();
        queue.push_back(Request::Call(probe));
    }

    /// Writes as much as the socket takes.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.out.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let used = self.out.io_slices(&mut slices);
            let written = Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..used]);
            match written {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => self.out.advance(written?),
            }
            self.unflushed = true;
        }
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(cx)
        {
            flushed?;
            self.unflushed = false;
        }
        Ok(())
    }

    /// Reads into the input buffer, or into the large value that is being received; 0 at the end of the stream.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Some((value, missing)) = self.pipeline.direct() {
            let mut rest = value.limit(missing);
            let read = ready!(pin!(self.stream.read_buf(&mut rest)).poll(cx))?;
            self.pipeline.direct_read(read);
            return Poll::Ready(Ok(read));
        }
        if self.input.is_empty() && self.input.capacity() > INPUT_KEPT {
            self.input = BytesMut::new();
        }
        if self.input.capacity() - self.input.len() < INPUT.1 {
            self.input.reserve(INPUT.0);
        }
        pin!(self.stream.read_buf(&mut self.input)).poll(cx)
    }
}
