//! The fast path: answers plain requests of hot routes from a loop of its own, and hands the connection to the general
//! path at the first request that is anything else.
//!
//! One turn: send what is left, read, answer every request that is complete from inside the engine's lookup, send. Reads
//! that have to wait for the source keep their places in the order of answers and leave as one batch.
mod send;

use super::{
    Buffers, Context, INPUT, LINGER,
    connection_deadlines::{ConnectionDeadline, Verdict},
    key_routes,
    problem::Problem,
    read_answer::{self, About, Reading},
    response_body::Body,
};
use crate::{
    lifecycle::{linger::linger, throttle::Scope},
    read::StartedRead,
    source::Fetch,
    telemetry::Operation,
};
use bytes::Bytes;
use http::Response;
use larder_engine::{Millis, Wait};
use larder_proto::{
    http::{
        head::{Front, Heads},
        target,
        text::Date,
    },
    output::Output,
};
use larder_store::clock;
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context as Cx, Poll, ready},
    time::Instant,
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
    task::JoinHandle,
};

/// Output that is sent before more requests are answered.
const ENOUGH: usize = 256 * 1024;
/// Reads of one connection that wait at a time.
const MOST_WAITING: usize = 128;
/// Room for part of a request that a connection keeps.
const KEPT: usize = 512;
/// Turns before other connections get theirs.
const TURNS: u32 = 16;

/// Serves a connection until it ends (`None`) or needs the general path: then with what was read and not answered.
pub(super) async fn serve(
    context: &Rc<Context>,
    stream: TcpStream,
    watch: &ConnectionDeadline,
) -> Option<(TcpStream, Vec<u8>)> {
    let mut fast = Fast {
        context,
        watch,
        stream,
        heads: Heads::default(),
        input: Vec::new(),
        output: Output::default(),
        scratch: Vec::new(),
        batch: Vec::new(),
        waiting: Vec::new(),
        state: State::Idle,
        answered: 0,
        hits: 0,
        behind: 0,
    };
    watch.allow(context.worker.app.settings.idle_timeout);
    loop {
        // A socket that fails has nobody left to answer.
        match poll_fn(|cx| fast.turn(cx)).await.ok()? {
            Next::Settle => fast.settle().await.ok()?,
            Next::Handover => {
                fast.flush().await.ok()?;
                return Some((fast.stream, fast.input));
            }
            Next::HeadTimeout => {
                let limit = context.worker.app.settings.header_timeout;
                fast.send(read_answer::head_timeout(limit)).await.ok()?;
                fast.flush().await.ok()?;
                linger(&mut fast.stream, &context.worker.app.drain, LINGER).await;
                return None;
            }
            Next::Cut => {
                fast.cut().await;
                return None;
            }
            Next::Close => return None,
        }
    }
}

/// What a turn ended with.
enum Next {
    /// Reads wait for the source.
    Settle,
    /// The general path goes on.
    Handover,
    /// A client took too long over a head.
    HeadTimeout,
    /// The connection holds too much.
    Cut,
    Close,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// All that was read is answered.
    Idle,
    /// Part of a head was read: its time runs.
    InHead,
    /// `input` may hold whole requests: room in the output ran out before they did.
    Backlog,
    /// `input` begins with a request that is not for us.
    ForeignProtocol,
}

struct Fast<'c> {
    context: &'c Context,
    watch: &'c ConnectionDeadline,
    stream: TcpStream,
    heads: Heads,
    /// Read, and not answered.
    input: Vec<u8>,
    /// Answered, and not sent, because the socket was full.
    output: Output,
    /// Of the key decoder.
    scratch: Vec<u8>,
    batch: Vec<Fetch>,
    waiting: Vec<Waiting>,
    state: State,
    /// Requests answered in this turn, not counted yet.
    answered: u32,
    /// Those of them that were hits.
    hits: u32,
    /// Bytes behind answers that are being settled.
    behind: usize,
}

/// An answer that could not be written at once, and those that come after it.
struct Waiting {
    reading: Reading,
    key: Box<[u8]>,
    answer: Answer,
    begun: Instant,
    after: Output,
}

enum Answer {
    /// The source is being asked.
    Wait(Wait),
    /// Too large to be encoded under the shard's lock.
    Large(Bytes),
    /// A store is writing.
    Write(JoinHandle<Result<Response<Body>, Problem>>),
}

impl Fast<'_> {
    fn turn(&mut self, cx: &mut Cx<'_>) -> Poll<io::Result<Next>> {
        if self.context.holder.is_cut() {
            return Poll::Ready(Ok(Next::Cut));
        }
        let next = self.take_turns(cx);
        if next.is_pending() {
            self.account();
        }
        next
    }

    fn take_turns(&mut self, cx: &mut Cx<'_>) -> Poll<io::Result<Next>> {
        let worker = self.context.worker.clone();
        let settings = &worker.app.settings;
        for _ in 0..TURNS {
            if !self.output.is_empty() {
                ready!(self.poll_flush(cx))?;
            }
            if self.state == State::ForeignProtocol || self.context.http.watches.draining() && !self.input.is_empty() {
                return Poll::Ready(Ok(Next::Handover));
            }
            let buffers = &mut *self.context.http.buffers.borrow_mut();
            // Whoever panicked here before us must not be heard by our client.
            buffers.output.clear();
            let kept = self.input.len();
            buffers.input[..kept].copy_from_slice(&self.input);
            let mut filled = kept;
            if self.state != State::Backlog {
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
            let answered = self.answer_all(filled, buffers, begun);
            self.input.clear();
            if self.input.capacity() > KEPT {
                self.input = Vec::new();
            }
            self.input.extend_from_slice(&buffers.input[answered..filled]);
            if !self.batch.is_empty() {
                worker.groups[0].source.fetch(&mut self.batch);
            }
            match self.state {
                State::InHead if was == State::InHead && answered == 0 => {}
                State::InHead => self.watch.allow(Some(settings.header_timeout)),
                State::Idle | State::Backlog | State::ForeignProtocol => self.watch.allow(settings.idle_timeout),
            }
            match self.poll_send(&mut buffers.output, cx) {
                Poll::Ready(result) => result?,
                Poll::Pending => self.output.append(&mut buffers.output),
            }
            let took = begun.elapsed();
            for _ in 0..std::mem::take(&mut self.answered) {
                worker.counters.http_seconds.record(took);
            }
            if !self.waiting.is_empty() {
                return Poll::Ready(Ok(Next::Settle));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Nothing to read: waits, or ends the connection if its time is over.
    fn at_rest(&self) -> Poll<Next> {
        match self.watch.verdict() {
            Verdict::Live => Poll::Pending,
            Verdict::Expired if self.state == State::InHead => Poll::Ready(Next::HeadTimeout),
            // The general path finishes a head that was begun, and says that it closes.
            Verdict::Drain if !self.input.is_empty() => Poll::Ready(Next::Handover),
            Verdict::Expired | Verdict::Drain => Poll::Ready(Next::Close),
        }
    }

    /// Answers the complete requests in the first `filled` bytes of input; the number of bytes they take.
    fn answer_all(&mut self, filled: usize, buffers: &mut Buffers, begun: Instant) -> usize {
        let max_head = self.context.worker.app.settings.max_headers.min(INPUT - 1);
        let now = clock::now();
        let date = buffers.date.at(now);
        let (input, output) = (&buffers.input[..filled], &mut buffers.output);
        let mut at = 0;
        self.state = loop {
            if at == filled {
                break State::Idle;
            }
            let (target, len, body) = match self.heads.front(&input[at..]) {
                Front::Plain { target, len } if len <= max_head => (target, len, None),
                Front::Put { head, len, .. } if head > max_head || len >= INPUT || !self.writes_here() => {
                    break State::ForeignProtocol;
                }
                Front::Put { len, .. } if filled - at < len => break State::InHead,
                Front::Put { target, head, len } => (target, len, Some(&input[at + head..at + len])),
                Front::Partial if filled - at <= max_head => break State::InHead,
                Front::Plain { .. } | Front::Partial | Front::Other => break State::ForeignProtocol,
            };
            // Writes of one connection are under way together, but what is read next comes after them, and they after what was read.
            let writing = self.waiting.last().map(|last| matches!(last.answer, Answer::Write(_)));
            if writing.is_some_and(|writing| writing != body.is_some()) {
                break State::Backlog;
            }
            let waiting = self.waiting.len();
            let taken = match body {
                Some(body) => self.write(target, body, begun),
                None => self.answer(target, (now, begun), date, output),
            };
            if !taken {
                break State::ForeignProtocol;
            }
            self.answered += u32::from(waiting == self.waiting.len());
            at += len;
            let due = output.len() + self.waiting.iter().map(|waiting| waiting.after.len()).sum::<usize>();
            if self.waiting.len() == MOST_WAITING || due > ENOUGH {
                break State::Backlog;
            }
        };
        self.context.worker.counters.http_responses_2xx.add(std::mem::take(&mut self.hits).into());
        at
    }

    /// Many writes of one connection are worth being under way at once where each waits for a disk.
    fn writes_here(&self) -> bool {
        let worker = &self.context.worker;
        worker.groups[0].source.as_local().is_some() && worker.app.throttle.is_none()
    }

    /// Begins a plain write to a store; false if it is not well-formed enough.
    fn write(&mut self, target: &[u8], body: &[u8], begun: Instant) -> bool {
        let worker = &self.context.worker;
        let settings = &worker.app.settings;
        let (is_entity, decoded) = if let Some(key) = target.strip_prefix(b"/v1/kv/") {
            // A query may have a lifetime.
            (false, (!key.contains(&b'?')).then(|| target::decode_path(key, &mut self.scratch)))
        } else if let Some(query) = target.strip_prefix(b"/v0/entity?") {
            let key = target::parameter(query, Reading::Entity.parameter());
            (true, key.map(|key| target::decode_query(key, &mut self.scratch)))
        } else {
            return false;
        };
        let key = match decoded {
            Some(Ok(key)) if (1..=settings.max_key).contains(&key.len()) => key,
            _ => return false,
        };
        if body.len() > settings.max_value {
            return false;
        }
        worker.app.telemetry.tap.note(worker.id, Operation::Set(body.len()), key);
        let (group, instance) = (worker.groups[0].clone(), worker.app.instance);
        let (owned, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(body));
        // Tasks begin in the order in which they were made, and so do the writes.
        let task = tokio::task::spawn_local(async move {
            let failed = |error| Problem::source(&error);
            match is_entity {
                true => group.overwrite(&owned, Some(value)).await.map(|_| key_routes::overwritten()).map_err(failed),
                false => key_routes::put(group.put(&owned, value, None).await.map_err(failed)?, instance),
            }
        });
        let answer = Answer::Write(task);
        self.waiting.push(Waiting { reading: Reading::Kv, key: key.into(), answer, begun, after: Output::default() });
        true
    }

    /// Answers a plain request; false if it is not for a hot route, or not well-formed enough for a short answer.
    #[inline]
    fn answer(
        &mut self,
        target: &[u8],
        (now, begun): (Millis, Instant),
        date: &[u8; Date::LEN],
        output: &mut Output,
    ) -> bool {
        let worker = &self.context.worker;
        let (path, query) = target::split(target);
        let (reading, decoded) = if let Some(key) = path.strip_prefix(b"/v1/kv/") {
            (Reading::Kv, target::decode_path(key, &mut self.scratch))
        } else {
            let reading = match path {
                b"/lookup" => Reading::Lookup,
                b"/" => Reading::Text,
                b"/v0/entity" => Reading::Entity,
                _ => return false,
            };
            match target::parameter(query, reading.parameter()) {
                Some(key) => (reading, target::decode_query(key, &mut self.scratch)),
                None => return false,
            }
        };
        let key = match decoded {
            Ok(key) if (1..=worker.app.settings.max_key).contains(&key.len()) => key,
            _ => return false,
        };
        // Behind an answer that waits, this one waits too.
        let output = self.waiting.last_mut().map_or(output, |last| &mut last.after);
        if let Some(throttle) = &worker.app.throttle
            && let Err(throttled) = throttle.check(Scope::Data, self.context.peer.ip())
        {
            let response = reading.failed(Some(key), Problem::throttled(&throttled));
            worker.counters.http_throttled.add(1);
            worker.counters.http_answered(response.status().as_u16());
            read_answer::write_whole(output, response, date);
            return true;
        }
        let group = &worker.groups[0];
        let instance = worker.app.instance;
        worker.app.telemetry.tap.note(worker.id, Operation::Get, key);
        let found = group.begin(group.cache.key(key), now, &mut self.batch, |entry| {
            reading.write_held(output, &entry, About::hit(&entry, now), instance, date)
        });
        let answer = match found {
            StartedRead::Hit(None) => {
                self.hits += 1;
                return true;
            }
            StartedRead::Absent => {
                let response = reading.absent(key);
                worker.counters.http_answered(response.status().as_u16());
                read_answer::write_whole(output, response, date);
                return true;
            }
            StartedRead::Hit(Some(value)) => Answer::Large(value),
            StartedRead::Wait(wait) => Answer::Wait(wait),
        };
        self.waiting.push(Waiting { reading, key: key.into(), answer, begun, after: Output::default() });
        true
    }
}
