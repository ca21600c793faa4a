//! Sending what a fast connection has to send, and the account of what it holds.
use super::fast_connection::{ENOUGH, FastConnection};
use crate::{
    connection::{
        closing_response::{buffers_exceeded, end_with},
        connection_context::ConnectionContext,
        connection_deadlines::Verdict,
    },
    messages::{response_body::ResponseBody, response_writer::write_head},
};
use http::Response;
use larder_base::{buffers::HeldBytes, tls::ClientStream};
use larder_proto::output::Output;
use larder_store::clock;
use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

const SLICES: usize = 16;
/// Room for logged requests that a connection keeps.
const KEPT_LOGGED: usize = 16;
/// Chunks of a body from here on are sent by reference.
const LINKED: usize = 4096;

impl<S: ClientStream> FastConnection<'_, S> {
    /// Appends a response to the output, sending as it grows.
    pub(super) async fn send(&mut self, mut response: Response<ResponseBody>) -> io::Result<()> {
        let chunked = {
            let date = &mut self.context.http.turn_buffers.borrow_mut().date;
            write_head(&mut self.output, &response, date.at(clock::now()))
        };
        let body = response.body_mut();
        loop {
            let Some(bytes) = body.next() else {
                let more = poll_fn(|cx| Poll::Ready(body.poll_more(cx))).await;
                let more = match more {
                    Poll::Ready(more) => more,
                    Poll::Pending => {
                        // What has come goes out before more does.
                        self.flush().await?;
                        self.deadline.allow(None);
                        poll_fn(|cx| body.poll_more(cx)).await
                    }
                };
                match more {
                    Ok(true) => continue,
                    Ok(false) => break,
                    Err(error) => {
                        tracing::warn!(%error, "a response breaks off");
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                }
            };
            if chunked {
                self.output.put(format!("{:x}\r\n", bytes.len()).as_bytes());
            }
            if bytes.len() < LINKED {
                self.output.put(&bytes);
            } else {
                self.output.put_shared(bytes);
            }
            if chunked {
                self.output.put(b"\r\n");
            }
            if self.output.len() > ENOUGH {
                self.flush().await?;
            }
        }
        if chunked {
            self.output.put(b"0\r\n\r\n");
        }
        Ok(())
    }

    /// Brings the connection's account up to date.
    #[inline]
    pub(super) fn account(&self) {
        // After a hit, which is sent at once, there is nothing to add up.
        let is_empty = self.input.capacity() == 0 && self.output.is_empty() && self.waiting.is_empty();
        let mut holding = if is_empty { HeldBytes::default() } else { self.holding() };
        holding.output += self.stream.buffered();
        self.context.holder.set(holding);
    }

    fn holding(&self) -> HeldBytes {
        let waiting: usize = self.waiting.iter().map(|waiting| waiting.after.owned() + waiting.key.len()).sum();
        HeldBytes {
            input: self.input.capacity(),
            output: self.output.owned() + self.behind + waiting,
            referred: self.output.referred(),
        }
    }

    /// Ends the connection, which holds too much. Its client is told if nothing else is due to it.
    pub(super) async fn cut(&mut self) {
        let ConnectionContext { worker, holder, peer, .. } = self.context;
        let app = &worker.app;
        holder.note_cut(peer);
        self.input = Vec::new();
        let told = self.output.is_empty() && self.waiting.is_empty();
        self.output = Output::default();
        self.account();
        if told {
            end_with(&mut self.stream, &app.drain, buffers_exceeded(app.buffers.limit())).await;
        }
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.deadline.allow(self.context.worker.app.live.idle_timeout());
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Sends what is left over; a client that takes nothing for `idle-timeout` is given up.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let before = self.output.len();
        let mut output = std::mem::take(&mut self.output);
        let sent = self.poll_send(&mut output, cx);
        self.output = output;
        if self.output.len() < before {
            self.deadline.allow(self.context.worker.app.live.idle_timeout());
        }
        match sent {
            Poll::Pending if self.deadline.verdict() == Verdict::Expired => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending if self.context.holder.is_cut() => {
                self.context.holder.note_cut(&self.context.peer);
                Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
            }
            Poll::Pending => {
                self.account();
                Poll::Pending
            }
            Poll::Ready(Ok(())) => {
                // An idle connection keeps no buffer.
                self.output = Output::default();
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }

    /// Sends until the output is empty or the socket full.
    pub(super) fn poll_send(&mut self, output: &mut Output, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let used = output.io_slices(&mut slices);
            let stream = Pin::new(&mut self.stream);
            let sent = match &slices[..used] {
                [one] => ready!(stream.poll_write(cx, one))?,
                many => ready!(stream.poll_write_vectored(cx, many))?,
            };
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.context.worker.counters.http_bytes_out.add(sent as u64);
            self.written += sent as u64;
            output.advance(sent);
        }
        if self.stream.is_unflushed() {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        }
        if !self.unsent.is_empty() {
            self.log_sent();
        }
        Poll::Ready(Ok(()))
    }

    #[cold]
    fn log_sent(&mut self) {
        self.unsent.clear();
        if self.unsent.capacity() > KEPT_LOGGED {
            self.unsent = Vec::new();
        }
    }
}
