//! A connection in the middle of an exchange, as hyper sees it from the beginning.
use bytes::{Buf, Bytes};
use larder_base::outbound::Stream;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream on which a request was sent and part of the response was read. hyper writes the request
/// once more, which goes nowhere, and then reads that part first.
pub(super) struct ReplayedStream {
    stream: Stream,
    read: Bytes,
    state: State,
}

enum State {
    /// hyper has not written the request. Until then it must read nothing: what comes without a
    /// request is an error to it.
    Before(Option<Waker>),
    Writing(Option<Waker>),
    After,
}

impl ReplayedStream {
    /// `read`: the outcome of the response.
    pub(super) fn new(stream: Stream, read: Bytes) -> ReplayedStream {
        ReplayedStream { stream, read, state: State::Before(None) }
    }
}

impl AsyncRead for ReplayedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        match &mut me.state {
            State::Before(reader) | State::Writing(reader) => {
                *reader = Some(cx.waker().clone());
                Poll::Pending
            }
            State::After if me.read.is_empty() => Pin::new(&mut me.stream).poll_read(cx, buf),
            State::After => {
                let now = me.read.len().min(buf.remaining());
                buf.put_slice(&me.read[..now]);
                me.read.advance(now);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for ReplayedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        match &mut me.state {
            State::Before(reader) => me.state = State::Writing(reader.take()),
            State::Writing(_) => {}
            State::After => return Pin::new(&mut me.stream).poll_write(cx, buf),
        }
        Poll::Ready(Ok(buf.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        ready!(Pin::new(&mut me.stream).poll_flush(cx))?;
        // hyper flushes when the whole request is written.
        if let State::Writing(reader) = &mut me.state {
            reader.take().into_iter().for_each(Waker::wake);
            me.state = State::After;
        }
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
