//! The bytes of a connection: requests out, replies in, in order. No I/O in here.
use super::{Settings, refusal};
use crate::{
    clock,
    proto::{
        output::Output,
        resp::{Malformed, Reply, Scanner, View, parse_i64, view},
    },
    read::Fetch,
    source::{Found, Replies, SourceError, SourceHealth, Unasked, Watch},
};
use bytes::{Buf, Bytes, BytesMut};
use larder_engine::Millis;
use std::{collections::VecDeque, rc::Rc, sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::Instant};

/// Fetches per transaction: enough to make MULTI and EXEC cheap, few enough that Redis serves others in between.
const BATCH: usize = 128;
/// No more is encoded ahead of the socket; what is queued costs less memory.
const OUTPUT: usize = 256 * 1024;
/// Commands from this size on are linked into the output, not copied.
const LINKED: usize = 16 * 1024;
/// The rest of a value is read straight into its own buffer if this much is missing; less comes with what follows it.
const DIRECT: usize = 32 * 1024;
/// PTTL's answer for a key that never expires (-2: there is no key).
const NO_EXPIRY: i64 = -1;
const QUEUED: &[u8] = b"+QUEUED\r\n";
/// Longest line: an error's text.
const MAX_LINE: usize = 64 * 1024;
/// What a reply to a verbatim command may measure beyond `max-value`.
const REPLY_MARGIN: usize = 64 * 1024 * 1024;

/// A call whose replies end with that to a `PING`.
pub(super) const UNTIL_PONG: usize = usize::MAX;

/// The other end does not speak the protocol, or not in this order.
pub(super) const CONFUSED: &str = "the source's replies are not those of a Redis server";

/// A request that waits to be sent.
pub(super) enum Request {
    Fetch(Waiting),
    Call(Call),
}
impl Request {
    pub(super) fn deadline(&self) -> Instant {
        match self {
            Request::Fetch(waiting) => waiting.deadline,
            Request::Call(call) => call.deadline,
        }
    }
}

/// A fetch that waits for its answer.
pub(super) struct Waiting {
    pub(super) fetch: Fetch,
    /// The queue that it goes through.
    pub(super) queue: u32,
    /// When it was handed over.
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    /// It was sent once before, on a connection that was lost.
    pub(super) retried: bool,
}
impl Waiting {
    pub(super) fn finish(self, answer: Result<Option<Found>, SourceError>, now: Millis, health: &SourceHealth) {
        health.finished(answer.is_err(), self.since.elapsed());
        self.fetch.finish(answer, now);
    }
}

/// Encoded commands that wait for their replies.
pub(super) struct Call {
    pub(super) commands: Bytes,
    pub(super) count: usize,
    pub(super) deadline: Instant,
    /// `None`: nobody wants to know (a probe).
    pub(super) answer: Option<oneshot::Sender<Answer>>,
}
pub(super) type Answer = Result<Replies, SourceError>;
impl Call {
    pub(super) fn finish(self, answer: Answer) {
        if let Some(sender) = self.answer {
            // The client may be gone; its command was sent all the same.
            let _ = sender.send(answer);
        }
    }
}

/// What the next replies belong to.
enum Owed {
    Batch(Batch),
    Call { call: Call, replies: BytesMut, ends: Vec<usize> },
}

/// A transaction whose fetches are the next `left` of [`Pipeline::sent`].
struct Batch {
    left: usize,
    /// When it was sent: an expiry counts from here, so that a slow reply never lengthens a life.
    sent_at: Millis,
    stage: Stage,
    /// Commands that the server would not queue: index of the fetch and the error's text.
    refused: Vec<(usize, SourceError)>,
    /// `MULTI` itself was refused: the replies come one by one, without transaction.
    direct: bool,
}
enum Stage {
    Multi,
    /// This many commands are queued (two a fetch).
    Queued(usize),
    Exec,
    Value,
    /// A large value is being read: [`Pipeline::body`].
    Body,
    /// The value is known, its expiry comes next; `true`: after the value's line end.
    Expiry(Result<Option<Bytes>, SourceError>, bool),
    /// Direct replies: EXEC's error.
    Trailer,
}

/// A value that is larger than what was read of it.
struct Body {
    value: Vec<u8>,
    missing: usize,
    /// Larger than `max-value`: thrown away, answered with this.
    refused: Option<SourceError>,
}

/// The state of one connection.
pub(super) struct Pipeline {
    settings: Arc<Settings>,
    /// On this connection the server announces changes.
    watch: Option<Watch>,
    /// What it says to a client whose own it is.
    unasked: Rc<Unasked>,
    owed: VecDeque<Owed>,
    /// Fetches of the batches in `owed`, in order.
    sent: VecDeque<Waiting>,
    body: Option<Body>,
    scanner: Scanner,
    /// Fetches to be sent again, in order.
    again: Vec<Waiting>,
}

/// A line without its end, and its length with it.
fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    match input.iter().take(MAX_LINE).position(|&byte| byte == b'\n') {
        Some(at) if at > 0 && input[at - 1] == b'\r' => Ok(Some((&input[..at - 1], at + 1))),
        Some(_) => Err(Malformed),
        None if input.len() >= MAX_LINE => Err(Malformed),
        None => Ok(None),
    }
}

impl Pipeline {
    pub(super) fn new(settings: Arc<Settings>, watch: Option<Watch>, unasked: Rc<Unasked>) -> Pipeline {
        let max_reply = settings.limits.max_value.saturating_add(REPLY_MARGIN);
        Pipeline {
            settings,
            watch,
            unasked,
            owed: VecDeque::new(),
            sent: VecDeque::new(),
            body: None,
            scanner: Scanner::new(max_reply),
            again: Vec::new(),
        }
    }

    /// Are replies still to come?
    pub(super) fn is_owed(&self) -> bool {
        !self.owed.is_empty()
    }

    /// The earliest deadline of what was sent: requests are sent in the order of their deadlines.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.owed.front()? {
            Owed::Batch(_) => self.sent.front().map(|waiting| waiting.deadline),
            Owed::Call { call, .. } => Some(call.deadline),
        }
    }

    /// Moves queued requests to `out`, as long as that is not full.
    pub(super) fn send(&mut self, queue: &mut VecDeque<Request>, out: &mut Output) {
        while out.len() < OUTPUT {
            match queue.pop_front() {
                None => return,
                Some(Request::Fetch(first)) => self.send_batch(first, queue, out),
                Some(Request::Call(mut call)) => {
                    let commands = std::mem::take(&mut call.commands);
                    if commands.len() < LINKED {
                        out.put(&commands);
                    } else {
                        out.put_shared(commands);
                    }
                    let ends = Vec::with_capacity(call.count.min(BATCH));
                    self.owed.push_back(Owed::Call { call, replies: BytesMut::new(), ends });
                }
            }
        }
    }

    /// Sends `first` and the fetches queued right behind it as one transaction.
    fn send_batch(&mut self, first: Waiting, queue: &mut VecDeque<Request>, out: &mut Output) {
        out.put(b"*1\r\n$5\r\nMULTI\r\n");
        let mut left = 0;
        let mut next = Some(first);
        while let Some(waiting) = next.take() {
            let key = waiting.fetch.key();
            out.put(b"*2\r\n$3\r\nGET\r\n");
            Reply::new(out, false).bulk(key);
            out.put(b"*2\r\n$4\r\nPTTL\r\n");
            Reply::new(out, false).bulk(key);
            waiting.fetch.sent_through(waiting.queue);
            self.sent.push_back(waiting);
            left += 1;
            if left < BATCH
                && matches!(queue.front(), Some(Request::Fetch(_)))
                && let Some(Request::Fetch(waiting)) = queue.pop_front()
            {
                next = Some(waiting);
            }
        }
        out.put(b"*1\r\n$4\r\nEXEC\r\n");
        self.owed.push_back(Owed::Batch(Batch {
            left,
            sent_at: clock::now(),
            stage: Stage::Multi,
            refused: Vec::new(),
            direct: false,
        }));
    }

    /// Where the next bytes from the socket go, if not into the input buffer: the rest of a large value, and how much.
    pub(super) fn direct(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let body = self.body.as_mut()?;
        (body.missing >= DIRECT && body.refused.is_none()).then_some((&mut body.value, body.missing))
    }
    /// So many bytes were read to where [`direct`](Pipeline::direct) said.
    pub(super) fn direct_read(&mut self, bytes: usize) {
        if let Some(body) = &mut self.body {
            body.missing -= bytes;
        }
    }

    /// Takes in what was read, as far as it goes; then see [`requeue`](Pipeline::requeue).
    pub(super) fn receive(&mut self, input: &mut BytesMut) -> Result<(), Malformed> {
        let now = clock::now();
        while self.step(input, now)? {}
        Ok(())
    }

    /// Takes one reply, or one part of a batch's; false when there is not enough input.
    fn step(&mut self, input: &mut BytesMut, now: Millis) -> Result<bool, Malformed> {
        let unasked = match input.first() {
            Some(b'>') => self.is_between_replies(),
            Some(b'+') => self.unasked.are_lines_expected() && input.get(1).is_some_and(u8::is_ascii_digit),
            _ => false,
        };
        if unasked {
            let Some(len) = self.scanner.scan(input)? else {
                return Ok(false);
            };
            self.pushed(&input[..len])?;
            input.advance(len);
            return Ok(true);
        }
        match self.owed.front_mut() {
            None if input.is_empty() => Ok(false),
            None => Err(Malformed),
            Some(Owed::Call { call, replies, ends }) => {
                let Some(len) = self.scanner.scan(input)? else {
                    return Ok(false);
                };
                ends.push(replies.len() + len);
                if len >= LINKED && replies.is_empty() {
                    *replies = input.split_to(len);
                } else {
                    // Copied: small ones do not hold on to the buffer, and those of one call lie together.
                    replies.extend_from_slice(&input[..len]);
                    input.advance(len);
                }
                let over = match call.count {
                    UNTIL_PONG => {
                        replies.ends_with(b"+PONG\r\n") && replies.len() - ends.iter().rev().nth(1).unwrap_or(&0) == 7
                    }
                    count => ends.len() == count,
                };
                if call.answer.is_some() {
                    self.unasked.note_reply();
                }
                if over && let Some(Owed::Call { call, replies, ends }) = self.owed.pop_front() {
                    call.finish(Ok(Replies { bytes: replies.freeze(), ends }));
                }
                Ok(true)
            }
            Some(Owed::Batch(_)) => self.step_batch(input, now),
        }
    }

    /// Is the next byte the first of a reply, or of what a transaction's reply consists of?
    fn is_between_replies(&self) -> bool {
        match self.owed.front() {
            Some(Owed::Batch(batch)) => self.body.is_none() && !matches!(batch.stage, Stage::Expiry(_, true)),
            // Whole replies only.
            Some(Owed::Call { .. }) | None => true,
        }
    }

    /// A push message of RESP3 stands between replies and answers none. Handled here and now: what it says about a key
    /// concerns the replies before it, whose fills are stored, and none of those behind it.
    fn pushed(&self, message: &[u8]) -> Result<(), Malformed> {
        let (Some(watch), View::Push(mut parts)) = (&self.watch, view(message)?) else {
            return if self.unasked.push(message) { Ok(()) } else { Err(Malformed) };
        };
        let mut part = || parts.next_raw().map(view).transpose();
        if part()? != Some(View::Bulk(b"invalidate")) {
            return Ok(());
        }
        match part()?.ok_or(Malformed)? {
            View::Array(mut keys) => {
                self.settings.health.note_invalidations(keys.len() as u64);
                while let Some(key) = keys.next_raw() {
                    let View::Bulk(key) = view(key)? else {
                        return Err(Malformed);
                    };
                    watch.to.key(key);
                }
                Ok(())
            }
            // All of them: FLUSHALL, FLUSHDB.
            View::Null => {
                self.settings.health.note_invalidations(1);
                watch.to.all();
                Ok(())
            }
            // Not understood: with the connection ends what it vouched for.
            _ => Err(Malformed),
        }
    }

    fn step_batch(&mut self, input: &mut BytesMut, now: Millis) -> Result<bool, Malformed> {
        let Some(Owed::Batch(batch)) = self.owed.front_mut() else {
            return Ok(false);
        };
        if let Some(body) = &mut self.body {
            let ready = body.missing.min(input.len());
            if body.refused.is_none() {
                body.value.extend_from_slice(&input[..ready]);
            }
            input.advance(ready);
            body.missing -= ready;
            if body.missing > 0 {
                return Ok(false);
            }
            if let Some(Body { value, refused, .. }) = self.body.take() {
                let answer = refused.map_or(Ok(Some(Bytes::from(value))), Err);
                batch.stage = Stage::Expiry(answer, true);
            }
            return Ok(true);
        }
        if let Stage::Queued(done) = &mut batch.stage
            && input.starts_with(QUEUED)
        {
            input.advance(QUEUED.len());
            *done += 1;
            if *done == batch.left * 2 {
                batch.stage = Stage::Exec;
            }
            return Ok(true);
        }
        if let Stage::Expiry(_, line_end @ true) = &mut batch.stage {
            match input.get(..2) {
                None => return Ok(false),
                Some(b"\r\n") => *line_end = false,
                Some(_) => return Err(Malformed),
            }
            input.advance(2);
            // An announcement may come before the expiry, where there is no transaction.
            return Ok(true);
        }
        let Some((head, len)) = line(input)? else {
            return Ok(false);
        };
        let (&kind, text) = head.split_first().ok_or(Malformed)?;
        let error = (kind == b'-').then(|| refusal(text));
        match (&mut batch.stage, error) {
            (Stage::Multi, None) => batch.stage = Stage::Queued(0),
            (Stage::Multi, Some(_)) => {
                batch.direct = true;
                batch.stage = Stage::Value;
            }
            (Stage::Queued(done), Some(error)) => {
                batch.refused.push((*done / 2, error));
                *done += 1;
                if *done == batch.left * 2 {
                    batch.stage = Stage::Exec;
                }
            }
            (Stage::Exec, None) => {
                let expected = i64::try_from(batch.left * 2).ok();
                if kind != b'*' || parse_i64(text) != expected {
                    return Err(Malformed);
                }
                batch.stage = Stage::Value;
            }
            (Stage::Exec, Some(error)) => {
                input.advance(len);
                self.called_off(&error, now);
                return Ok(true);
            }
            (Stage::Value, Some(error)) => batch.stage = Stage::Expiry(Err(error), false),
            (Stage::Value, None) if kind == b'$' => {
                let size = parse_i64(text).ok_or(Malformed)?;
                input.advance(len);
                self.begin_value(size, input)?;
                return Ok(true);
            }
            // RESP3's null.
            (Stage::Value, None) if kind == b'_' => batch.stage = Stage::Expiry(Ok(None), false),
            (Stage::Expiry(value, _), error) => {
                let value = std::mem::replace(value, Ok(None));
                let expiry = match error {
                    Some(error) => Err(error),
                    None if kind == b':' => Ok(parse_i64(text).ok_or(Malformed)?),
                    None => return Err(Malformed),
                };
                input.advance(len);
                self.finish_fetch(value, expiry, now);
                return Ok(true);
            }
            (Stage::Trailer, _) => {
                self.owed.pop_front();
            }
            (Stage::Queued(_) | Stage::Value | Stage::Body, _) => return Err(Malformed),
        }
        input.advance(len);
        Ok(true)
    }

    /// A value of `size` bytes begins (-1: there is none).
    fn begin_value(&mut self, size: i64, input: &mut BytesMut) -> Result<(), Malformed> {
        let Some(Owed::Batch(batch)) = self.owed.front_mut() else {
            return Err(Malformed);
        };
        if size == -1 {
            batch.stage = Stage::Expiry(Ok(None), false);
            return Ok(());
        }
        let size = usize::try_from(size).map_err(|_| Malformed)?;
        let max = self.settings.limits.max_value;
        if size > max {
            let text = format!("ERR the source's value of {size} bytes is larger than allowed: {max} (max-value)");
            self.body =
                Some(Body { value: Vec::new(), missing: size, refused: Some(SourceError::Refused(text.into())) });
        } else if size <= input.len() {
            let value = Bytes::copy_from_slice(&input[..size]);
            input.advance(size);
            batch.stage = Stage::Expiry(Ok(Some(value)), true);
            return Ok(());
        } else {
            self.body = Some(Body { value: Vec::with_capacity(size), missing: size, refused: None });
        }
        batch.stage = Stage::Body;
        Ok(())
    }

    /// Value and expiry of the batch's next fetch are known.
    fn finish_fetch(
        &mut self,
        value: Result<Option<Bytes>, SourceError>,
        expiry: Result<i64, SourceError>,
        now: Millis,
    ) {
        let Some(Owed::Batch(batch)) = self.owed.front_mut() else {
            return;
        };
        let answer = match (value, expiry) {
            (Err(error), _) | (Ok(Some(_)), Err(error)) => Err(error),
            (Ok(None), _) => Ok(None),
            (Ok(Some(value)), Ok(left)) => Ok(Some(Found {
                value,
                expiry: match u64::try_from(left) {
                    Ok(left) => Some(batch.sent_at.saturating_add(left)),
                    Err(_) if left == NO_EXPIRY => None,
                    // Gone between GET and PTTL, as only happens outside a transaction.
                    Err(_) => Some(batch.sent_at),
                },
            })),
        };
        batch.left -= 1;
        if batch.left > 0 {
            batch.stage = Stage::Value;
        } else if batch.direct {
            batch.stage = Stage::Trailer;
        } else {
            self.owed.pop_front();
        }
        if let Some(mut waiting) = self.sent.pop_front() {
            if self.watch.as_ref().is_some_and(|watch| watch.covers(waiting.fetch.key())) {
                waiting.fetch.vouch();
            }
            waiting.finish(answer, now, &self.settings.health);
        }
    }

    /// EXEC failed. Fetches whose own commands were refused get that error; the others had no fault and go again, unless
    /// there is no telling whose fault it was.
    fn called_off(&mut self, error: &SourceError, now: Millis) {
        let Some(Owed::Batch(batch)) = self.owed.pop_front() else {
            return;
        };
        let mut refused = batch.refused.into_iter().peekable();
        let blame_all = refused.peek().is_none();
        for index in 0..batch.left {
            let Some(waiting) = self.sent.pop_front() else {
                return;
            };
            let mut own = None;
            while let Some((_, error)) = refused.next_if(|(at, _)| *at == index) {
                own.get_or_insert(error);
            }
            match own {
                Some(error) => waiting.finish(Err(error), now, &self.settings.health),
                None if blame_all => {
                    waiting.finish(Err(error.clone()), now, &self.settings.health);
                }
                None => self.again.push(waiting),
            }
        }
    }

    /// Puts the fetches that are to be sent again before all others.
    pub(super) fn requeue(&mut self, queue: &mut VecDeque<Request>) {
        while let Some(mut waiting) = self.again.pop() {
            // Fetches that began later may have been sent before it is now.
            waiting.queue = self.settings.queue();
            queue.push_front(Request::Fetch(waiting));
        }
    }

    /// The connection is gone for `reason`: what was owed is answered, or goes (once) again.
    pub(super) fn lost(mut self, reason: &Arc<str>, now: Instant, queue: &mut VecDeque<Request>) {
        let millis = clock::now();
        let late = timed_out(self.settings.limits.timeout);
        let why = |deadline| if deadline <= now { &late } else { reason };
        for owed in std::mem::take(&mut self.owed) {
            match owed {
                Owed::Call { call, .. } => {
                    let reason = why(call.deadline).clone();
                    call.finish(Err(SourceError::Lost(reason)));
                }
                Owed::Batch(batch) => {
                    for mut waiting in self.sent.drain(..batch.left.min(self.sent.len())) {
                        if waiting.retried || waiting.deadline <= now {
                            let error = SourceError::Unavailable(why(waiting.deadline).clone());
                            waiting.finish(Err(error), millis, &self.settings.health);
                        } else {
                            waiting.retried = true;
                            self.again.push(waiting);
                        }
                    }
                }
            }
        }
        self.requeue(queue);
    }
}

impl Drop for Pipeline {
    /// Whatever is left here ends with the task: the fetches' waiters are released as they drop.
    fn drop(&mut self) {
        let left = self.sent.len() + self.again.len();
        self.settings.health.abandoned(left);
    }
}

/// Why a request failed that its deadline overtook.
pub(super) fn timed_out(timeout: Duration) -> Arc<str> {
    format!("timed out after {timeout:?} (source-timeout)").into()
}

#[cfg(test)]
mod tests;
