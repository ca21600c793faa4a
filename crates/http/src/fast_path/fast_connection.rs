//! A connection on the fast path, and its turns: sends the rest of the output, reads, answers the
//! complete requests, sends.
use crate::{
    compat::{read_routes::ReadRoute, redis_json::Strings},
    connection::{
        closing_response::{LINGER, head_timeout},
        connection_context::ConnectionContext,
        connection_deadlines::{ConnectionDeadline, Verdict},
    },
    messages::{problem_json::Problem, response_body::ResponseBody},
    routing::{access_log::LoggedRequest, request_user::RequestUser},
};
use bytes::Bytes;
use http::Response;
use larder_base::{lifecycle::linger::linger, telemetry::HttpRoute, tls::ClientStream};
use larder_config::Address;
use larder_engine::Wait;
use larder_proto::{http::head::Heads, output::Output};
use larder_redis::lone_gets;
use larder_source::Fetch;
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Instant,
};
use tokio::{io::ReadBuf, task::JoinHandle, time::timeout};

/// Output that is sent before more requests are answered.
pub(super) const ENOUGH: usize = 256 * 1024;
/// Room for part of a request that a connection keeps.
const KEPT: usize = 512;
/// Turns before other connections get theirs.
const TURNS: u32 = 16;

/// Serves a connection until it ends (`None`) or needs the general path: then with what was read
/// and not answered.
pub(crate) async fn serve<S: ClientStream>(
    context: &Rc<ConnectionContext>,
    stream: S,
    deadline: &ConnectionDeadline,
) -> Option<(S, Vec<u8>)> {
    let mut fast = FastConnection {
        context,
        deadline,
        stream,
        heads: Heads::default(),
        input: Vec::new(),
        output: Output::default(),
        scratch: Vec::new(),
        batch: Vec::new(),
        waiting: Vec::new(),
        state: FastState::Idle,
        of_routes: Default::default(),
        written: 0,
        timed_with: HttpRoute::Kv,
        unsent: Vec::new(),
        behind: 0,
        special: 0,
        user: Rc::default(),
    };
    deadline.allow(context.worker.app.live.idle_timeout());
    loop {
        // A socket that fails has no client left to answer.
        match poll_fn(|cx| fast.turn(cx)).await.ok()? {
            Next::SendWaiting => fast.send_waiting().await.ok()?,
            Next::LogIn => fast.log_in().await,
            Next::Handover => {
                fast.flush().await.ok()?;
                return Some((fast.stream, fast.input));
            }
            Next::HeadTimeout => {
                let limit = context.worker.app.live.header_timeout();
                fast.send(head_timeout(limit)).await.ok()?;
                fast.flush().await.ok()?;
                linger(&mut fast.stream, &context.worker.app.drain, LINGER).await;
                return None;
            }
            Next::Cut => {
                fast.cut().await;
                return None;
            }
            Next::Close => {
                // A stream may have taken responses and not sent them yet.
                let _ = timeout(LINGER, poll_fn(|cx| fast.stream.poll_sent(cx))).await;
                return None;
            }
        }
    }
}

enum Next {
    /// Reads wait for the source.
    SendWaiting,
    /// Credentials must be verified.
    LogIn,
    /// The general path goes on.
    Handover,
    /// A client took too long over a head.
    HeadTimeout,
    /// The connection holds too much.
    Cut,
    Close,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FastState {
    /// All input is answered.
    Idle,
    /// Part of a head was read: its time runs.
    InHead,
    /// A head and part of its body were read. The general path waits longer for a body, and has the
    /// words for one that does not come.
    InBody,
    /// `input` may hold whole requests: room in the output ran out before they did.
    Backlog,
    /// `input` begins with a request whose credentials must be verified.
    LogIn,
    /// `input` begins with a request that the general path answers.
    OtherRequest,
}

pub(super) struct FastConnection<'c, S> {
    pub(super) context: &'c ConnectionContext,
    pub(super) deadline: &'c ConnectionDeadline,
    pub(super) stream: S,
    pub(super) heads: Heads,
    pub(super) input: Vec<u8>,
    /// Answers that are not sent, because the socket was full.
    pub(super) output: Output,
    /// Space for the key decoder.
    pub(super) scratch: Vec<u8>,
    pub(super) batch: Vec<Fetch>,
    pub(super) waiting: Vec<WaitingResponse>,
    pub(super) state: FastState,
    /// Requests answered in this turn, not counted yet, by route.
    pub(super) of_routes: [RouteTurn; HttpRoute::FAST],
    /// Bytes that went to the socket.
    pub(super) written: u64,
    /// The route of the latest of them.
    pub(super) timed_with: HttpRoute,
    /// Logged requests whose answers are in the output.
    pub(super) unsent: Vec<LoggedRequest>,
    /// Bytes of output behind answers that are being waited for.
    pub(super) behind: usize,
    /// What is on in this turn that requests must look at.
    pub(super) special: u32,
    /// Who sends the request that is being answered.
    pub(super) user: Rc<RequestUser>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RouteTurn {
    /// Requests that were answered at once.
    pub(super) answered: u32,
    /// Those of them that were hits.
    pub(super) hits: u32,
    pub(super) received: usize,
    /// Bytes of answers at once.
    pub(super) sent: usize,
}

/// An answer that could not be written at once, and the output that comes after it.
pub(super) struct WaitingResponse {
    pub(super) route: ReadRoute,
    pub(super) group: usize,
    pub(super) key: Box<[u8]>,
    pub(super) answer: PendingAnswer,
    pub(super) begun: Instant,
    pub(super) timed_with: HttpRoute,
    pub(super) after: Output,
    /// Logged requests whose answers are in `after`.
    pub(super) logged_after: Vec<LoggedRequest>,
    pub(super) logged: Option<Box<LoggedRequest>>,
}

impl WaitingResponse {
    /// Of this route and key of a group, which is not logged.
    pub(super) fn new(
        (route, group, key): (ReadRoute, usize, &[u8]),
        answer: PendingAnswer,
        (begun, timed_with): (Instant, HttpRoute),
    ) -> WaitingResponse {
        let (after, logged_after, logged) = Default::default();
        WaitingResponse { route, group, key: key.into(), answer, begun, timed_with, after, logged_after, logged }
    }
}

pub(super) enum PendingAnswer {
    /// The source is being asked, for a client that accepts these codings.
    Wait(Wait, Box<[u8]>),
    /// Too large to be encoded under the shard's lock.
    Large(Bytes),
    Write(JoinHandle<Result<Response<ResponseBody>, Problem>>),
    /// The source is being asked for a value, for a client of Redis over HTTP with this address.
    RedisGet(Box<(Wait, Strings, Address)>),
    /// Here already, but not short.
    Ready(Box<Response<ResponseBody>>),
}

impl<S: ClientStream> FastConnection<'_, S> {
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Next>> {
        if self.context.holder.is_cut() {
            return Poll::Ready(Ok(Next::Cut));
        }
        let next = self.take_turns(cx);
        if next.is_pending() {
            self.account();
        }
        next
    }

    fn take_turns(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Next>> {
        let context = self.context;
        let worker = &context.worker;
        for _ in 0..TURNS {
            if !self.output.is_empty() || self.stream.is_unflushed() {
                ready!(self.poll_flush(cx))?;
            }
            if self.state == FastState::OtherRequest || self.context.http.deadlines.draining() && !self.input.is_empty()
            {
                return Poll::Ready(Ok(Next::Handover));
            }
            if self.state == FastState::LogIn {
                return Poll::Ready(Ok(Next::LogIn));
            }
            let buffers = &mut *context.http.turn_buffers.borrow_mut();
            let kept = self.input.len();
            if kept > 0 {
                buffers.input[..kept].copy_from_slice(&self.input);
            }
            let mut filled = kept;
            if self.state != FastState::Backlog {
                let mut free = ReadBuf::new(&mut buffers.input[kept..]);
                match Pin::new(&mut self.stream).poll_read(cx, &mut free) {
                    Poll::Ready(result) => result?,
                    Poll::Pending => return self.at_rest().map(Ok),
                }
                if free.filled().is_empty() {
                    return Poll::Ready(Ok(Next::Close));
                }
                filled += free.filled().len();
                worker.counters.http_bytes_in.add(free.filled().len() as u64);
            }
            let (was, begun) = (self.state, Instant::now());
            // A connection that panicked in its turn may have left its output here.
            buffers.output.clear();
            let answered = self.answer_all(filled, buffers, begun);
            self.input.clear();
            if self.input.capacity() > KEPT {
                self.input = Vec::new();
            }
            if answered < filled {
                self.input.extend_from_slice(&buffers.input[answered..filled]);
            }
            if !self.batch.is_empty() {
                worker.fetch(worker.http_group(), &mut self.batch);
            }
            match self.state {
                state @ (FastState::InHead | FastState::InBody) if was == state && answered == 0 => {}
                FastState::InHead | FastState::InBody => self.deadline.allow(Some(worker.app.live.header_timeout())),
                FastState::Idle | FastState::Backlog | FastState::LogIn | FastState::OtherRequest => {
                    self.deadline.allow(worker.app.live.idle_timeout())
                }
            }
            let sent = self.poll_send(&mut buffers.output, cx);
            if sent.is_pending() {
                self.output.append(&mut buffers.output);
            }
            let took = begun.elapsed();
            for (route, turn) in HttpRoute::ALL.iter().zip(&mut self.of_routes) {
                if turn.received == 0 {
                    continue;
                }
                let RouteTurn { answered, hits, received, sent } = std::mem::take(turn);
                for _ in 0..answered {
                    worker.counters.http_times[*route].record(took);
                }
                if *route == HttpRoute::Redis && answered > 0 {
                    lone_gets::note_took(worker, answered, took);
                }
                worker.counters.http_hits(*route, hits);
                worker.counters.http_routes[*route].received.add(received as u64);
                worker.counters.http_routes[*route].sent.add(sent as u64);
            }
            if let Poll::Ready(result) = sent {
                result?;
            }
            if !self.waiting.is_empty() {
                return Poll::Ready(Ok(Next::SendWaiting));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Verifies the credentials of the next request. The general path says what is wrong with them.
    async fn log_in(&mut self) {
        let (context, header) = (self.context, self.heads.authorization());
        self.state = match context.users.identify(&context.worker, header, context.peer.ip()).await {
            // Where rules count no time at all, the general path asks about each request.
            Ok(_) if context.users.known(header).is_none() => FastState::OtherRequest,
            Ok(_) => FastState::Backlog,
            Err(problem) => {
                context.users.keep_refused(header, problem);
                FastState::OtherRequest
            }
        };
    }

    /// Nothing to read: waits, or ends the connection if its time is over.
    fn at_rest(&self) -> Poll<Next> {
        match self.deadline.verdict() {
            Verdict::Live => Poll::Pending,
            Verdict::Expired if self.state == FastState::InHead => Poll::Ready(Next::HeadTimeout),
            Verdict::Expired if self.state == FastState::InBody => Poll::Ready(Next::Handover),
            // The general path finishes a head that was begun, and says that it closes.
            Verdict::Drain if !self.input.is_empty() => Poll::Ready(Next::Handover),
            Verdict::Expired | Verdict::Drain => Poll::Ready(Next::Close),
        }
    }
}
