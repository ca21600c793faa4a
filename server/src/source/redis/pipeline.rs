//! The bytes of a connection: requests out, replies in, in order. No I/O in here.
mod answers;
mod batch;

use super::{
    Settings,
    cluster::Elsewhere,
    request::{Call, Request, UNTIL_PONG, Waiting, fail, timed_out},
};
use crate::{
    buffers::BufferKind,
    source::{FetchedValue, InvalidationScope, PushQueue, RawReplies, SourceError, answers_ping},
};
use batch::{Batch, Stage};
use bytes::{Buf, Bytes, BytesMut};
use larder_engine::Millis;
use larder_proto::resp::{Malformed, Scanner, View, view};
use larder_store::clock;
use std::{
    collections::VecDeque,
    rc::{Rc, Weak},
    sync::Arc,
};
use tokio::time::Instant;

/// Commands from this size on are linked into the output, not copied.
const LINKED: usize = 16 * 1024;
/// The rest of a value is read straight into its own buffer if this much is missing; less comes with what follows it.
const DIRECT: usize = 32 * 1024;
/// What a reply to a verbatim command may measure beyond `max-value`.
const REPLY_MARGIN: usize = 64 * 1024 * 1024;

/// How a server begins that wants a password first.
const NO_AUTH: &[u8] = b"-NOAUTH ";

/// The other end does not speak the protocol, or not in this order.
pub(super) const CONFUSED: &str = "the source's replies are not those of a Redis server";

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

/// The reply that the input begins with.
enum Scanned {
    /// Has this length.
    Reply(usize),
    /// Is not all there.
    Part,
    /// Was longer than allowed and is gone; this stands for it.
    TooLong(Bytes),
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
    watch: Option<InvalidationScope>,
    protocol: Protocol,
    /// What it says to a client whose own it is.
    unasked: Rc<PushQueue>,
    owed: VecDeque<Owed>,
    /// How many of `owed` are slow calls.
    slow: usize,
    /// Fetches of the batches in `owed`, in order.
    sent: VecDeque<Waiting>,
    body: Option<Body>,
    scanner: Scanner,
    /// The reply that comes is too long: thrown away as it comes.
    skipping: bool,
    /// A reply says that we are not let in (any more). A script may say so as well: the server itself is to be asked.
    doubted: bool,
    /// It has said so.
    shut_out: Option<Arc<str>>,
    /// Messages that came unasked.
    pushes: u64,
    /// When a part of a reply last came.
    progress: Option<Instant>,
    /// Fetches to be sent again, in order.
    again: Vec<Waiting>,
    /// For a node of a cluster: who takes over what it does not answer.
    elsewhere: Option<Weak<dyn Elsewhere>>,
}

impl Pipeline {
    pub(super) fn new(
        settings: Arc<Settings>,
        watch: Option<InvalidationScope>,
        unasked: Rc<PushQueue>,
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
            slow: 0,
            sent: VecDeque::new(),
            body: None,
            scanner: Scanner::new(max_reply),
            skipping: false,
            doubted: false,
            shut_out: None,
            pushes: 0,
            progress: None,
            again: Vec::new(),
            elsewhere,
        }
    }

    /// Are replies still to come?
    pub(super) fn is_owed(&self) -> bool {
        !self.owed.is_empty()
    }

    /// The earliest deadline of what was sent: requests are sent in the order of their deadlines. As long as replies keep coming, what waits
    /// behind a long one is not given up: for that the connection would be, with the requests of all clients on it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadline = match self.owed.front()? {
            Owed::Batch(_) => self.sent.front()?.deadline,
            Owed::Call { call, .. } => call.deadline,
        };
        // A server that reads both at once answers the first one together with the slow one behind it.
        let deadline = self.slow_deadline().map_or(deadline, |slow| slow.max(deadline));
        let limits = &self.settings.limits;
        let patience = self.progress.map(|progress| (progress + limits.timeout).min(deadline + limits.slow_timeout));
        Some(patience.map_or(deadline, |patience| patience.max(deadline)))
    }
    /// The deadline of the first slow call that is owed.
    fn slow_deadline(&self) -> Option<Instant> {
        let slow = |owed: &Owed| match owed {
            Owed::Call { call, .. } if call.is_slow(&self.settings.limits) => Some(call.deadline),
            Owed::Call { .. } | Owed::Batch(_) => None,
        };
        if self.slow == 0 { None } else { self.owed.iter().find_map(slow) }
    }
    /// Why it fails when that is past.
    pub(super) fn timed_out(&self) -> Arc<str> {
        let limits = &self.settings.limits;
        match self.owed.front() {
            Some(Owed::Call { call, .. }) => timed_out(call.limit, limits),
            _ => timed_out(limits.timeout, limits),
        }
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

    /// Bytes of a value or of replies that are not complete.
    pub(super) fn held(&self) -> usize {
        let replies = match self.owed.front() {
            Some(Owed::Call { replies, .. }) => replies.capacity(),
            Some(Owed::Batch(_)) | None => 0,
        };
        self.body.as_ref().map_or(0, |body| body.value.len()) + replies
    }

    /// Takes in what was read, as far as it goes; then see [`requeue`](Pipeline::requeue).
    pub(super) fn receive(&mut self, input: &mut BytesMut) -> Result<(), Malformed> {
        let now = clock::now();
        let pushes = self.pushes;
        let mut steps = 0;
        while self.step(input, now)? {
            steps += 1;
        }
        // A message that came unasked answers nothing.
        let part = self.body.is_some() || self.skipping || input.first().is_some_and(|&byte| byte != b'>');
        if part || steps > self.pushes - pushes {
            self.progress = Some(Instant::now());
        }
        Ok(())
    }

    /// Looks for the end of the reply that `input` begins with; throws away one that is too long.
    fn scan(&mut self, input: &mut BytesMut) -> Result<Scanned, Malformed> {
        if !self.skipping {
            match self.scanner.scan(input) {
                Ok(Some(len)) => return Ok(Scanned::Reply(len)),
                Ok(None) => return Ok(Scanned::Part),
                Err(_) if self.scanner.is_too_long() => self.skipping = true,
                Err(malformed) => return Err(malformed),
            }
        }
        let (len, ended) = self.scanner.skip(input)?;
        input.advance(len);
        if !ended {
            return Ok(Scanned::Part);
        }
        self.skipping = false;
        let max = self.settings.limits.max_value.saturating_add(REPLY_MARGIN);
        Ok(Scanned::TooLong(
            format!("-ERR the source's reply is longer than {max} bytes (follows from max-value)\r\n").into(),
        ))
    }

    /// Takes one reply, or one part of a batch's; false when there is not enough input.
    fn step(&mut self, input: &mut BytesMut, now: Millis) -> Result<bool, Malformed> {
        let unasked = match input.first() {
            _ if self.skipping => false,
            Some(b'>') => self.is_between_replies(),
            Some(b'+') => self.unasked.are_lines_expected() && input.get(1).is_some_and(u8::is_ascii_digit),
            _ => false,
        };
        if unasked {
            let Some(len) = self.scanner.scan(input)? else {
                return Ok(false);
            };
            self.pushed(&input[..len])?;
            self.pushes += 1;
            input.advance(len);
            return Ok(true);
        }
        match self.owed.front_mut() {
            None if input.is_empty() => Ok(false),
            None => Err(Malformed),
            Some(Owed::Call { .. }) => {
                let scanned = self.scan(input)?;
                let Some(Owed::Call { call, replies, ends }) = self.owed.front_mut() else { return Ok(false) };
                match scanned {
                    Scanned::Part => return Ok(false),
                    Scanned::TooLong(error) => replies.extend_from_slice(&error),
                    Scanned::Reply(len) if len >= LINKED && replies.is_empty() => *replies = input.split_to(len),
                    Scanned::Reply(len) => {
                        // Copied: small ones do not hold on to the buffer, and those of one call lie together.
                        replies.extend_from_slice(&input[..len]);
                        input.advance(len);
                    }
                }
                ends.push(replies.len());
                let over = match call.count {
                    UNTIL_PONG => {
                        let last = ends.iter().rev().nth(1).unwrap_or(&0);
                        answers_ping(&replies[*last..])
                    }
                    count => ends.len() == count,
                };
                let begin = ends.iter().rev().nth(1).copied().unwrap_or(0);
                let noauth = replies[begin..].starts_with(NO_AUTH);
                if call.answer.is_some() {
                    self.unasked.note_reply();
                    self.doubted |= noauth;
                } else if noauth {
                    self.shut_out = Some(String::from_utf8_lossy(replies[1..].trim_ascii_end()).into());
                }
                if over && let Some(Owed::Call { call, replies, ends }) = self.owed.pop_front() {
                    let bytes = self.settings.buffers.count(BufferKind::Fetched, replies);
                    self.slow -= usize::from(call.is_slow(&self.settings.limits));
                    call.finish(Ok(RawReplies { bytes, ends }));
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

    /// Is the server to be asked whether we are let in?
    pub(super) fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.doubted)
    }
    /// Why the connection is of no use any more, if so it says.
    pub(super) fn shut_out(&mut self) -> Option<Arc<str>> {
        self.shut_out.take()
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

    fn finish(&self, waiting: Waiting, answer: Result<Option<FetchedValue>, SourceError>, now: Millis) {
        match answer {
            Err(error) => fail(waiting, error, self.elsewhere.as_ref(), now, &self.settings.health),
            answer => waiting.finish(answer, now, &self.settings.health),
        }
    }
}

impl Drop for Pipeline {
    /// Whatever is left here ends with the task: the fetches' waiters are released as they drop.
    fn drop(&mut self) {
        let left = self.sent.len() + self.again.len();
        self.settings.health.abandoned(left);
    }
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
