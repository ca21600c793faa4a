//! The state of a pipeline: what is in flight, and what happens to it when the connection is lost.
use super::fetch_batch::FetchBatch;
use crate::source::{
    fetch_result::FetchedValue,
    invalidation::InvalidationScope,
    push_queue::PushQueue,
    redis::{
        connection_settings::ConnectionSettings,
        queued_request::{FetchRedirector, QueuedFetch, QueuedRelay, Request, fail, timeout_reason},
    },
    source_error::SourceError,
};
use bytes::{Buf, Bytes, BytesMut};
use larder_engine::Millis;
use larder_proto::resp::{Malformed, Scanner};
use larder_store::clock;
use std::{
    collections::VecDeque,
    rc::{Rc, Weak},
    sync::Arc,
};
use tokio::time::Instant;

/// Commands from this size on are linked into the output, not copied.
pub(super) const LINKED: usize = 16 * 1024;
/// The rest of a value is read straight into its own buffer if this much is missing; less comes with what follows it.
const DIRECT: usize = 32 * 1024;
/// What a reply to a verbatim command may measure beyond `max-value`.
const REPLY_MARGIN: usize = 64 * 1024 * 1024;

/// How a server begins that wants a password first.
pub(super) const NO_AUTH: &[u8] = b"-NOAUTH ";

/// The other end does not speak the protocol, or not in this order.
pub(crate) const CONFUSED: &str = "the source's replies are not those of a Redis server";

/// What a connection speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Protocol {
    pub(crate) resp3: bool,
    /// The other version can be had within a transaction.
    pub(crate) switches: bool,
}

/// What the next replies belong to.
pub(super) enum InFlight {
    Batch(FetchBatch),
    Relay { relay: QueuedRelay, replies: BytesMut, ends: Vec<usize> },
}

/// The reply that the input begins with.
pub(super) enum Scanned {
    /// Has this length.
    Reply(usize),
    /// Is not all there.
    Part,
    /// Was longer than allowed and is gone; this stands for it.
    TooLong(Bytes),
}

/// A value that is larger than what was read of it.
pub(super) struct Body {
    pub(super) value: Vec<u8>,
    pub(super) missing: usize,
    /// Larger than `max-value`: thrown away, answered with this.
    pub(super) refused: Option<SourceError>,
}

/// The state of one connection.
pub(crate) struct Pipeline {
    pub(super) settings: Arc<ConnectionSettings>,
    /// On this connection the server announces changes.
    pub(super) scope: Option<InvalidationScope>,
    pub(super) protocol: Protocol,
    /// What it says to a client whose own it is.
    pub(super) pushes: Rc<PushQueue>,
    pub(super) in_flight: VecDeque<InFlight>,
    /// How many of `in_flight` are slow calls.
    pub(super) slow: usize,
    /// Fetches of the batches in `in_flight`, in order.
    pub(super) sent: VecDeque<QueuedFetch>,
    pub(super) body: Option<Body>,
    pub(super) scanner: Scanner,
    /// The reply that comes is too long: thrown away as it comes.
    pub(super) skipping: bool,
    /// A reply says that we are not let in (any more). A script may say so as well: the server itself is to be asked.
    pub(super) auth_doubted: bool,
    /// It has said so.
    pub(super) auth_error: Option<Arc<str>>,
    /// Messages that came pushes.
    pub(super) push_count: u64,
    /// When a part of a reply last came.
    pub(super) progress: Option<Instant>,
    /// Fetches to be sent again, in order.
    pub(super) resend: Vec<QueuedFetch>,
    /// For a node of a cluster: who takes over what it does not answer.
    pub(super) redirector: Option<Weak<dyn FetchRedirector>>,
}

impl Pipeline {
    pub(crate) fn new(
        settings: Arc<ConnectionSettings>,
        scope: Option<InvalidationScope>,
        pushes: Rc<PushQueue>,
        protocol: Protocol,
        redirector: Option<Weak<dyn FetchRedirector>>,
    ) -> Pipeline {
        let max_reply = settings.limits.max_value.saturating_add(REPLY_MARGIN);
        Pipeline {
            settings,
            scope,
            protocol,
            pushes,
            in_flight: VecDeque::new(),
            slow: 0,
            sent: VecDeque::new(),
            body: None,
            scanner: Scanner::new(max_reply),
            skipping: false,
            auth_doubted: false,
            auth_error: None,
            push_count: 0,
            progress: None,
            resend: Vec::new(),
            redirector,
        }
    }

    /// Are replies still to come?
    pub(crate) fn has_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// The earliest deadline of what was sent: requests are sent in the order of their deadlines. As long as replies keep coming, what waits
    /// behind a long one is not given up: for that the connection would be, with the requests of all clients on it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let deadline = match self.in_flight.front()? {
            InFlight::Batch(_) => self.sent.front()?.deadline,
            InFlight::Relay { relay, .. } => relay.deadline,
        };
        // A server that reads both at once answers the first one together with the slow one behind it.
        let deadline = self.slow_deadline().map_or(deadline, |slow| slow.max(deadline));
        let limits = &self.settings.limits;
        let patience = self.progress.map(|progress| (progress + limits.timeout).min(deadline + limits.slow_timeout));
        Some(patience.map_or(deadline, |patience| patience.max(deadline)))
    }
    /// The deadline of the first slow call that is in_flight.
    fn slow_deadline(&self) -> Option<Instant> {
        let slow = |in_flight: &InFlight| match in_flight {
            InFlight::Relay { relay, .. } if relay.is_slow(&self.settings.limits) => Some(relay.deadline),
            InFlight::Relay { .. } | InFlight::Batch(_) => None,
        };
        if self.slow == 0 { None } else { self.in_flight.iter().find_map(slow) }
    }
    /// Why it fails when that is past.
    pub(crate) fn timeout_reason(&self) -> Arc<str> {
        let limits = &self.settings.limits;
        match self.in_flight.front() {
            Some(InFlight::Relay { relay, .. }) => timeout_reason(relay.limit, limits),
            _ => timeout_reason(limits.timeout, limits),
        }
    }

    /// Where the next bytes from the socket go, if not into the input buffer: the rest of a large value, and how much.
    pub(crate) fn direct(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let body = self.body.as_mut()?;
        (body.missing >= DIRECT && body.refused.is_none()).then_some((&mut body.value, body.missing))
    }
    /// So many bytes were read to where [`direct`](Pipeline::direct) said.
    pub(crate) fn direct_read(&mut self, bytes: usize) {
        if let Some(body) = &mut self.body {
            body.missing -= bytes;
        }
    }

    /// Bytes of a value or of replies that are not complete.
    pub(crate) fn buffered_bytes(&self) -> usize {
        let replies = match self.in_flight.front() {
            Some(InFlight::Relay { replies, .. }) => replies.capacity(),
            Some(InFlight::Batch(_)) | None => 0,
        };
        self.body.as_ref().map_or(0, |body| body.value.len()) + replies
    }

    /// Looks for the end of the reply that `input` begins with; throws away one that is too long.
    pub(super) fn scan(&mut self, input: &mut BytesMut) -> Result<Scanned, Malformed> {
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

    /// Is the server to be asked whether we are let in?
    pub(crate) fn take_auth_doubt(&mut self) -> bool {
        std::mem::take(&mut self.auth_doubted)
    }
    /// Why the connection is of no use any more, if so it says.
    pub(crate) fn auth_error(&mut self) -> Option<Arc<str>> {
        self.auth_error.take()
    }

    /// Puts the fetches that are to be sent again before all others.
    pub(crate) fn requeue(&mut self, queue: &mut VecDeque<Request>) {
        while let Some(mut queued) = self.resend.pop() {
            // Fetches that began later may have been sent before it is now.
            queued.queue = self.settings.queue_number();
            queue.push_front(Request::Fetch(queued));
        }
    }

    /// The connection is gone for `reason`: what was in_flight is answered, or goes (once) again.
    pub(crate) fn lost(mut self, reason: &Arc<str>, now: Instant, queue: &mut VecDeque<Request>) {
        let millis = clock::now();
        let limits = self.settings.limits;
        let why = |deadline, limit| if deadline <= now { timeout_reason(limit, &limits) } else { reason.clone() };
        let mut gone = Vec::new();
        for in_flight in std::mem::take(&mut self.in_flight) {
            match in_flight {
                InFlight::Relay { relay, .. } => {
                    let reason = why(relay.deadline, relay.limit);
                    relay.finish(Err(SourceError::Lost(reason)));
                }
                InFlight::Batch(batch) => {
                    for mut queued in self.sent.drain(..batch.left.min(self.sent.len())) {
                        if queued.retried || queued.deadline <= now {
                            let error = SourceError::Unavailable(why(queued.deadline, limits.timeout));
                            gone.push((queued, error));
                        } else {
                            queued.retried = true;
                            self.resend.push(queued);
                        }
                    }
                }
            }
        }
        self.requeue(queue);
        gone.into_iter().for_each(|(queued, error)| self.finish(queued, Err(error), millis));
    }

    pub(super) fn finish(&self, queued: QueuedFetch, answer: Result<Option<FetchedValue>, SourceError>, now: Millis) {
        match answer {
            Err(error) => fail(queued, error, self.redirector.as_ref(), now, &self.settings.health),
            answer => queued.finish(answer, now, &self.settings.health),
        }
    }
}

impl Drop for Pipeline {
    /// Whatever is left here ends with the task: the fetches' waiters are released as they drop.
    fn drop(&mut self) {
        let left = self.sent.len() + self.resend.len();
        self.settings.health.abandoned(left);
    }
}

/// Takes a reply out of the input: small ones are copied so that they do not hold on to the buffer.
pub(super) fn take(input: &mut BytesMut, len: usize) -> Bytes {
    if len < LINKED {
        let reply = Bytes::copy_from_slice(&input[..len]);
        input.advance(len);
        reply
    } else {
        input.split_to(len).freeze()
    }
}
