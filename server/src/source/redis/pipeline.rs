//! The bytes of a connection: requests out, replies in, in order. No I/O in here.
use super::{
    Settings,
    cluster::{Elsewhere, slot},
    refusal,
};
use crate::{
    clock,
    proto::{
        output::Output,
        resp::{Malformed, Reply, Scanner, View, parse_i64, view},
    },
    read::Fetch,
    source::{Found, FoundReply, KeyLife, Limits, Replies, SourceError, SourceHealth, Unasked, Watch},
};
use bytes::{Buf, Bytes, BytesMut};
use larder_engine::Millis;
use std::{
    collections::VecDeque,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
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
pub(super) const NO_EXPIRY: i64 = -1;
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
    pub(super) fn new(fetch: Fetch, queue: u32, deadline: Instant) -> Waiting {
        Waiting { fetch, queue, since: Instant::now(), deadline, retried: false }
    }
    pub(super) fn finish_reply(self, found: FoundReply, now: Millis, health: &SourceHealth) {
        health.finished(found.is_error(), self.since.elapsed());
        self.fetch.finish_reply(found, now);
    }
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
    /// How long that was when it was queued.
    pub(super) limit: Duration,
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

/// What a connection speaks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Protocol {
    pub(super) resp3: bool,
    /// The other version can be had within a transaction.
    pub(super) switches: bool,
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
    /// The replies come one by one, without a transaction: `MULTI` itself was refused, or not sent.
    direct: bool,
    /// No transaction was asked for: the keys are of several slots of a cluster, and the server announces changes between the replies.
    plain: bool,
    /// The fetches are of whole replies.
    whole: bool,
    /// They are of the protocol that the connection does not speak: HELLO goes before them and after them, inside the transaction, where
    /// no announcement can fall between.
    switched: bool,
    /// Their replies hold only where no fields of hashes expire: what the server says of that comes first.
    guarded: bool,
    /// They do, or may.
    fields_expire: bool,
}
impl Batch {
    /// Commands between MULTI and EXEC.
    fn commands(&self) -> usize {
        2 * self.left + usize::from(self.guarded) + if self.switched { 2 } else { 0 }
    }
    /// The first thing in EXEC's reply.
    fn first_stage(&self) -> Stage {
        match (self.guarded, self.switched) {
            (true, _) => Stage::Guard,
            (false, true) => Stage::Switch(false),
            (false, false) => Stage::Value,
        }
    }
    /// The fetch that the queued command with this position belongs to. HELLO and INFO are nobody's.
    fn fetch_of(&self, command: usize) -> Option<usize> {
        let at = command.checked_sub(usize::from(self.guarded) + usize::from(self.switched))? / 2;
        (at < self.left).then_some(at)
    }
}
enum Stage {
    Multi,
    /// This many commands are queued (two a fetch).
    Queued(usize),
    Exec,
    /// INFO's reply.
    Guard,
    /// HELLO's reply, before the first value or (`true`) after the last.
    Switch(bool),
    Value,
    /// A large value is being read: [`Pipeline::body`].
    Body,
    /// The value is known, its expiry comes next; `true`: after the value's line end.
    Expiry(Result<Option<Bytes>, SourceError>, bool),
    /// The same for a whole reply.
    ReplyExpiry(Bytes),
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
    protocol: Protocol,
    /// What it says to a client whose own it is.
    unasked: Rc<Unasked>,
    owed: VecDeque<Owed>,
    /// Fetches of the batches in `owed`, in order.
    sent: VecDeque<Waiting>,
    body: Option<Body>,
    scanner: Scanner,
    /// Fetches to be sent again, in order.
    again: Vec<Waiting>,
    /// For a node of a cluster: who takes over what it does not answer.
    elsewhere: Option<Weak<dyn Elsewhere>>,
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

/// The protocol in which a whole reply is to be fetched, and whether under a guard; `None` for a value.
fn form(waiting: &Waiting) -> Option<(bool, bool)> {
    waiting.fetch.asked().map(|asked| (asked.resp3, asked.unless_fields_expire))
}

/// From `INFO keyspace`: may fields of hashes expire in this database? Redis counts such hashes as `subexpiry`, Valkey as
/// `keys_with_volatile_items`. A database without keys is not listed.
fn fields_expire(info: &[u8], database: u32) -> bool {
    let info = String::from_utf8_lossy(info);
    let ours = format!("db{database}:");
    let Some(line) = info.lines().find_map(|line| line.strip_prefix(&*ours)) else {
        return !info.contains("# Keyspace");
    };
    let count = line.split(',').filter_map(|field| field.split_once('='));
    let mut count = count.filter(|(name, _)| matches!(*name, "subexpiry" | "keys_with_volatile_items"));
    count.next().is_none_or(|(_, count)| count != "0")
}

fn hello(resp3: bool) -> &'static [u8] {
    if resp3 { b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" } else { b"*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n" }
}

impl Pipeline {
    pub(super) fn new(
        settings: Arc<Settings>,
        watch: Option<Watch>,
        unasked: Rc<Unasked>,
        protocol: Protocol,
        elsewhere: Option<Weak<dyn Elsewhere>>,
    ) -> Pipeline {
        let max_reply = settings.limits.max_value.saturating_add(REPLY_MARGIN);
        Pipeline {
            settings,
            watch,
            protocol,
            unasked,
            owed: VecDeque::new(),
            sent: VecDeque::new(),
            body: None,
            scanner: Scanner::new(max_reply),
            again: Vec::new(),
            elsewhere,
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
    /// Why it fails when that is past.
    pub(super) fn timed_out(&self) -> Arc<str> {
        let limits = &self.settings.limits;
        match self.owed.front() {
            Some(Owed::Call { call, .. }) => timed_out(call.limit, limits),
            _ => timed_out(limits.timeout, limits),
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

    /// Sends `first` and the fetches queued right behind it as one transaction; to a node of a cluster without one, or those of one slot.
    fn send_batch(&mut self, first: Waiting, queue: &mut VecDeque<Request>, out: &mut Output) {
        let form = form(&first);
        let switched = form.is_some_and(|(resp3, _)| resp3 != self.protocol.resp3);
        let guarded = form.is_some_and(|(_, guarded)| guarded);
        if switched && !self.protocol.switches {
            // It was handed over when another server was there.
            let error = SourceError::Unavailable("it does not speak the client's protocol".into());
            return first.finish(Err(error), clock::now(), &self.settings.health);
        }
        let plain = self.elsewhere.is_some() && form.is_none();
        let slot = (self.elsewhere.is_some() && !plain).then(|| slot(first.fetch.key()));
        if !plain {
            out.put(b"*1\r\n$5\r\nMULTI\r\n");
        }
        if guarded {
            out.put(b"*2\r\n$4\r\nINFO\r\n$8\r\nkeyspace\r\n");
        }
        if switched {
            out.put(hello(!self.protocol.resp3));
        }
        let mut left = 0;
        let mut next = Some(first);
        while let Some(waiting) = next.take() {
            let key = waiting.fetch.key();
            match waiting.fetch.asked() {
                None => {
                    out.put(b"*2\r\n$3\r\nGET\r\n");
                    Reply::new(out, false).bulk(key);
                }
                Some(asked) => {
                    Reply::new(out, false).array(asked.parts().count());
                    asked.parts().for_each(|part| Reply::new(out, false).bulk(part));
                }
            }
            out.put(b"*2\r\n$4\r\nPTTL\r\n");
            Reply::new(out, false).bulk(key);
            waiting.fetch.sent_through(waiting.queue);
            self.sent.push_back(waiting);
            left += 1;
            if left < BATCH
                && matches!(queue.front(), Some(Request::Fetch(other)) if self::form(other) == form
                    && slot.is_none_or(|slot| slot == self::slot(other.fetch.key())))
                && let Some(Request::Fetch(waiting)) = queue.pop_front()
            {
                next = Some(waiting);
            }
        }
        if switched {
            out.put(hello(self.protocol.resp3));
        }
        if !plain {
            out.put(b"*1\r\n$4\r\nEXEC\r\n");
        }
        self.owed.push_back(Owed::Batch(Batch {
            left,
            sent_at: clock::now(),
            stage: if plain { Stage::Value } else { Stage::Multi },
            refused: Vec::new(),
            direct: plain,
            plain,
            whole: form.is_some(),
            switched,
            guarded,
            // Without a transaction what INFO says may be over.
            fields_expire: false,
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
        let commands = batch.commands();
        if let Stage::Queued(done) = &mut batch.stage
            && input.starts_with(QUEUED)
        {
            input.advance(QUEUED.len());
            *done += 1;
            if *done == commands {
                batch.stage = Stage::Exec;
            }
            return Ok(true);
        }
        if batch.whole && matches!(batch.stage, Stage::Guard | Stage::Switch(_) | Stage::Value) {
            let Some(len) = self.scanner.scan(input)? else {
                return Ok(false);
            };
            let reply = take(input, len);
            match batch.stage {
                Stage::Value => batch.stage = Stage::ReplyExpiry(reply),
                Stage::Guard => {
                    batch.fields_expire |= fields_expire(&reply, self.settings.url.database);
                    batch.stage = if batch.switched { Stage::Switch(false) } else { Stage::Value };
                }
                // Then there is no telling which protocol this is.
                _ if reply.starts_with(b"-") => return Err(Malformed),
                Stage::Switch(false) => batch.stage = Stage::Value,
                _ => drop(self.owed.pop_front()),
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
            // Announcements would be lost while the other protocol is spoken.
            (Stage::Multi, Some(_)) if batch.switched => return Err(Malformed),
            (Stage::Multi, Some(_)) => {
                batch.direct = true;
                batch.fields_expire = batch.guarded;
                batch.stage = batch.first_stage();
            }
            (Stage::Queued(done), Some(error)) => {
                let refused = *done;
                *done += 1;
                if *done == commands {
                    batch.stage = Stage::Exec;
                }
                if let Some(at) = batch.fetch_of(refused) {
                    batch.refused.push((at, error));
                }
            }
            (Stage::Exec, None) => {
                let expected = i64::try_from(commands).ok();
                if kind != b'*' || parse_i64(text) != expected {
                    return Err(Malformed);
                }
                batch.stage = batch.first_stage();
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
            (Stage::ReplyExpiry(reply), error) => {
                let reply = std::mem::take(reply);
                let left = match error {
                    Some(error) => Err(error),
                    None if kind == b':' => Ok(parse_i64(text).ok_or(Malformed)?),
                    None => return Err(Malformed),
                };
                input.advance(len);
                self.finish_reply(reply, left, now);
                return Ok(true);
            }
            (Stage::Trailer, _) => {
                self.owed.pop_front();
            }
            (Stage::Queued(_) | Stage::Guard | Stage::Switch(_) | Stage::Value | Stage::Body, _) => {
                return Err(Malformed);
            }
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
            self.body = Some(Body { value: Vec::new(), missing: size, refused: Some(too_large(size, max)) });
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
        if let Some(waiting) = self.next_done() {
            self.finish(waiting, answer, now);
        }
    }

    /// A whole reply and its key's expiry are known.
    fn finish_reply(&mut self, reply: Bytes, left: Result<i64, SourceError>, now: Millis) {
        let Some(Owed::Batch(Batch { sent_at, direct, fields_expire, .. })) = self.owed.front() else {
            return;
        };
        let (sent_at, direct) = (*sent_at, *direct);
        let key = match left {
            _ if *fields_expire => KeyLife::Until(sent_at),
            Ok(left) => match u64::try_from(left) {
                Ok(left) => KeyLife::Until(sent_at.saturating_add(left)),
                Err(_) if left == NO_EXPIRY => KeyLife::Unbounded,
                // Outside a transaction it may have gone since.
                Err(_) if direct => KeyLife::Until(sent_at),
                Err(_) => KeyLife::Absent,
            },
            // Given to those who wait, not kept.
            Err(_) => KeyLife::Until(sent_at),
        };
        if let Some(waiting) = self.next_done() {
            let found = FoundReply { reply, key };
            waiting.finish_reply(found, now, &self.settings.health);
        }
    }

    /// Takes the fetch whose replies have all come, vouched for if so it is.
    fn next_done(&mut self) -> Option<Waiting> {
        let Some(Owed::Batch(batch)) = self.owed.front_mut() else {
            return None;
        };
        batch.left -= 1;
        if batch.left > 0 {
            batch.stage = Stage::Value;
        } else if batch.switched {
            batch.stage = Stage::Switch(true);
        } else if batch.direct && !batch.plain {
            batch.stage = Stage::Trailer;
        } else {
            self.owed.pop_front();
        }
        let mut waiting = self.sent.pop_front()?;
        if self.watch.as_ref().is_some_and(|watch| watch.covers(waiting.fetch.key())) {
            waiting.fetch.vouch();
        }
        Some(waiting)
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
                Some(error) => self.finish(waiting, Err(error), now),
                None if blame_all => self.finish(waiting, Err(error.clone()), now),
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
        let limits = self.settings.limits;
        let why = |deadline, limit| if deadline <= now { timed_out(limit, &limits) } else { reason.clone() };
        let mut gone = Vec::new();
        for owed in std::mem::take(&mut self.owed) {
            match owed {
                Owed::Call { call, .. } => {
                    let reason = why(call.deadline, call.limit);
                    call.finish(Err(SourceError::Lost(reason)));
                }
                Owed::Batch(batch) => {
                    for mut waiting in self.sent.drain(..batch.left.min(self.sent.len())) {
                        if waiting.retried || waiting.deadline <= now {
                            let error = SourceError::Unavailable(why(waiting.deadline, limits.timeout));
                            gone.push((waiting, error));
                        } else {
                            waiting.retried = true;
                            self.again.push(waiting);
                        }
                    }
                }
            }
        }
        self.requeue(queue);
        gone.into_iter().for_each(|(waiting, error)| self.finish(waiting, Err(error), millis));
    }

    fn finish(&self, waiting: Waiting, answer: Result<Option<Found>, SourceError>, now: Millis) {
        match answer {
            Err(error) => fail(waiting, error, self.elsewhere.as_ref(), now, &self.settings.health),
            answer => waiting.finish(answer, now, &self.settings.health),
        }
    }
}

/// A fetch has failed: another node of the cluster may answer it, if there is one.
pub(super) fn fail(
    waiting: Waiting,
    error: SourceError,
    elsewhere: Option<&Weak<dyn Elsewhere>>,
    now: Millis,
    health: &SourceHealth,
) {
    match elsewhere.and_then(Weak::upgrade) {
        Some(cluster) => cluster.take(waiting, error),
        None => waiting.finish(Err(error), now, health),
    }
}

/// A value is longer than `max-value`.
pub(super) fn too_large(size: usize, max: usize) -> SourceError {
    SourceError::Refused(
        format!("ERR the source's value of {size} bytes is larger than allowed: {max} (max-value)").into(),
    )
}

impl Drop for Pipeline {
    /// Whatever is left here ends with the task: the fetches' waiters are released as they drop.
    fn drop(&mut self) {
        let left = self.sent.len() + self.again.len();
        self.settings.health.abandoned(left);
    }
}

/// Why a request failed that its deadline overtook.
pub(super) fn timed_out(limit: Duration, limits: &Limits) -> Arc<str> {
    let setting = if limit == limits.timeout { "source-timeout" } else { "source-slow-timeout" };
    format!("timed out after {limit:?} ({setting})").into()
}

/// Takes a reply out of the input: small ones are copied so that they do not hold on to the buffer.
fn take(input: &mut BytesMut, len: usize) -> Bytes {
    if len < LINKED {
        let reply = Bytes::copy_from_slice(&input[..len]);
        input.advance(len);
        reply
    } else {
        input.split_to(len).freeze()
    }
}

#[cfg(test)]
mod tests;
