//! A connection in use: writes requests, reads replies, enforces deadlines, and probes a silent
//! server.
use super::{connect_attempt::Connected, reconnect_backoff::DeadlineTimer, request_queue::RequestQueue};
use crate::{
    redis::{
        announcing_connections::{Announcing, CatchUp},
        pipeline::{CONFUSED, Pipeline, Protocol},
        queued_request::{QueuedRelay, QueuedRequest},
        upstream_handshake::{ConnectionMode, reason},
    },
    source_health::TrackingGuard,
};
use bytes::{BufMut, Bytes, BytesMut};
use larder_base::buffers::{BufferCharge, BufferKind};
use larder_base::outbound::Stream;
use larder_proto::output::Output;
use std::{
    future::{pending, poll_fn},
    io::{self, IoSlice},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWrite},
    time::Instant,
};

/// After this long without a reply the server is probed. So readiness does not depend on traffic,
/// and the server does not close the connection as idle (its `timeout` has whole seconds). If the
/// network fails silently, no change is announced, and copies may be served for this long plus
/// `source-timeout`, the probe's deadline. docs/coherence.md promises it.
const PROBE: Duration = Duration::from_secs(1);
/// Deadline of a probe on connections without tracking. A server that is busy for some seconds (a
/// slow command, a fork) is still up, and a reconnect would only add work.
const UNTRACKED_PATIENCE: Duration = Duration::from_secs(5);

/// Size of the read buffer, and the free space below which it grows.
const INPUT: (usize, usize) = (64 * 1024, 4 * 1024);
/// An empty read buffer larger than this is freed.
const INPUT_KEPT: usize = 1024 * 1024;
/// A client's own connection receives so much before others have their turn: the client must take
/// its pushes, or be closed, before more come.
const PUSHES_IN_A_TURN: usize = 256 * 1024;
/// Slices per vectored write.
const SLICES: usize = 16;

pub(super) struct ConnectionIo<'l> {
    pub(super) queue: &'l RequestQueue,
    pub(super) stream: Stream,
    pub(super) input: BytesMut,
    pub(super) out: Output,
    pub(super) unflushed: bool,
    pub(super) pipeline: Pipeline,
    pub(super) timer: DeadlineTimer,
    /// If the server announces changes here: the requests to catch up with them.
    pub(super) announcing: Option<Announcing>,
    /// How long past their deadlines requests may wait for a server that is busy.
    pub(super) patience: Duration,
    /// Until then deadlines are put off, because the server is busy.
    pub(super) put_off: Option<Instant>,
    /// When the server last replied or was probed.
    pub(super) heard: Instant,
    /// Deadline of a probe.
    pub(super) probe_limit: Duration,
    /// Counts the bytes that are buffered here.
    pub(super) charge: BufferCharge,
}
impl ConnectionIo<'_> {
    /// Ready with the reason when the connection is lost.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Arc<str>> {
        let polled = self.poll_all(cx);
        self.account();
        polled
    }

    fn account(&mut self) {
        // What a long buffer has grown by in advance was not touched, and takes no memory.
        let input = self.input.capacity().min(self.input.len().max(INPUT_KEPT));
        self.charge.settle(input + self.out.owned() + self.pipeline.buffered_bytes());
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<Arc<str>> {
        self.queue.waker.set(Some(cx.waker().clone()));
        if let Some(reason) = self.queue.settings.health.cut() {
            return Poll::Ready(reason);
        }
        self.take_catch_ups(cx);
        let mut received = 0;
        loop {
            self.pipeline.send(&mut self.queue.requests.borrow_mut(), &mut self.out);
            if let Err(error) = self.write(cx) {
                return Poll::Ready(reason(error));
            }
            match self.read(cx) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready("connection closed by the source".into());
                }
                Poll::Ready(Err(error)) => return Poll::Ready(reason(error)),
                Poll::Ready(Ok(bytes)) => {
                    received += bytes;
                    self.heard = Instant::now();
                    if received > INPUT.0 {
                        // The pipeline asks whether a reply has room.
                        self.account();
                    }
                    if self.pipeline.receive(&mut self.input).is_err() {
                        return Poll::Ready(CONFUSED.into());
                    }
                    self.pipeline.requeue(&mut self.queue.requests.borrow_mut());
                    if let Some(reason) = self.pipeline.auth_error() {
                        return Poll::Ready(reason);
                    }
                    if self.pipeline.take_auth_doubt() {
                        self.probe(Instant::now());
                    }
                    if received >= PUSHES_IN_A_TURN && self.queue.pushes.is_of_client() {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    continue;
                }
                Poll::Pending => {}
            }
            let deadline = [self.pipeline.deadline(), self.queue.deadline()].into_iter().flatten().min();
            // A marker that seems to be refused is not late because a script runs.
            if self.pipeline.is_in_doubt() {
                self.put_off = None;
            }
            let due = deadline.map(|deadline| self.put_off.map_or(deadline, |until| until.max(deadline)));
            let probe = (!self.pipeline.has_in_flight()).then(|| self.heard + PROBE);
            let next = [due, probe].into_iter().flatten().min();
            ready!(self.timer.poll(cx, next));
            let now = Instant::now();
            if let Some(deadline) = deadline.filter(|deadline| *deadline <= now)
                && !self.pipeline.is_in_doubt()
                && self.is_put_off(deadline, now)
            {
                continue;
            }
            self.queue.expire(now, "");
            if self.pipeline.deadline().is_some_and(|at| at <= now) {
                return Poll::Ready(self.pipeline.timeout_reason());
            }
            if !self.pipeline.has_in_flight() && self.heard + PROBE <= now {
                self.probe(now);
            }
        }
    }

    /// Whether this deadline, which is past, does not count yet.
    fn is_put_off(&mut self, deadline: Instant, now: Instant) -> bool {
        self.put_off = self.queue.settings.put_off(deadline, self.patience, now);
        self.put_off.is_some()
    }

    /// Queues the requests to catch up with the announcements.
    fn take_catch_ups(&mut self, cx: &mut Context<'_>) {
        let Some(announcing) = &mut self.announcing else { return };
        while let Poll::Ready(Some(CatchUp { command, answer })) = announcing.poll(cx) {
            let request = QueuedRelay {
                commands: command,
                count: 1,
                deadline: Instant::now() + self.probe_limit,
                limit: self.probe_limit,
                may_break: false,
                busy: None,
                running: None,
                answer: Some(answer),
            };
            self.queue.requests.borrow_mut().push_back(QueuedRequest::Relay(request));
        }
    }

    fn probe(&mut self, now: Instant) {
        self.heard = now;
        let ping = Bytes::from_static(b"*1\r\n$4\r\nPING\r\n");
        let probe = QueuedRelay::probe(ping, now + self.probe_limit, self.probe_limit);
        let mut queue = self.queue.requests.borrow_mut();
        queue.push_back(QueuedRequest::Relay(probe));
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

    /// Reads into the input buffer, or directly into a large value; 0 at the end of the stream.
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

impl RequestQueue {
    /// Exchanges requests and replies until the connection is lost; returns the reason. A panic
    /// ends the connection, not the task.
    pub(super) async fn run_until_lost(&self, connected: Connected) -> Arc<str> {
        let Connected { stream, handshake, master } = connected;
        let scope = match &self.mode {
            ConnectionMode::Tracking(scope) if handshake.untracked.is_none() => Some(scope.clone()),
            _ => None,
        };
        let tracking_wanted = matches!(self.mode, ConnectionMode::Tracking(_));
        if self.purpose.keeps_replies {
            // If tracking was requested and refused, replies cannot be cached.
            let can_keep = scope.is_some() || !tracking_wanted;
            let can_fetch = |resp3| can_keep && (handshake.switches || handshake.resp3 == resp3);
            self.settings.reply_protocols.set(can_fetch(false), can_fetch(true), handshake.informs);
        }
        let tracking = tracking_wanted
            .then(|| TrackingGuard::new(self.settings.health.clone(), scope.as_ref().map(|scope| scope.to.clone())));
        let timeout = self.settings.limits.timeout;
        let probe_limit = if scope.is_some() { timeout } else { timeout.max(UNTRACKED_PATIENCE) };
        let slow = self.settings.limits.slow_timeout;
        // Copies count as fresh meanwhile, although the network may be silent.
        let patience = scope.as_ref().map_or(slow, |scope| scope.to.patience().min(slow));
        let announcing = scope.as_ref().map(|_| self.settings.announcing.add());
        let mut io = ConnectionIo {
            queue: self,
            stream,
            input: handshake.input,
            out: Output::default(),
            unflushed: false,
            pipeline: Pipeline::new(
                self.settings.clone(),
                scope,
                self.pushes.clone(),
                Protocol { resp3: handshake.resp3, switches: handshake.switches },
                self.redirector.clone(),
            ),
            timer: DeadlineTimer::new(),
            announcing,
            patience,
            put_off: None,
            heard: Instant::now(),
            probe_limit,
            charge: self.settings.buffers.charge(BufferKind::Fetched),
        };
        let mut replaced = pin!(async {
            match master {
                Some(mut master) => drop(master.changed().await),
                None => pending().await,
            }
        });
        let reason = poll_fn(|cx| {
            if replaced.as_mut().poll(cx).is_ready() {
                return Poll::Ready("the Sentinels name another master".into());
            }
            catch_unwind(AssertUnwindSafe(|| io.poll(cx))).unwrap_or_else(|_| {
                tracing::error!(source = %self.settings.name(), "panic in a source connection");
                Poll::Ready("internal error".into())
            })
        })
        .await;
        // Before the loss is visible, and before the next fetch.
        drop(tracking);
        drop(io.announcing.take());
        self.settings.master.iter().for_each(|master| master.request_refresh());
        self.settings.health.note_error(&reason);
        let mut requests = self.requests.borrow_mut();
        io.pipeline.lost(&reason, Instant::now(), &mut requests);
        reason
    }
}
