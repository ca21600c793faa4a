//! What a connection of the general path is doing, seen from outside of hyper: how long it may wait
//! and how much it holds.
use super::{connection_context::ConnectionContext, connection_deadlines::ConnectionDeadline};
use crate::{
    messages::response_body::{self, ResponseBody},
    routing::access_log::LoggedRequest,
};
use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body::{Frame, SizeHint};
use larder_base::{
    buffers::HeldBytes,
    telemetry::{Counters, HttpRoute},
    tls::ClientStream,
};
use larder_source::SourceError;
use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice},
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a connection is doing, and how long it may.
///
/// While a handler runs there is no deadline: bodies (`request_body`) and sources have their own. A
/// head has `header-timeout` altogether. Otherwise, answers being sent or not, something must move
/// within `idle-timeout`.
pub(crate) struct ConnectionActivity {
    pub(crate) context: Rc<ConnectionContext>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) deadline: Rc<ConnectionDeadline>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) header_timeout: Duration,
    /// Frames come on an idle HTTP/2 connection that are no part of a request, and a client that
    /// takes no answer may still have its pings answered: there, only requests and pieces of
    /// answers count.
    pub(crate) is_http2: bool,
    pub(crate) handlers: Cell<u32>,
    pub(crate) answers: Cell<u32>,
    pub(crate) in_head: Cell<bool>,
    pub(crate) held: Cell<HeldBytes>,
    /// What hyper keeps of input at most.
    pub(crate) most_input: usize,
    /// Bytes of the stream's own buffers.
    pub(crate) of_stream: usize,
    /// Since the latest answer or piece of one, hyper has written all that it had.
    is_flushed: Cell<bool>,
    /// Bytes that were read and belong to no request yet.
    unclaimed: Cell<usize>,
    /// The route of the latest answer: what is written is of it.
    answers_of: Cell<HttpRoute>,
    /// Requests whose answers were given to hyper, and may not be written yet.
    unflushed: RefCell<Vec<LoggedRequest>>,
}

impl ConnectionActivity {
    pub(crate) fn new(
        context: &Rc<ConnectionContext>,
        deadline: Rc<ConnectionDeadline>,
        is_http2: bool,
        read: usize,
        of_stream: usize,
    ) -> ConnectionActivity {
        let settings = &context.worker.app.settings;
        let activity = ConnectionActivity {
            context: context.clone(),
            counters: context.worker.counters.clone(),
            deadline,
            idle_timeout: context.worker.app.live.idle_timeout(),
            header_timeout: context.worker.app.live.header_timeout(),
            is_http2,
            handlers: Cell::new(0),
            answers: Cell::new(0),
            in_head: Cell::new(false),
            held: Cell::default(),
            most_input: 4 * settings.max_headers,
            of_stream,
            is_flushed: Cell::new(true),
            unclaimed: Cell::new(read),
            answers_of: Cell::new(HttpRoute::Other),
            unflushed: RefCell::default(),
        };
        activity.moved();
        if read > 0 {
            activity.head_begins();
        }
        activity
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.counters.http_bytes_in.add(bytes as u64);
        self.unclaimed.set(self.unclaimed.get() + bytes);
        // Hyper makes as much room again as it has.
        self.hold(|held| held.input = (held.input + 2 * bytes).min(self.most_input));
        self.head_begins();
    }

    /// Says what the connection holds, as far as that can be seen from outside of hyper: a head, or
    /// what of a body was not taken from it; and pieces of answers that were handed to it and
    /// not written.
    pub(crate) fn hold(&self, change: impl FnOnce(&mut HeldBytes)) {
        let mut held = self.held.get();
        change(&mut held);
        self.held.set(held);
        self.context.holder.set(HeldBytes { output: held.output + self.of_stream, ..held });
    }

    /// A piece of an answer goes out.
    pub(crate) fn handed(&self, bytes: usize) {
        self.is_flushed.set(false);
        self.hold(|held| match bytes {
            // No text is this long: it is a reference to a value.
            response_body::REFERENCE.. => held.referred += bytes,
            _ => held.output += bytes,
        });
    }

    /// A request is in work, or its answer.
    pub(crate) fn is_busy(&self) -> bool {
        self.handlers.get() + self.answers.get() > 0
    }

    pub(crate) fn head_begins(&self) {
        if !self.is_http2 && !self.is_busy() && !self.in_head.replace(true) {
            self.deadline.allow(Some(self.header_timeout));
        }
    }

    pub(crate) fn wrote(&self, bytes: usize) {
        self.counters.http_bytes_out.add(bytes as u64);
        self.counters.http_routes[self.answers_of.get()].sent.add(bytes as u64);
        self.hold(|held| {
            let rest = bytes.saturating_sub(held.output);
            held.output = held.output.saturating_sub(bytes);
            held.referred = held.referred.saturating_sub(rest);
        });
        if bytes > 0 && !self.is_http2 {
            self.moved();
        }
    }

    /// All that hyper had to write is with the socket.
    fn flushed(&self) {
        self.is_flushed.set(true);
        self.unflushed.borrow_mut().clear();
    }

    /// Something happened: the wait for the next event starts again.
    pub(crate) fn moved(&self) {
        if self.handlers.get() == 0 && !self.in_head.get() {
            self.deadline.allow(self.idle_timeout);
        }
    }

    /// A request's head has come in; its handler runs until the return value is answered or
    /// dropped.
    pub(crate) fn begin(self: &Rc<Self>) -> RequestInWork {
        self.handlers.set(self.handlers.get() + 1);
        self.in_head.set(false);
        self.hold(|held| held.input = 0);
        self.deadline.allow(None);
        RequestInWork {
            activity: self.clone(),
            since: Instant::now(),
            answered: false,
            is_timed: true,
            timed_with: HttpRoute::Other,
        }
    }
}

pub(crate) struct RequestInWork {
    activity: Rc<ConnectionActivity>,
    since: Instant,
    answered: bool,
    is_timed: bool,
    timed_with: HttpRoute,
}
impl RequestInWork {
    /// The handler is done; what it answered remains to be sent.
    pub(crate) fn answered(&mut self, status: StatusCode, body: &ResponseBody, timed_with: HttpRoute) {
        self.timed_with = timed_with;
        self.is_timed = !body.is_endless();
        let ConnectionActivity { counters, handlers, answers, .. } = &*self.activity;
        counters.http_answered(timed_with, status.as_u16());
        counters.http_routes[timed_with].received.add(self.activity.unclaimed.take() as u64);
        self.activity.answers_of.set(timed_with);
        handlers.set(handlers.get() - 1);
        answers.set(answers.get() + 1);
        self.answered = true;
        self.activity.is_flushed.set(false);
        self.activity.moved();
    }

    pub(crate) fn activity(&self) -> &Rc<ConnectionActivity> {
        &self.activity
    }
}
impl Drop for RequestInWork {
    fn drop(&mut self) {
        let ConnectionActivity { counters, handlers, answers, .. } = &*self.activity;
        if self.answered {
            if self.is_timed {
                counters.http_times[self.timed_with].record(self.since.elapsed());
            }
            answers.set(answers.get() - 1);
        } else {
            handlers.set(handlers.get() - 1);
        }
        self.activity.hold(|held| held.input = 0);
        self.activity.moved();
    }
}

/// A request that is logged, shared by its answer's body and the pieces of it. When all of them are
/// gone, hyper has written them, or has them in a buffer that it flushes next.
pub(crate) struct UntilSent {
    logged: Option<LoggedRequest>,
    activity: Rc<ConnectionActivity>,
}
impl UntilSent {
    pub(crate) fn new(logged: LoggedRequest, activity: &Rc<ConnectionActivity>) -> Rc<UntilSent> {
        Rc::new(UntilSent { logged: Some(logged), activity: activity.clone() })
    }
}
impl Drop for UntilSent {
    fn drop(&mut self) {
        if let Some(logged) = self.logged.take()
            && !self.activity.is_flushed.get()
        {
            self.activity.unflushed.borrow_mut().push(logged);
        }
    }
}

pub(crate) struct Piece {
    bytes: Bytes,
    _logged: Option<Rc<UntilSent>>,
}
impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }
    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }
    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
    }
    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        self.bytes.copy_to_bytes(len)
    }
}

/// A response's body; the request is in work until it is gone.
pub(crate) struct TrackedBody {
    pub(crate) body: ResponseBody,
    pub(crate) work: RequestInWork,
    pub(crate) logged: Option<Rc<UntilSent>>,
}
impl http_body::Body for TrackedBody {
    type Data = Piece;
    type Error = SourceError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, SourceError>>> {
        self.work.activity.moved();
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else { return Poll::Ready(None) };
        let frame = frame.map(|frame| {
            self.work.activity.handed(frame.data_ref().map_or(0, Bytes::len));
            frame.map_data(|bytes| Piece { bytes, _logged: self.logged.clone() })
        });
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The connection as hyper sees it: what was read before comes first, and every event is noted.
pub(crate) struct TrackedStream<S> {
    pub(crate) stream: S,
    pub(crate) read: Bytes,
    pub(crate) activity: Rc<ConnectionActivity>,
}

impl<S: ClientStream> TrackedStream<S> {
    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &result {
            self.activity.wrote(*bytes);
        }
        result
    }
}

impl<S: ClientStream> AsyncRead for TrackedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read.has_remaining() {
            let len = self.read.len().min(free.remaining());
            free.put_slice(&self.read.split_to(len));
            return Poll::Ready(Ok(()));
        }
        let before = free.filled().len();
        if !self.activity.context.holder.poll_room(cx) {
            return Poll::Pending;
        }
        ready!(Pin::new(&mut self.stream).poll_read(cx, free))?;
        self.activity.read(free.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: ClientStream> AsyncWrite for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Hyper flushes whenever the connection's task runs.
        if self.activity.context.client_watch.take() && pin!(self.stream.gone()).poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.activity.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
