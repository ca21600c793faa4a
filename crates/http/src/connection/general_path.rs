//! The general path: hyper, over a connection of which some bytes may have been read.
use super::{
    closing_response::{LINGER, buffers_exceeded, end_with, head_timeout, proxy_header},
    connection_activity::{ConnectionActivity, TrackedBody, TrackedStream, UntilSent},
    connection_context::ConnectionContext,
    connection_deadlines::{ConnectionDeadline, Verdict},
};
use crate::routing::router::{self, Answered};
use http::{Request, Response};
use hyper::{
    body::Incoming,
    rt::Executor,
    server::conn::{http1, http2},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use larder_base::{
    lifecycle::linger::linger,
    tls::{ClientStream, begins_handshake},
};
use larder_proto::proxy_header::begins_header;
use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// Streams that an HTTP/2 client may have open at once.
const STREAMS: u32 = 128;
/// Streams that it may reset before they are looked at; more end the connection (rapid reset,
/// CVE-2023-44487).
const RESETS: usize = 20;
/// Streams that are reset because of its mistakes; more end the connection.
const ERRORS: usize = 256;
/// Time for the last words on a connection that we end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Time in a drain for the rest of a head, or for an HTTP/2 client to confirm the end: the whole
/// process waits for it.
const DRAIN_REST: Duration = Duration::from_millis(200);

/// Serves a connection to its end; `read` was already taken from it.
pub(crate) async fn serve<S: ClientStream>(
    context: Rc<ConnectionContext>,
    stream: S,
    read: Vec<u8>,
    deadline: Rc<ConnectionDeadline>,
) {
    let max_headers = context.worker.app.settings.max_headers;
    let header_timeout = context.worker.app.live.header_timeout();
    // No HTTP/1 method begins like HTTP/2's preface (RFC 9113 section 3.4).
    let is_http2 = stream.speaks_http2() || read.starts_with(b"PRI");
    let app = context.worker.app.clone();
    // No HTTP method begins so.
    if begins_handshake(&read)
        && let Some(left_out) = app.telemetry.handshakes.due(Instant::now())
    {
        tracing::warn!(peer = %context.peer, not_logged = left_out, "TLS on a plain HTTP listener: the client should connect to an https address");
    }
    if begins_header(&read) {
        let mut stream = stream;
        if let Some(left_out) = app.telemetry.proxy_headers.due(Instant::now()) {
            tracing::warn!(peer = %context.peer, not_logged = left_out, "closed a connection to an HTTP port: a PROXY header arrived from an address that is not to send one");
        }
        context.worker.counters.http_protocol_errors.add(1);
        let peer = context.peer.ip();
        let response = proxy_header(app.settings.proxies.trusts(peer), peer);
        return end_with(&mut stream, &app.drain, response).await;
    }
    let activity = Rc::new(ConnectionActivity::new(&context, deadline, is_http2, read.len(), stream.buffered()));
    let io = TokioIo::new(TrackedStream { stream, read: read.into(), activity: activity.clone() });
    let service = RouterService { context, activity: activity.clone() };
    if is_http2 {
        let connection = http2::Builder::new(OnThisCore)
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_pending_accept_reset_streams(RESETS)
            .max_local_error_reset_streams(ERRORS)
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
        // `ConnectionActivity` keeps the time: hyper's clock would run on an idle connection, too.
        .header_read_timeout(None)
        // A head that is somewhat too large gets an answer that names the setting; hyper's own has no words.
        .max_buf_size(2 * max_headers)
        // A client may close its sending side behind its last request.
        .half_close(true)
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
            end_with(&mut stream, &app.drain, buffers_exceeded(activity.context.worker.app.buffers.limit())).await
        }
        End::HeadTimeout => end_with(&mut stream, &app.drain, head_timeout(header_timeout)).await,
        End::Dropped => {}
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Hyper has finished with it.
    Done,
    HeadTimeout,
    /// It held too much, in a head.
    Cut,
    /// Its time was over.
    Dropped,
}

/// Polls a connection until it is done or out of time; `poll` is called with `true` once, when it
/// should come to an end.
async fn drive(
    activity: &ConnectionActivity,
    mut poll: impl FnMut(&mut Context<'_>, bool) -> Poll<hyper::Result<()>>,
) -> End {
    let mut finishing = false;
    let mut finish_now = false;
    // Since when a drain waits for this client alone.
    let mut waits_since = None;
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
                holder.note_cut(&activity.context.peer);
                let in_head = activity.in_head.get() && activity.answers.get() == 0;
                return Poll::Ready(if in_head { End::Cut } else { End::Dropped });
            }
            match activity.deadline.verdict() {
                Verdict::Live => return Poll::Pending,
                // A draining connection is polled at every tick.
                Verdict::Drain if finishing => {
                    if activity.is_busy() {
                        waits_since = None;
                    } else if waits_since.get_or_insert_with(Instant::now).elapsed() >= DRAIN_REST {
                        return Poll::Ready(End::Dropped);
                    }
                    return Poll::Pending;
                }
                Verdict::Expired if finishing || activity.answers.get() > 0 => return Poll::Ready(End::Dropped),
                Verdict::Expired if activity.in_head.get() => return Poll::Ready(End::HeadTimeout),
                Verdict::Expired => activity.deadline.allow(Some(LAST_WORDS)),
                Verdict::Drain => {}
            }
            (finishing, finish_now) = (true, true);
        }
    })
    .await
}

/// What hyper calls for each request.
struct RouterService {
    context: Rc<ConnectionContext>,
    activity: Rc<ConnectionActivity>,
}
impl hyper::service::Service<Request<Incoming>> for RouterService {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<TrackedBody>, Infallible>>>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut work = self.activity.begin();
        let context = self.context.clone();
        Box::pin(async move {
            let Answered { response, timed_with, logged } = router::respond(&context, request).await;
            work.answered(response.status(), response.body(), timed_with);
            // The line about a stream that goes on is written when it begins.
            let logged = logged.filter(|_| !response.body().is_endless());
            let logged = logged.map(|logged| UntilSent::new(logged, work.activity()));
            Ok(response.map(|body| TrackedBody { body, work, logged }))
        })
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
