//! Answers that were waited for, and sending.
use super::{Answer, ENOUGH, Fast, State, Waiting};
use crate::{
    buffers::Holding,
    http::{
        Context,
        connection_deadlines::Verdict,
        end_with,
        key_routes::{self, Read},
        problem::Problem,
        read_answer::{self, About, Reading},
        response_body::Body,
    },
    read::Group,
    source::SourceError,
};
use bytes::Bytes;
use http::{Response, StatusCode};
use larder_proto::output::Output;
use larder_store::clock;
use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context as Cx, Poll, ready},
};
use tokio::io::AsyncWrite;

/// Buffers sent with one system call.
const SLICES: usize = 16;
/// Chunks of a body from here on are sent by reference.
const LINKED: usize = 4096;

impl Fast<'_> {
    /// Sends the answers that wait, in order, each followed by those behind it.
    pub(super) async fn settle(&mut self) -> io::Result<()> {
        let worker = self.context.worker.clone();
        self.behind = self.waiting.iter().map(|waiting| waiting.after.owned()).sum();
        for waiting in std::mem::take(&mut self.waiting) {
            let Waiting { reading, key, answer, begun, mut after } = waiting;
            // The source keeps its own deadline.
            self.watch.allow(None);
            let response = match answer {
                Answer::Large(value) => Some(reading.found(&key, value, None, worker.app.instance)),
                Answer::Wait(wait) => {
                    let ended = Group::end(wait).await;
                    self.fetched(reading, &key, ended)
                }
                Answer::Write(task) => {
                    let lost = |_| Err(Problem::source(&SourceError::Lost("write abandoned".into())));
                    Some(task.await.unwrap_or_else(lost).unwrap_or_else(Problem::into_response))
                }
            };
            let status = response.as_ref().map_or(StatusCode::OK, Response::status);
            worker.counters.http_answered(status.as_u16());
            if let Some(response) = response {
                self.send(response).await?;
            }
            worker.counters.http_seconds.record(begun.elapsed());
            self.behind = self.behind.saturating_sub(after.owned());
            self.output.append(&mut after);
            if self.output.len() > ENOUGH {
                self.flush().await?;
            }
        }
        self.flush().await?;
        self.watch.allow(match self.state {
            State::InHead => Some(worker.app.settings.header_timeout),
            _ => worker.app.settings.idle_timeout,
        });
        Ok(())
    }

    /// The answer to a read that was fetched; `None`: it is in the output.
    fn fetched(
        &mut self,
        reading: Reading,
        key: &[u8],
        ended: Result<Option<Bytes>, SourceError>,
    ) -> Option<Response<Body>> {
        let worker = &self.context.worker;
        let (group, instance, now) = (&worker.groups[0], worker.app.instance, clock::now());
        if let Ok(Some(_)) = ended {
            let mut buffers = self.context.http.buffers.borrow_mut();
            let date = buffers.date.at(now);
            let written = group.cache.tier().peek(group.cache.key(key), now, |entry| {
                reading.write_held(&mut self.output, &entry, About::fetched(&entry, now), instance, date).is_none()
            });
            if written == Some(true) {
                return None;
            }
        }
        Some(match key_routes::fetched(group, key, ended) {
            Read::Found(about, value) => reading.found(key, value, about, instance),
            Read::Absent => reading.absent(key),
            Read::Failed(error) => reading.failed(Some(key), Problem::source(&error)),
        })
    }

    /// Appends a response to the output, sending as it grows.
    pub(super) async fn send(&mut self, mut response: Response<Body>) -> io::Result<()> {
        let chunked = {
            let date = &mut self.context.http.buffers.borrow_mut().date;
            read_answer::write_head(&mut self.output, &response, date.at(clock::now()))
        };
        while let Some(bytes) = response.body_mut().next() {
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

    /// Says what the connection holds.
    #[inline]
    pub(super) fn account(&self) {
        let mut holding = Holding {
            input: self.input.capacity(),
            output: self.output.owned() + self.behind,
            referred: self.output.referred(),
        };
        for waiting in &self.waiting {
            holding.output += waiting.after.owned() + waiting.key.len();
        }
        self.context.holder.set(holding);
    }

    /// Ends the connection, which holds too much. Its client is told if nothing else is due to it.
    pub(super) async fn cut(&mut self) {
        let Context { worker, holder, peer, .. } = self.context;
        let app = &worker.app;
        holder.note_cut(*peer);
        self.input = Vec::new();
        let told = self.output.is_empty() && self.waiting.is_empty();
        self.output = Output::default();
        self.account();
        if told {
            end_with(&mut self.stream, &app.drain, read_answer::cut(app.buffers.limit())).await;
        }
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.watch.allow(self.context.worker.app.settings.idle_timeout);
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Sends what is left over; a client that takes nothing for `idle-timeout` is given up.
    pub(super) fn poll_flush(&mut self, cx: &mut Cx<'_>) -> Poll<io::Result<()>> {
        let before = self.output.len();
        let mut output = std::mem::take(&mut self.output);
        let sent = self.poll_send(&mut output, cx);
        self.output = output;
        if self.output.len() < before {
            self.watch.allow(self.context.worker.app.settings.idle_timeout);
        }
        match sent {
            Poll::Pending if self.watch.verdict() == Verdict::Expired => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending if self.context.holder.is_cut() => {
                self.context.holder.note_cut(self.context.peer);
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
    pub(super) fn poll_send(&mut self, output: &mut Output, cx: &mut Cx<'_>) -> Poll<io::Result<()>> {
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
            output.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}
