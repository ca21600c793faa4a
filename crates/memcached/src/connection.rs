//! One client's connection without its socket: requests in, replies out, in order.
use crate::{
    edits::{Outcome, What, Write},
    exptime::Expires,
    flush::{self, PendingFlush},
    login, meta_replies,
    reads::Reader,
    replies,
    session::Session,
    slow_commands, source_writes, stats,
    waiting_reads::{Replies, WaitingRead},
    writes::{self, ReplyForm, WriteCommand},
};
use larder_base::{
    buffers::{ClientProtocol, HeldBytes},
    special::Special,
    telemetry::{Counters, RecordedOperation},
    tls::{ClientStream, begins_handshake},
};
use larder_config::Address;
use larder_core::{
    app::Worker,
    clients::Client,
    connection::{self, BufferPool, ByteCounters, CommandInput, Flow, JUDGED, MAX_DUE, Protocol, TURN},
    gate::{self, Door},
    read::Group,
};
use larder_engine::Millis;
use larder_proto::{
    memcached::{Limits, Login, Meta, MetaCommand, Parser, Request, Step, StoreMode, keys_ahead},
    output::Output,
};
use larder_source::{ClientMark, Fetch};
use larder_store::clock;
use std::{
    collections::VecDeque,
    future::Future as _,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

/// The first byte of memcached's binary protocol.
const BINARY: u8 = 0x80;

/// Serves a connection until it ends.
pub async fn serve<S: ClientStream>(
    worker: Rc<Worker>,
    pool: Rc<BufferPool>,
    flush: Arc<PendingFlush>,
    stream: S,
    ends: (Address, Address),
) {
    let of = worker.clone();
    let begin = |client, user: Option<&str>| MemcachedConnection::new(&of, client, user, flush);
    connection::serve(worker, pool, stream, ends, begin).await;
}

/// One client's connection, without the socket.
pub struct MemcachedConnection {
    session: Session,
    /// The bytes that the client has sent.
    pub input: CommandInput,
    /// The bytes to send to the client.
    pub out: Output,
    parser: Parser,
    limits: Limits,
    queue: VecDeque<WaitingRead>,
    /// Bytes in the `after` outputs of the queue.
    held: usize,
    /// A read of the command at the front of the queue has failed: its other values are left out.
    has_failed: bool,
    /// Length of the command that runs alone. It is still at the front of the input.
    alone: usize,
    max_waiting: usize,
    /// [`MAX_DUE`], or less when buffers are short.
    max_due: usize,
    flush: Arc<PendingFlush>,
}

/// What a request comes to.
enum Next {
    Done,
    Alone,
    Close,
}

impl MemcachedConnection {
    /// The state of a newly accepted connection.
    pub fn new(
        worker: &Worker,
        client: Arc<Client>,
        certificate: Option<&str>,
        flush: Arc<PendingFlush>,
    ) -> MemcachedConnection {
        let settings = &worker.app.settings;
        MemcachedConnection {
            session: Session::new(worker, client, certificate),
            input: CommandInput::default(),
            out: Output::default(),
            parser: Parser::default(),
            limits: Limits { max_value: settings.max_value.min(settings.max_buffers / 2) },
            queue: VecDeque::new(),
            held: 0,
            has_failed: false,
            alone: 0,
            max_waiting: settings.max_pipeline.max(1),
            max_due: MAX_DUE,
            flush,
        }
    }

    fn begin_all(&mut self, worker: &Worker, now: Millis, batch: &mut Vec<Fetch>) -> Flow<()> {
        let group = worker.groups.default();
        let is_tier_alone = group.is_tier_alone() && !worker.app.replication.is_read_only();
        let (mut begun, mut judge_again, mut prefetched) = (0, JUDGED, 0);
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
            if self.session.must_log_in {
                match self.begin_login(worker) {
                    Flow::Done => continue,
                    flow => return flow,
                }
            }
            if prefetched == 0 && self.parser.is_fresh() {
                let ahead = keys_ahead(self.input.unread());
                prefetched = if group.is_tier_alone() { group.prefetch_ahead(ahead).max(1) } else { 1 };
            }
            prefetched = prefetched.saturating_sub(1);
            begun += 1;
            let mut replies = Replies::new(&mut self.out, &mut self.queue, &mut self.held);
            let (next, consumed) = match self.parser.parse(self.input.unread(), &self.limits) {
                Step::More(more) => {
                    let input = self.input.unread();
                    if !(begins_handshake(input) || input.first() == Some(&BINARY)) {
                        return Flow::Input { more };
                    }
                    refuse_foreign(worker, &self.session.client, input, replies.output());
                    (Next::Close, input.len())
                }
                Step::Skip(bytes) => (Next::Done, bytes),
                Step::Close => {
                    let input = self.input.unread();
                    refuse_foreign(worker, &self.session.client, input, replies.output());
                    (Next::Close, input.len())
                }
                Step::Refused { consumed, .. } if matches!(self.input.unread().first(), Some(&BINARY | &0x16)) => {
                    refuse_foreign(worker, &self.session.client, self.input.unread(), replies.output());
                    (Next::Close, consumed)
                }
                Step::Refused { line, is_quiet, consumed } => {
                    worker.counters.memcached_errors.add(1);
                    if !is_quiet {
                        replies::line(replies.output(), line);
                    }
                    (Next::Done, consumed)
                }
                Step::TooLarge { request, is_quiet, consumed } => {
                    worker.counters.memcached_errors.add(1);
                    let line = match self.session.check(worker, &request, &key_of(&request)) {
                        Ok(()) if is_tier_alone => {
                            writes::forget_unstored(group, &request, now);
                            replies::TOO_LARGE.to_owned()
                        }
                        Ok(()) => replies::TOO_LARGE.to_owned(),
                        Err(line) => line,
                    };
                    if !is_quiet {
                        replies::line(replies.output(), &line);
                    }
                    (Next::Done, consumed)
                }
                Step::Request(request, consumed) => {
                    let since = worker.is_on(Special::SlowLog).then(Instant::now);
                    let reader = Reader { worker, group, now, batch: &mut *batch, is_tier_alone, since };
                    let next = begin(reader, &self.session, &self.flush, &request, &mut replies);
                    if let (Some(since), Next::Done) = (since, &next) {
                        slow_commands::note(worker, &self.session.client, slow_commands::shown(&request), since);
                    }
                    (next, consumed)
                }
            };
            replies.end();
            match next {
                Next::Done => self.input.consume(consumed),
                Next::Alone => {
                    self.alone = consumed;
                    return Flow::Alone(());
                }
                Next::Close => {
                    self.input.consume(consumed);
                    return Flow::Close;
                }
            }
        }
        Flow::Done
    }

    /// The client has to log in before anything else.
    #[cold]
    fn begin_login(&mut self, worker: &Worker) -> Flow<()> {
        match self.parser.parse_login(self.input.unread()) {
            Login::More(more) => return Flow::Input { more },
            Login::Close => {
                refuse_foreign(worker, &self.session.client, self.input.unread(), &mut self.out);
                return Flow::Close;
            }
            Login::Refused(line, consumed) => {
                worker.counters.memcached_errors.add(1);
                replies::line(&mut self.out, line);
                self.input.consume(consumed);
            }
            Login::Credentials(name, password, consumed) => {
                match login::check(worker, &mut self.session, name, password) {
                    login::Login::Answered(line) => replies::line(&mut self.out, &line),
                    login::Login::Compare(_) => {
                        self.alone = consumed;
                        return Flow::Alone(());
                    }
                }
                self.input.consume(consumed);
            }
        }
        Flow::Done
    }

    async fn log_in_alone(&mut self, worker: &Worker) {
        let Login::Credentials(name, password, _) = self.parser.parse_login(self.input.unread()) else { return };
        let line = match login::check(worker, &mut self.session, name, password) {
            login::Login::Answered(line) => line,
            login::Login::Compare(user) => login::compare(worker, &mut self.session, user, password).await,
        };
        replies::line(&mut self.out, &line);
    }
}

impl Protocol for MemcachedConnection {
    type Alone = ();
    const NAME: &'static str = "memcached";
    const DOOR: Door = Door::Memcached;
    const BUFFERS: ClientProtocol = ClientProtocol::Memcached;

    fn counters(counters: &Counters) -> ByteCounters<'_> {
        ByteCounters { bytes_in: &counters.memcached_bytes_in, bytes_out: &counters.memcached_bytes_out }
    }
    fn error(text: &str) -> String {
        format!("SERVER_ERROR {text}\r\n")
    }
    fn client(&self) -> &Arc<Client> {
        &self.session.client
    }
    #[inline]
    fn input(&mut self) -> &mut CommandInput {
        &mut self.input
    }
    #[inline]
    fn out(&mut self) -> &mut Output {
        &mut self.out
    }

    fn process(&mut self, worker: &Worker, pool: &BufferPool, now: Millis) -> Flow<()> {
        let batch = &mut *pool.batch.borrow_mut();
        self.max_due = worker.app.buffers.allowance(worker.id).min(MAX_DUE);
        self.session.note_changed_users(worker);
        if self.session.is_login_over(now) {
            return Flow::Close;
        }
        let flow = self.begin_all(worker, now, batch);
        if !batch.is_empty() {
            worker.fetch(worker.groups.default(), batch);
        }
        flow
    }

    async fn run_alone(&mut self, worker: &Worker, (): ()) -> Flow<()> {
        if self.session.must_log_in {
            self.log_in_alone(worker).await;
        } else if let Step::Request(request, _) = self.parser.parse(self.input.unread(), &self.limits) {
            let since = worker.app.telemetry.slow.is_on().then(Instant::now);
            run_alone(worker, &request, &mut self.out).await;
            if let Some(since) = since {
                slow_commands::note(worker, &self.session.client, slow_commands::shown(&request), since);
            }
        }
        self.input.consume(std::mem::take(&mut self.alone));
        Flow::Done
    }

    fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    fn poll_waiting(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Poll<()> {
        let mut progress = Poll::Pending;
        while let Some(front) = self.queue.front_mut() {
            let Poll::Ready(outcome) = Pin::new(&mut front.wait).poll(cx) else { break };
            let Some(mut done) = self.queue.pop_front() else { break };
            if self.has_failed {
                // The value is left out.
            } else if !replies::may_grow(worker, self.out.owned()) {
                replies::no_room(worker, &mut self.out);
                self.has_failed = true;
            } else if let Err(line) = done.write(worker, outcome, &mut self.out) {
                worker.counters.memcached_errors.add(1);
                replies::line(&mut self.out, &line);
                self.has_failed = true;
            }
            if let Some(since) = done.since {
                slow_commands::note(worker, &self.session.client, ("get", done.wait.key()), since);
            }
            self.held -= done.after.len();
            if self.has_failed {
                // What the failed command would have answered is left out.
                let of_command = done.command_ends.unwrap_or(done.after.len());
                done.after.advance(of_command);
                self.has_failed = done.command_ends.is_none();
            }
            self.out.append(&mut done.after);
            progress = Poll::Ready(());
        }
        progress
    }

    #[inline]
    fn holding(&self) -> HeldBytes {
        let mut holding = HeldBytes {
            input: self.input.owned() + self.alone,
            output: self.out.owned(),
            referred: self.out.referred(),
        };
        for waiting in &self.queue {
            holding.output += waiting.owned();
            holding.referred += waiting.after.referred();
        }
        holding
    }

    fn owes_nothing(&self) -> bool {
        self.out.is_empty() && self.queue.is_empty()
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.out.len() + self.held >= self.max_due || self.queue.len() >= self.max_waiting
    }
}

/// Begins a request: answers it, or says that it must run alone.
#[inline]
fn begin(
    mut reader: Reader<'_>,
    session: &Session,
    flush: &PendingFlush,
    request: &Request<'_>,
    replies: &mut Replies<'_>,
) -> Next {
    let (worker, group, now) = (reader.worker, reader.group, reader.now);
    if !session.passes(worker)
        && let Err(line) = session.check(worker, request, &key_of(request))
    {
        worker.counters.memcached_errors.add(1);
        replies::line(replies.output(), &line);
        return Next::Done;
    }
    match request {
        Request::Get { keys, with_version, exptime: None } => {
            reader.get(*keys, *with_version, replies);
            return Next::Done;
        }
        Request::Store(store) if store.mode == StoreMode::Set && reader.is_tier_alone => {
            worker.counters.memcached_sets.add(1);
            note_write(worker, group, store.key, RecordedOperation::Set(store.value.len()));
            let mark = ClientMark::of_flags(store.flags).encode();
            let stored = writes::set_here(group, store.key, store.value, mark, Expires::of(store.exptime, now), now);
            if !store.is_quiet {
                replies::line(replies.output(), if stored.is_ok() { "STORED" } else { replies::TOO_LARGE });
            }
            return Next::Done;
        }
        _ => {}
    }
    begin_other(reader, flush, request, replies)
}

/// The decoded key of a meta command, for the check of rights.
fn key_of(request: &Request<'_>) -> meta_replies::Key {
    match request {
        Request::Meta(meta) => meta_replies::key_of(meta).unwrap_or_default(),
        _ => meta_replies::Key::new(),
    }
}

fn begin_other(mut reader: Reader<'_>, flush: &PendingFlush, request: &Request<'_>, replies: &mut Replies<'_>) -> Next {
    let (worker, group, now) = (reader.worker, reader.group, reader.now);
    let counters = &worker.counters;
    let others = || counters.memcached_others.add(1);
    match request {
        Request::Version => {
            others();
            replies::line(replies.output(), &format!("VERSION {}", stats::VERSION));
            return Next::Done;
        }
        Request::Quit => return Next::Close,
        Request::MetaNothing => {
            others();
            replies::line(replies.output(), "MN");
            return Next::Done;
        }
        Request::Verbosity { is_quiet } => {
            others();
            if !is_quiet {
                replies::line(replies.output(), "OK");
            }
            return Next::Done;
        }
        Request::Stats(what) => {
            others();
            if !stats::write(worker, what, replies.output()) {
                replies::line(replies.output(), "ERROR");
            }
            return Next::Done;
        }
        Request::Flush { delay, is_quiet } => {
            if worker.app.replication.is_read_only() {
                counters.memcached_errors.add(1);
                if !is_quiet {
                    replies::line(replies.output(), replies::READ_ONLY);
                }
                return Next::Done;
            }
            if *delay <= 0 {
                flush.cancel();
                return Next::Alone;
            }
            counters.memcached_flushes.add(1);
            let moment = match Expires::of(*delay, now) {
                Expires::At(at) => at.saturating_sub(now).div_ceil(1000),
                Expires::Default | Expires::Past => 0,
            };
            flush.later(worker, moment);
            if !is_quiet {
                replies::line(replies.output(), "OK");
            }
            return Next::Done;
        }
        Request::Get { keys, with_version, exptime: Some(exptime) } => {
            if !reader.is_tier_alone {
                return Next::Alone;
            }
            get_and_touch(&mut reader, *keys, Expires::of(*exptime, now), *with_version, replies.output());
            return Next::Done;
        }
        Request::Meta(meta) if meta.command == MetaCommand::Debug => {
            others();
            match meta_replies::key_of(meta) {
                Some(key) => reader.meta_debug(meta, &key, replies.output()),
                None => replies::line(replies.output(), writes::bad_key(meta)),
            }
            return Next::Done;
        }
        _ => {}
    }
    let command = match WriteCommand::of(request, now) {
        Ok(Some(command)) => command,
        Ok(None) => {
            let Request::Meta(meta) = request else { return Next::Done };
            return begin_meta_get(reader, meta, replies);
        }
        Err(line) => {
            counters.memcached_errors.add(1);
            replies::line(replies.output(), line);
            return Next::Done;
        }
    };
    if !reader.is_tier_alone {
        return Next::Alone;
    }
    count(worker, group, &command);
    let outcome = writes::write_here(group, &command, now, replies.output());
    count_outcome(worker, &command, outcome);
    Next::Done
}

/// `mg` without flags that change the entry.
fn begin_meta_get(mut reader: Reader<'_>, meta: &Meta<'_>, replies: &mut Replies<'_>) -> Next {
    let Some(key) = meta_replies::key_of(meta) else {
        replies::line(replies.output(), writes::bad_key(meta));
        return Next::Done;
    };
    if !reader.meta_get(meta, &key, replies) {
        let what = What::Claim { vivify: None, recache_at: None, expires: None };
        let write = Write { what, if_version: None, new_version: None };
        let command = WriteCommand { key, write, form: ReplyForm::Meta(*meta) };
        reader.worker.counters.memcached_gets.add(1);
        writes::write_here(reader.group, &command, reader.now, replies.output());
    }
    Next::Done
}

/// `gat` and `gats`, where the tier is the only store.
fn get_and_touch(
    reader: &mut Reader<'_>,
    keys: larder_proto::memcached::Keys<'_>,
    expires: Expires,
    with_version: bool,
    out: &mut Output,
) {
    use larder_engine::Change;
    let (group, now) = (reader.group, reader.now);
    let (mut read, mut missed, mut has_room) = (0, 0, true);
    for name in keys {
        if reader.worker.is_on(Special::Recorder) {
            gate::note(reader.worker, RecordedOperation::Get, name);
        }
        let key = group.cache.key(name);
        let mut tier = group.tier_for_change(key);
        let found = tier.update(key, now, |entry, _| {
            let Some(entry) = entry else { return (Change::Keep, None) };
            let view = crate::entry_view::EntryView::of(entry);
            replies::value(out, name, view.mark.flags, with_version.then_some(view.version), &entry.value);
            let change = match expires {
                Expires::Past => Change::Delete,
                expires => Change::Expire(expires.in_tier(|| group.policy.lifetime(name))),
            };
            (change, Some(view.expiry.is_some()))
        });
        let had_expiry = found.ok().flatten();
        had_expiry.into_iter().for_each(|had_expiry| writes::note_touch(group, name, expires, had_expiry));
        drop(tier);
        read += 1;
        missed += u64::from(had_expiry.is_none());
        if !replies::may_grow(reader.worker, out.owned()) {
            has_room = false;
            break;
        }
    }
    match has_room {
        true => out.put(b"END\r\n"),
        false => replies::no_room(reader.worker, out),
    }
    reader.worker.counters.memcached_touches.add(read);
    reader.worker.counters.memcached_get_misses.add(missed);
    reader.worker.counters.memcached_gets.add(read);
}

/// Runs a request that waits for the source.
async fn run_alone(worker: &Worker, request: &Request<'_>, out: &mut Output) {
    let group = worker.groups.default();
    let counters = &worker.counters;
    let now = clock::now();
    if worker.app.replication.is_read_only() {
        counters.memcached_errors.add(1);
        return match WriteCommand::of(request, now) {
            Ok(Some(command)) => writes::refuse(out, &command, replies::READ_ONLY),
            _ => replies::line(out, replies::READ_ONLY),
        };
    }
    match request {
        Request::Flush { is_quiet, .. } => {
            counters.memcached_flushes.add(1);
            match flush::flush(group).await {
                Ok(()) if *is_quiet => {}
                Ok(()) => replies::line(out, "OK"),
                Err(error) => replies::line(out, &replies::source_error(&error)),
            }
        }
        Request::Get { keys, with_version, exptime: Some(exptime) } => {
            let read = keys.into_iter().count() as u64;
            counters.memcached_touches.add(read);
            counters.memcached_gets.add(read);
            let expires = Expires::of(*exptime, now);
            let missed = source_writes::get_and_touch(worker, *keys, expires, *with_version, out).await;
            counters.memcached_get_misses.add(missed);
        }
        request => {
            if let Ok(Some(command)) = WriteCommand::of(request, now) {
                count(worker, group, &command);
                let outcome = source_writes::write(group, &command, out).await;
                count_outcome(worker, &command, outcome);
            }
        }
    }
}

fn count(worker: &Worker, group: &Group, command: &WriteCommand<'_>) {
    let counters = &worker.counters;
    let key = &command.key[..];
    match command.write.what {
        What::Store { value, .. } => {
            counters.memcached_sets.add(1);
            note_write(worker, group, key, RecordedOperation::Set(value.len()));
        }
        What::Arithmetic { .. } => {
            counters.memcached_arithmetic.add(1);
            note_write(worker, group, key, RecordedOperation::Set(0));
        }
        What::Delete | What::MarkStale { .. } | What::Empty => {
            counters.memcached_deletes.add(1);
            note_write(worker, group, key, RecordedOperation::Del);
        }
        What::Touch(_) => counters.memcached_touches.add(1),
        What::Claim { .. } => {
            counters.memcached_gets.add(1);
            if worker.is_on(Special::Recorder) {
                gate::note(worker, RecordedOperation::Get, key);
            }
        }
    }
}

fn count_outcome(worker: &Worker, command: &WriteCommand<'_>, outcome: Option<Outcome>) {
    match (outcome, command.write.what) {
        (None | Some(Outcome::NotANumber), _) => worker.counters.memcached_errors.add(1),
        (Some(Outcome::NotFound), What::Claim { .. }) => worker.counters.memcached_get_misses.add(1),
        _ => {}
    }
}

#[inline]
fn note_write(worker: &Worker, group: &Group, key: &[u8], operation: RecordedOperation) {
    if worker.is_on(Special::Recorder) {
        gate::note(worker, operation, key);
    }
    if let RecordedOperation::Set(bytes) = operation
        && group.policy.key_counts.is_due()
    {
        group.policy.key_counts.note_write(key, bytes);
    }
}

/// Counts and logs a request of another protocol: a browser may have been tricked, or a port is
/// wrong. The connection closes, like memcached's.
#[cold]
fn refuse_foreign(worker: &Worker, client: &Client, input: &[u8], out: &mut Output) {
    worker.counters.memcached_foreign.add(1);
    if let Some(left_out) = worker.app.telemetry.foreign.due(Instant::now()) {
        let peer = &client.peer;
        tracing::warn!(%peer, not_logged = left_out, "closed a connection to the memcached port: no memcached command arrived");
    }
    if input.first() == Some(&BINARY) {
        replies::line(out, "CLIENT_ERROR the binary protocol is not supported: use the text protocol");
    }
}
