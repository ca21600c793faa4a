//! The general path: hyper, over a connection of which some bytes may have been read.
use super::{
    Context, LINGER,
    connection_deadlines::{ConnectionDeadline, Verdict},
    end_with, read_answer,
    response_body::{self, Body},
    router,
};
use crate::{buffers::Holding, lifecycle::linger::linger, source::SourceError, telemetry::Counters};
use bytes::{Buf, Bytes};
use http::{Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use hyper::{
    body::Incoming,
    rt::Executor,
    server::conn::{http1, http2},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    cell::Cell,
    convert::Infallible,
    future::{Future, poll_fn},
    io::{self, IoSlice},
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context as Cx, Poll, ready},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Streams that an HTTP/2 client may have open at once.
const STREAMS: u32 = 128;
/// Time for the last words on a connection that we end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves a connection to its end; `read` was already taken from it.
pub(super) async fn serve(context: Rc<Context>, stream: TcpStream, read: Vec<u8>, watch: Rc<ConnectionDeadline>) {
    let max_headers = context.worker.app.settings.max_headers;
    let header_timeout = context.worker.app.settings.header_timeout;
    // No HTTP/1 method begins like HTTP/2's preface (RFC 9113 section 3.4).
    let is_http2 = read.starts_with(b"PRI");
    let app = context.worker.app.clone();
    let activity = Rc::new(Activity::new(&context, watch, is_http2, !read.is_empty()));
    let io = TokioIo::new(Io { stream, read: read.into(), activity: activity.clone() });
    let service = Service { context, activity: activity.clone() };
    if is_http2 {
        let connection = http2::Builder::new(OnThisCore)
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(u32::try_from(max_headers).unwrap_or(u32::MAX))
            .serve_connection(io, service);
        let mut connection = pin!(connection);
        drive(&activity, |cx, finish| {
            if finish {
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(cx)
        })
        .await;
        return;
    }
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // `Activity` keeps the time: hyper's clock would run on an idle connection, too.
        .header_read_timeout(None)
        // A head that is somewhat too large gets an answer that names the setting; hyper's own has no words.
        .max_buf_size(2 * max_headers)
        .serve_connection(io, service);
    let end = drive(&activity, |cx, finish| {
        if finish {
            Pin::new(&mut connection).graceful_shutdown();
        }
        connection.poll_without_shutdown(cx)
    })
    .await;
    let mut stream = connection.into_parts().io.into_inner().stream;
    match end {
        End::Done => linger(&mut stream, &app.drain, LINGER).await,
        End::Cut => {
            end_with(&mut stream, &app.drain, read_answer::cut(activity.context.worker.app.buffers.limit())).await
        }
        End::HeadTimeout => end_with(&mut stream, &app.drain, read_answer::head_timeout(header_timeout)).await,
        End::Dropped => {}
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Hyper has finished with it.
    Done,
    /// A head took too long.
    HeadTimeout,
    /// It held too much, in a head.
    Cut,
    /// Its time was over.
    Dropped,
}

/// Polls a connection until it is done or out of time; `poll` is called with `true` once, when it should come to an end.
async fn drive(activity: &Activity, mut poll: impl FnMut(&mut Cx<'_>, bool) -> Poll<hyper::Result<()>>) -> End {
    let mut finishing = false;
    let mut finish_now = false;
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(result) = poll(cx, std::mem::take(&mut finish_now)) {
                // Hyper has told the client; other errors are the client's going away.
                if result.is_err_and(|error| error.is_parse()) {
                    activity.counters.http_protocol_errors.add(1);
                }
                return Poll::Ready(End::Done);
            }
            let holder = &activity.context.holder;
            if holder.is_cut() {
                holder.note_cut(activity.context.peer);
                let in_head = activity.in_head.get() && activity.answers.get() == 0;
                return Poll::Ready(if in_head { End::Cut } else { End::Dropped });
            }
            match activity.watch.verdict() {
                Verdict::Live => return Poll::Pending,
                Verdict::Drain if finishing => return Poll::Pending,
                Verdict::Expired if finishing || activity.answers.get() > 0 => return Poll::Ready(End::Dropped),
                Verdict::Expired if activity.in_head.get() => return Poll::Ready(End::HeadTimeout),
                Verdict::Expired => activity.watch.allow(Some(LAST_WORDS)),
                Verdict::Drain => {}
            }
            (finishing, finish_now) = (true, true);
        }
    })
    .await
}

/// What a connection is doing, and how long it may.
///
/// While a handler runs there is no deadline: bodies (`input`) and sources have their own. A head has `header-timeout`
/// altogether. Otherwise, answers being sent or not, something must move within `idle-timeout`.
struct Activity {
    context: Rc<Context>,
    counters: Arc<Counters>,
    watch: Rc<ConnectionDeadline>,
    idle_timeout: Option<Duration>,
    header_timeout: Duration,
    /// Frames come on an idle HTTP/2 connection that are no part of a request, and a client that takes no answer may
    /// still have its pings answered: there, only requests and pieces of answers count.
    is_http2: bool,
    handlers: Cell<u32>,
    answers: Cell<u32>,
    in_head: Cell<bool>,
    held: Cell<Holding>,
    /// What hyper keeps of input at most.
    most_input: usize,
}

impl Activity {
    fn new(context: &Rc<Context>, watch: Rc<ConnectionDeadline>, is_http2: bool, begun: bool) -> Activity {
        let settings = &context.worker.app.settings;
        let activity = Activity {
            context: context.clone(),
            counters: context.worker.counters.clone(),
            watch,
            idle_timeout: settings.idle_timeout,
            header_timeout: settings.header_timeout,
            is_http2,
            handlers: Cell::new(0),
            answers: Cell::new(0),
            in_head: Cell::new(false),
            held: Cell::default(),
            most_input: 4 * settings.max_headers,
        };
        activity.moved();
        if begun {
            activity.head_begins();
        }
        activity
    }

    /// Bytes came in.
    fn read(&self, bytes: usize) {
        self.counters.http_bytes_in.add(bytes as u64);
        // Hyper makes as much room again as it has.
        self.hold(|held| held.input = (held.input + 2 * bytes).min(self.most_input));
        self.head_begins();
    }

    /// Says what the connection holds, as far as that can be seen from outside of hyper: a head, or what of a body was not
    /// taken from it; and pieces of answers that were handed to it and not written.
    fn hold(&self, change: impl FnOnce(&mut Holding)) {
        let mut held = self.held.get();
        change(&mut held);
        self.held.set(held);
        self.context.holder.set(held);
    }

    /// A piece of an answer goes out.
    fn handed(&self, bytes: usize) {
        self.hold(|held| match bytes {
            // No text is this long: it is a reference to a value.
            response_body::REFERENCE.. => held.referred += bytes,
            _ => held.output += bytes,
        });
    }

    fn head_begins(&self) {
        let is_busy = self.handlers.get() + self.answers.get() > 0;
        if !self.is_http2 && !is_busy && !self.in_head.replace(true) {
            self.watch.allow(Some(self.header_timeout));
        }
    }

    /// Bytes went out.
    fn wrote(&self, bytes: usize) {
        self.counters.http_bytes_out.add(bytes as u64);
        self.hold(|held| {
            let rest = bytes.saturating_sub(held.output);
            held.output = held.output.saturating_sub(bytes);
            held.referred = held.referred.saturating_sub(rest);
        });
        if bytes > 0 && !self.is_http2 {
            self.moved();
        }
    }

    /// Something happened: the wait for the next thing begins anew.
    fn moved(&self) {
        if self.handlers.get() == 0 && !self.in_head.get() {
            self.watch.allow(self.idle_timeout);
        }
    }

    /// A request's head has come in; its handler runs until the return value is answered or dropped.
    fn begin(self: &Rc<Self>) -> InWork {
        self.handlers.set(self.handlers.get() + 1);
        self.in_head.set(false);
        self.hold(|held| held.input = 0);
        self.watch.allow(None);
        InWork { activity: self.clone(), since: Instant::now(), answered: false }
    }
}

/// A request in work.
struct InWork {
    activity: Rc<Activity>,
    since: Instant,
    answered: bool,
}
impl InWork {
    /// The handler is done; what it answered remains to be sent.
    fn answered(&mut self, status: StatusCode) {
        let Activity { counters, handlers, answers, .. } = &*self.activity;
        counters.http_answered(status.as_u16());
        handlers.set(handlers.get() - 1);
        answers.set(answers.get() + 1);
        self.answered = true;
        self.activity.moved();
    }
}
impl Drop for InWork {
    fn drop(&mut self) {
        let Activity { counters, handlers, answers, .. } = &*self.activity;
        if self.answered {
            counters.http_seconds.record(self.since.elapsed());
            answers.set(answers.get() - 1);
        } else {
            handlers.set(handlers.get() - 1);
        }
        self.activity.hold(|held| held.input = 0);
        self.activity.moved();
    }
}

/// What hyper calls for each request.
struct Service {
    context: Rc<Context>,
    activity: Rc<Activity>,
}
impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>>>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut work = self.activity.begin();
        let context = self.context.clone();
        Box::pin(async move {
            let response = router::respond(&context, request).await;
            work.answered(response.status());
            Ok(response.map(|body| Answer { body, work }))
        })
    }
}

/// A response's body; the request is in work until it is gone.
struct Answer {
    body: Body,
    work: InWork,
}
impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = SourceError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<Option<Result<Frame<Bytes>, SourceError>>> {
        self.work.activity.moved();
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.work.activity.handed(frame.data_ref().map_or(0, Bytes::len));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Runs HTTP/2's streams beside their connection.
#[derive(Clone)]
struct OnThisCore;
impl<F: Future<Output: 'static> + 'static> Executor<F> for OnThisCore {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// The connection as hyper sees it: what was read before comes first, and every event is noted.
struct Io {
    stream: TcpStream,
    read: Bytes,
    activity: Rc<Activity>,
}

impl Io {
    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &result {
            self.activity.wrote(*bytes);
        }
        result
    }
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Cx<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
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

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Cx<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Cx<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
