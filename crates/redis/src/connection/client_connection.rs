//! One client's connection without its socket: commands in, replies out, in order. The rules for
//! pipelines are here.
//!
//! ```text
//! input ─► plain GETs in a row ─► hit: reply, miss: waiting read
//! input ─► plain SETs in a row ─► reply
//! input ─► parse ─► begin ─┬─ hit, write, …: reply ─► out, or behind the last waiting read
//!                          ├─ miss: waiting read ────► queue ─ front resolves ─► out
//!                          │        its fetches ─────► batch ─ end of `process` ─► source
//!                          ├─ forward ──────────────► queue, with others: sent at the end of `process` ─► source,
//!                          │                                or begun at the front of the queue ─► store
//!                          └─ alone, behind ─► stops here until everything before it is answered
//! ```
use crate::{
    Command, CommandAccess, Flow, Outstanding, PendingRead, Session,
    connection::refused_commands::{has_room, no_room_error, refused_error},
    foreign_protocol::ForeignProtocol,
    plain_gets::GetReplies,
    waiting_replies::{WaitingKind, WaitingReply, Waits},
};
use larder_base::{
    buffers::{ClientProtocol, HeldBytes},
    special::Special,
    telemetry::Counters,
    tls::{ClientStream, begins_handshake},
};
use larder_config::Address;
use larder_core::{
    app::Worker,
    clients::Client,
    connection::{self, BufferPool, ByteCounters, CommandInput, JUDGED, MAX_DUE, Protocol, TURN},
    gate::{self, Door},
};
use larder_engine::Millis;
use larder_proto::{
    output::Output,
    proxy_header::begins_header,
    resp::{Limits, Parsed, Parser},
};
use larder_ring::replica::ReplicaRequest;
use larder_source::Fetch;
use larder_store::clock;
use std::{
    collections::VecDeque,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

/// Capacity for waiting replies that is kept between batches.
const KEPT_QUEUE: usize = 64;

/// Serves a connection until it ends.
pub async fn serve<S: ClientStream>(
    worker: Rc<Worker>,
    pool: Rc<BufferPool>,
    stream: S,
    ends: (Address, Address),
    access: Arc<CommandAccess>,
) {
    let of = worker.clone();
    let begin = |client, user: Option<&str>| ClientConnection::with_certificate(&of, client, access, user);
    connection::serve(worker, pool, stream, ends, begin).await;
}

/// One client's connection, without the socket.
pub struct ClientConnection {
    /// The client as other clients see it.
    pub client: Arc<Client>,
    /// The bytes that the client has sent.
    pub input: CommandInput,
    /// The bytes to send to the client.
    pub out: Output,
    pub(super) session: Session,
    parser: Parser,
    limits: Limits,
    queue: VecDeque<WaitingReply>,
    /// Bytes in the `after` outputs of the queue.
    held: usize,
    /// Length of the command that `run_alone` will run. It is still at the front of the input.
    alone: usize,
    max_pipeline: usize,
    /// [`MAX_DUE`], or less when buffers are short.
    max_due: usize,
}

impl ClientConnection {
    /// The state of a newly accepted connection.
    pub fn new(worker: &Worker, client: Arc<Client>, access: Arc<CommandAccess>) -> ClientConnection {
        ClientConnection::with_certificate(worker, client, access, None)
    }
    /// Like `new`, for a client that has shown a certificate of this user.
    pub fn with_certificate(
        worker: &Worker,
        client: Arc<Client>,
        access: Arc<CommandAccess>,
        user: Option<&str>,
    ) -> ClientConnection {
        let mut session = Session::new(worker, client.clone(), access);
        session.show_certificate(worker, user);
        let settings = &worker.app.settings;
        ClientConnection {
            session,
            input: CommandInput::default(),
            out: Output::default(),
            parser: Parser::default(),
            limits: Limits::new(settings.max_value).within(settings.max_buffers),
            queue: VecDeque::new(),
            held: 0,
            alone: 0,
            max_pipeline: settings.max_pipeline.max(1),
            max_due: MAX_DUE,
            client,
        }
    }

    fn begin_all(&mut self, worker: &Worker, now: Millis, batch: &mut Vec<Fetch>) -> Flow {
        self.session.begin_turn();
        let mut begun = 0;
        let mut judge_again = JUDGED;
        let mut prefetched = 0;
        while begun < TURN {
            if begun >= judge_again {
                worker.judge();
                judge_again = begun + JUDGED;
            }
            if self.is_full() {
                return Flow::Full;
            }
            if self.input.unread().is_empty() {
                return Flow::Input { more: 1 };
            }
            let plain = self.begin_plain(worker, now, batch);
            if plain > 0 {
                begun += plain;
                continue;
            }
            if prefetched == 0 && self.parser.is_fresh() {
                prefetched = crate::key_prefetch::prefetch(worker, self.input.unread()).max(1);
            }
            prefetched = prefetched.saturating_sub(1);
            begun += 1;
            self.limits.authenticated = self.session.authenticated;
            let (out, last, counted) = match self.queue.back_mut() {
                None => (&mut self.out, None, None),
                Some(WaitingReply { what, after }) => {
                    let (is_last, counted) = (after.is_empty(), what.bytes() + after.len());
                    (after, Some((what, is_last)), Some(counted))
                }
            };
            let mut waits = Waits::new(batch, last);
            let is_first = counted.is_none();
            let foreign = |protocol: ForeignProtocol, out| protocol.refuse(worker, &self.client, out, is_first);
            let (flow, consumed) = match self.parser.parse(self.input.unread(), &self.limits) {
                // No part of a command, and the end of a line may never come: the client waits for an answer.
                Ok(Parsed::Incomplete { .. }) | Err(_) if begins_handshake(self.input.unread()) => {
                    (foreign(ForeignProtocol::Tls, out), 0)
                }
                Ok(Parsed::Incomplete { more }) => return Flow::Input { more },
                Err(error) => {
                    worker.counters.redis_protocol_errors.add(1);
                    error.reply(out);
                    (Flow::Close, 0)
                }
                Ok(Parsed::Command { consumed }) => {
                    let args = self.parser.args(self.input.unread());
                    let flow = if args.is_empty() {
                        // The first line of a binary header is empty.
                        if begins_header(self.input.unread()) {
                            foreign(ForeignProtocol::Proxy, out)
                        } else {
                            Flow::Done
                        }
                    } else if worker.is_on(Special::Pause) && crate::waits_for_pause(worker, &self.session, &args, now)
                    {
                        return Flow::Paused;
                    } else if gate::has_rules(worker)
                        && let Err(refused) = crate::enter(worker, &self.client, args)
                    {
                        crate::refuse(worker, &mut self.session, &args, refused_error(&refused), out)
                    } else if !has_room(worker, consumed) {
                        crate::refuse(worker, &mut self.session, &args, no_room_error(worker, consumed), out)
                    } else {
                        crate::begin(worker, &mut self.session, &args, now, out, &mut waits)
                    };
                    (flow, consumed)
                }
            };
            let new = waits.new;
            if let (Some(counted), Some(last)) = (counted, self.queue.back()) {
                self.held += last.what.bytes() + last.after.len() - counted;
            }
            if let Some((what, outstanding)) = new {
                self.held += what.bytes();
                self.queue.push_back(WaitingReply { what, after: Output::default() });
                self.session.set_outstanding(outstanding);
            }
            match flow {
                Flow::Done | Flow::Waits | Flow::Paused => self.input.consume(consumed),
                Flow::Alone(_) => {
                    self.alone = consumed;
                    return flow;
                }
                Flow::Behind => return flow,
                Flow::Close | Flow::Replicate | Flow::Full | Flow::Input { .. } => {
                    self.input.consume(consumed);
                    return flow;
                }
            }
        }
        Flow::Done
    }

    /// Begins the plain GETs or SETs at the front of the input. Returns their number.
    #[inline]
    fn begin_plain(&mut self, worker: &Worker, now: Millis, batch: &mut Vec<Fetch>) -> usize {
        if !self.parser.is_fresh() {
            return 0;
        }
        let mut replies = RunReplies {
            counted: self.queue.back().map_or(0, |last| last.after.len()),
            out: &mut self.out,
            queue: &mut self.queue,
            held: &mut self.held,
            max_due: self.max_due,
            max_waiting: self.max_pipeline,
        };
        let gets = crate::plain_gets::begin(worker, &mut self.session, self.input.unread(), now, &mut replies, batch);
        if gets.commands == 0 {
            let out = replies.output();
            let sets = crate::plain_sets::begin(worker, &mut self.session, self.input.unread(), now, out);
            self.input.consume(sets.consumed);
            return sets.commands;
        }
        replies.count();
        self.session.end_gets(worker, (gets.commands - gets.waiting) as u32, self.input.unread());
        self.input.consume(gets.consumed);
        if gets.waiting > 0 {
            self.session.set_outstanding(Outstanding::Reads);
        }
        gets.commands
    }

    /// Sends the commands that this turn has added. They come after all replies that were waiting
    /// before.
    fn send_forwarded(&mut self, worker: &Worker, already: usize) {
        for waiting in self.queue.range_mut(already..) {
            if let WaitingKind::ClientPipeline(together) = &mut waiting.what {
                together.send(worker, &self.session);
            }
        }
    }
}

impl Protocol for ClientConnection {
    type Alone = &'static Command;
    const NAME: &'static str = "Redis";
    const DOOR: Door = Door::Redis;
    const BUFFERS: ClientProtocol = ClientProtocol::Redis;

    fn counters(counters: &Counters) -> ByteCounters<'_> {
        ByteCounters { bytes_in: &counters.redis_bytes_in, bytes_out: &counters.redis_bytes_out }
    }
    fn error(text: &str) -> String {
        format!("-ERR {text}\r\n")
    }
    fn client(&self) -> &Arc<Client> {
        &self.client
    }
    #[inline]
    fn input(&mut self) -> &mut CommandInput {
        &mut self.input
    }
    #[inline]
    fn out(&mut self) -> &mut Output {
        &mut self.out
    }
    fn process(&mut self, worker: &Worker, pool: &BufferPool, now: Millis) -> Flow {
        let batch = &mut *pool.batch.borrow_mut();
        self.max_due = worker.app.buffers.allowance(worker.id).min(MAX_DUE);
        let already = self.queue.len();
        let flow = self.begin_all(worker, now, batch);
        self.session.end_turn(worker);
        self.send_forwarded(worker, already);
        if !batch.is_empty() {
            worker.fetch(worker.groups.default(), batch);
        }
        flow
    }

    async fn run_alone(&mut self, worker: &Worker, command: &'static Command) -> Flow {
        debug_assert!(self.queue.is_empty());
        let args = self.parser.args(self.input.unread());
        let flow = crate::run(worker, &mut self.session, (command, &args), &mut self.out).await;
        self.input.consume(std::mem::take(&mut self.alone));
        flow
    }

    fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    fn poll_waiting(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Poll<()> {
        let mut progress = Poll::Pending;
        let mut now = None;
        while let Some(front) = self.queue.front_mut() {
            let ended = match &mut front.what {
                WaitingKind::Read(read) => read.poll(worker, &mut now, cx),
                WaitingKind::ClientPipeline(together) => together.poll(worker, &mut self.session, cx),
            };
            if ended.is_pending() {
                break;
            }
            let mut done = self.queue.pop_front().expect("its front was just polled");
            match done.what {
                WaitingKind::Read(read) => read.reply(worker, &mut self.session, &mut self.out),
                WaitingKind::ClientPipeline(together) => {
                    self.held -= together.bytes();
                    together.reply(worker, &mut self.session, &mut self.out);
                }
            }
            self.held -= done.after.len();
            self.out.append(&mut done.after);
            progress = Poll::Ready(());
        }
        if self.queue.is_empty() && progress.is_ready() {
            self.session.set_outstanding(Outstanding::Nothing);
            if self.queue.capacity() > KEPT_QUEUE {
                self.queue.shrink_to(KEPT_QUEUE);
            }
        }
        progress
    }

    #[inline]
    fn holding(&self) -> HeldBytes {
        self.session.release_room();
        // A command that runs alone is copied: for the source, and its keys for the tier.
        let mut holding = HeldBytes {
            input: self.input.owned() + self.parser.owned() + self.session.owned() + self.alone,
            output: self.out.owned(),
            referred: self.out.referred(),
        };
        for waiting in &self.queue {
            holding.output += waiting.owned();
            holding.referred += waiting.referred();
        }
        holding
    }

    fn owes_nothing(&self) -> bool {
        self.out.is_empty() && self.queue.is_empty()
    }

    fn is_full(&self) -> bool {
        self.out.len() + self.held >= self.max_due || self.queue.len() >= self.max_pipeline
    }

    fn has_upstream_state(&self) -> bool {
        self.session.has_upstream_state()
    }
    fn poll_upstream(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Poll<bool> {
        self.session.note_changed_users(worker, clock::now());
        let out = if self.is_full() { None } else { Some(&mut self.out) };
        self.session.poll_pushes(cx, out).map(|pushed| {
            // A dedicated connection is lost, so the client's connection must end.
            if pushed.is_err() && self.session.exceeded_backlog() {
                worker.app.tables.backlog.note_cut_off();
            }
            pushed.is_ok()
        })
    }
    fn take_pushes(&mut self, worker: &Worker) {
        // The rules say of which keys the client may hear.
        self.session.note_changed_users(worker, clock::now());
        match self.queue.back_mut() {
            None => self.session.deliver(&mut self.out),
            Some(last) => {
                let already = last.after.len();
                self.session.deliver(&mut last.after);
                self.held += last.after.len() - already;
            }
        }
    }
    fn tell_to_move(&mut self, worker: &Worker) {
        self.session.tell_to_move(worker, &mut self.out);
    }
    fn take_replica(&mut self) -> Option<Box<ReplicaRequest>> {
        self.session.replica.take()
    }
}

/// Takes the replies to a run of plain GETs: into the output, or behind the last waiting reply.
struct RunReplies<'c> {
    out: &'c mut Output,
    queue: &'c mut VecDeque<WaitingReply>,
    /// Bytes in the `after` outputs of the queue.
    held: &'c mut usize,
    /// The run stops when so many bytes are due, or so many replies wait.
    max_due: usize,
    max_waiting: usize,
    /// Bytes behind the last waiting reply that `held` counts already.
    counted: usize,
}
impl<'c> RunReplies<'c> {
    /// No more replies come for now: counts those behind the last waiting one.
    fn count(&mut self) {
        if let Some(last) = self.queue.back() {
            *self.held += last.after.len() - self.counted;
            self.counted = last.after.len();
        }
    }
}
impl GetReplies for RunReplies<'_> {
    fn output(&mut self) -> (&mut Output, usize) {
        let room = self.max_due.saturating_sub(self.out.len() + *self.held);
        let out = self.queue.back_mut().map_or(&mut *self.out, |last| &mut last.after);
        let enough = out.len() + room;
        (out, enough)
    }
    fn wait(&mut self, read: PendingRead) -> bool {
        self.count();
        self.queue.push_back(WaitingReply { what: WaitingKind::Read(read), after: Output::default() });
        self.counted = 0;
        self.queue.len() < self.max_waiting
    }
}
