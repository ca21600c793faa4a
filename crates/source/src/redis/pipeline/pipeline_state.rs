//! The state of a pipeline: what is in flight, and what happens to it when the connection is lost.
use super::{
    fetch_batch::FetchBatch,
    marked_replies::{Marker, Markers},
};
use crate::{
    fetch_refusals::timeout_reason,
    invalidation::InvalidationScope,
    push_queue::PushQueue,
    redis::{
        connection_settings::ConnectionSettings,
        queued_request::{FetchRedirector, QueuedFetch, QueuedRelay, QueuedRequest, fail},
    },
    source_error::SourceError,
};
use bytes::{Buf, Bytes, BytesMut};
use larder_base::buffers::BufferCharge;
use larder_engine::Millis;
use larder_proto::{
    output::UNCHECKED,
    resp::{Malformed, Scanner},
};
use larder_store::{StoredValue, clock};
use std::{
    collections::VecDeque,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Commands of this size or more are linked into the output, not copied.
pub(super) const LINKED: usize = 16 * 1024;
/// The rest of a value is read directly into its own buffer if at least this much is missing.
const DIRECT: usize = 32 * 1024;
/// A relayed reply may be this much larger than `max-value`.
const REPLY_MARGIN: usize = 64 * 1024 * 1024;

/// Prefix of the error of a server that needs authentication.
pub(super) const NO_AUTH: &[u8] = b"-NOAUTH ";

/// The reason when the server breaks the protocol.
pub(crate) const CONFUSED: &str = "the source's replies are not those of a Redis server";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Protocol {
    pub(crate) resp3: bool,
    /// Whether the other version can be used inside a transaction.
    pub(crate) switches: bool,
}

/// A request whose replies are still to come.
pub(super) enum PipelinedRequest {
    Batch(FetchBatch),
    Relay { relay: QueuedRelay, replies: BytesMut, ends: Vec<usize>, marker: Option<Marker> },
}

/// The first reply in the input.
pub(super) enum Scanned {
    /// It has this length.
    Reply(usize),
    /// It is incomplete.
    Part,
    /// It was too long and was skipped; this error replaces it.
    TooLong(Bytes),
}

/// A value that is only partly read.
pub(super) struct LargeBody {
    pub(super) value: Vec<u8>,
    pub(super) missing: usize,
    /// The announced length is on the account from the first byte on, so that values which arrive
    /// together fit together.
    pub(super) charge: Option<BufferCharge>,
    /// The value is too large: its bytes are skipped, and this is the answer.
    pub(super) refused: Option<SourceError>,
}

/// The requests in flight on one connection, and the state of the reply that is being read.
pub(crate) struct Pipeline {
    pub(super) settings: Arc<ConnectionSettings>,
    /// If the connection tracks: the keys whose changes are announced.
    pub(super) scope: Option<InvalidationScope>,
    pub(super) protocol: Protocol,
    /// Push messages for the client, if the connection is dedicated.
    pub(super) pushes: Rc<PushQueue>,
    pub(super) in_flight: VecDeque<PipelinedRequest>,
    /// How many of `in_flight` are slow commands.
    pub(super) slow: usize,
    /// Fetches of the batches in `in_flight`, in order.
    pub(super) sent: VecDeque<QueuedFetch>,
    pub(super) body: Option<LargeBody>,
    pub(super) scanner: Scanner,
    pub(super) markers: Markers,
    /// The current reply is too long and is skipped.
    pub(super) skipping: bool,
    /// Or there is no room for it: what its client is told.
    pub(super) refused: Option<String>,
    /// A reply says that authentication is missing. A script may return the same text, so a probe
    /// must check.
    pub(super) auth_doubted: bool,
    /// The probe's error, if authentication is missing.
    pub(super) auth_error: Option<Arc<str>>,
    /// Push messages received.
    pub(super) push_count: u64,
    /// When a part of a reply was last received.
    pub(super) progress: Option<Instant>,
    /// When the input that is being processed was read. One reading of the clock for all replies
    /// in it.
    pub(super) read_at: Instant,
    /// Answered fetches that the source's health does not count yet: how many, and how long each
    /// took. Those that were queued together are counted together.
    pub(super) answered: (usize, Duration),
    /// Fetches to send again, in order.
    pub(super) resend: Vec<QueuedFetch>,
    /// In a cluster: takes over unanswered fetches.
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
            markers: Markers::default(),
            skipping: false,
            refused: None,
            auth_doubted: false,
            auth_error: None,
            push_count: 0,
            progress: None,
            read_at: Instant::now(),
            answered: (0, Duration::ZERO),
            resend: Vec::new(),
            redirector,
        }
    }

    /// Whether replies are still to come.
    pub(crate) fn has_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// The earliest deadline of the requests in flight, which are in order of deadlines. It is
    /// extended while replies keep coming: a request behind a long reply would otherwise end
    /// the connection, with the requests of all clients on it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let deadline = match self.in_flight.front()? {
            PipelinedRequest::Batch(_) => self.sent.front()?.deadline,
            PipelinedRequest::Relay { relay, marker, .. } => {
                if let Some(until) = marker.as_ref().and_then(Marker::until) {
                    return Some(until);
                }
                relay.deadline
            }
        };
        // A server that reads both commands at once may answer the first only together with the slow one
        // behind it.
        let deadline = self.slow_deadline().map_or(deadline, |slow| slow.max(deadline));
        let limits = &self.settings.limits;
        let patience = self.progress.map(|progress| (progress + limits.timeout).min(deadline + limits.slow_timeout));
        Some(patience.map_or(deadline, |patience| patience.max(deadline)))
    }
    /// The deadline of the first slow command in flight.
    fn slow_deadline(&self) -> Option<Instant> {
        let slow = |in_flight: &PipelinedRequest| match in_flight {
            PipelinedRequest::Relay { relay, .. } if relay.is_slow(&self.settings.limits) => Some(relay.deadline),
            PipelinedRequest::Relay { .. } | PipelinedRequest::Batch(_) => None,
        };
        if self.slow == 0 { None } else { self.in_flight.iter().find_map(slow) }
    }
    /// The reason when that deadline is past.
    pub(crate) fn timeout_reason(&self) -> Arc<str> {
        let limits = &self.settings.limits;
        match self.in_flight.front() {
            Some(PipelinedRequest::Relay { .. }) if self.is_in_doubt() => "the source refuses ECHO".into(),
            Some(PipelinedRequest::Relay { relay, .. }) => timeout_reason(relay.limit, limits),
            _ => timeout_reason(limits.timeout, limits),
        }
    }

    /// The buffer for the next bytes if they belong to a large value, and how many are missing;
    /// else they go into the input buffer.
    pub(crate) fn direct(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let body = self.body.as_mut()?;
        (body.missing >= DIRECT && body.refused.is_none()).then_some((&mut body.value, body.missing))
    }
    /// This many bytes were read into [`direct`](Pipeline::direct).
    pub(crate) fn direct_read(&mut self, bytes: usize) {
        if let Some(body) = &mut self.body {
            body.missing -= bytes;
        }
    }

    /// Bytes of incomplete replies. An incomplete value has its own charge.
    pub(crate) fn buffered_bytes(&self) -> usize {
        match self.in_flight.front() {
            Some(PipelinedRequest::Relay { replies, .. }) => replies.capacity(),
            Some(PipelinedRequest::Batch(_)) | None => 0,
        }
    }

    /// Finds the end of the first reply in the first `visible` bytes of `input`; skips a reply that
    /// is too long, or that does not fit into the rest of `max-buffers`.
    pub(super) fn scan(&mut self, input: &mut BytesMut, visible: usize) -> Result<Scanned, Malformed> {
        if !self.skipping {
            match self.scanner.scan(&input[..visible]) {
                Ok(Some(len)) => return Ok(Scanned::Reply(len)),
                Ok(None) => {
                    let (missing, buffers) = (self.scanner.missing(visible), &self.settings.buffers);
                    if visible.saturating_add(missing) < UNCHECKED || buffers.room() >= missing.max(UNCHECKED) {
                        return Ok(Scanned::Part);
                    }
                    buffers.note_refused();
                    self.skipping = true;
                    let limit = buffers.limit();
                    self.refused = Some(format!(
                        "-ERR the source's reply does not fit into the buffers now, which may hold {limit} (max-buffers)\r\n"
                    ));
                }
                Err(_) if self.scanner.is_too_long() => self.skipping = true,
                Err(malformed) => return Err(malformed),
            }
        }
        let (len, ended) = self.scanner.skip(&input[..visible])?;
        input.advance(len);
        if !ended {
            return Ok(Scanned::Part);
        }
        self.skipping = false;
        let max = self.max_reply();
        let too_long = || format!("-ERR the source's reply is longer than {max} bytes (follows from max-value)\r\n");
        Ok(Scanned::TooLong(self.refused.take().unwrap_or_else(too_long).into()))
    }

    fn max_reply(&self) -> usize {
        self.settings.limits.max_value.saturating_add(REPLY_MARGIN)
    }
    /// The next byte begins a reply.
    pub(super) fn reset_scanner(&mut self) {
        self.scanner = Scanner::new(self.max_reply());
    }

    /// Notes a reply to a client's command that says that authentication is missing.
    pub(super) fn note_auth(&mut self, reply: &[u8]) {
        self.auth_doubted |= reply.starts_with(NO_AUTH);
    }
    /// Whether a probe must check the authentication; resets the flag.
    pub(crate) fn take_auth_doubt(&mut self) -> bool {
        std::mem::take(&mut self.auth_doubted)
    }
    /// The authentication error, if the connection has lost its authentication.
    pub(crate) fn auth_error(&mut self) -> Option<Arc<str>> {
        self.auth_error.take()
    }

    /// Puts the fetches to send again at the front of the queue.
    pub(crate) fn requeue(&mut self, queue: &mut VecDeque<QueuedRequest>) {
        while let Some(mut queued) = self.resend.pop() {
            // Later fetches may have been sent before it, so it needs a new queue number.
            queued.queue = self.settings.queue_number();
            queue.push_front(QueuedRequest::Fetch(queued));
        }
    }

    /// The connection is lost: requests in flight fail, and fetches are sent again once.
    pub(crate) fn lost(mut self, reason: &Arc<str>, now: Instant, queue: &mut VecDeque<QueuedRequest>) {
        let millis = clock::now();
        let limits = self.settings.limits;
        let why = |deadline, limit| if deadline <= now { timeout_reason(limit, &limits) } else { reason.clone() };
        let mut gone = Vec::new();
        for in_flight in std::mem::take(&mut self.in_flight) {
            match in_flight {
                PipelinedRequest::Relay { relay, replies, ends, marker } => {
                    let lost = Err(SourceError::Lost(why(relay.deadline, relay.limit)));
                    relay.finish(match marker {
                        Some(marker) => marker.unseen(replies, ends, lost),
                        None => lost,
                    });
                }
                PipelinedRequest::Batch(batch) => {
                    for mut queued in self.sent.drain(..batch.left.min(self.sent.len())) {
                        if queued.retried || queued.deadline <= now || !self.settings.health.may_retry() {
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

    pub(super) fn finish(
        &mut self,
        queued: QueuedFetch,
        answer: Result<Option<StoredValue>, SourceError>,
        now: Millis,
    ) {
        match answer {
            Err(error) => {
                self.count_answered();
                fail(queued, error, self.redirector.as_ref(), now, &self.settings.health);
            }
            answer => {
                let took = self.read_at.saturating_duration_since(queued.since);
                if self.answered.1 != took {
                    self.count_answered();
                }
                self.answered = (self.answered.0 + 1, took);
                // The caller with the last answer finds all of them counted.
                if self.sent.is_empty() {
                    self.count_answered();
                }
                queued.fetch.finish_at(answer, now, self.read_at.into_std());
            }
        }
    }

    /// Has the source's health count the answered fetches.
    pub(super) fn count_answered(&mut self) {
        let (count, took) = std::mem::take(&mut self.answered);
        if count > 0 {
            self.settings.health.answered_all(count, took, self.read_at.into_std());
        }
    }
}

impl Drop for Pipeline {
    /// Fetches that are left end with the task: dropping them releases their waiters.
    fn drop(&mut self) {
        self.count_answered();
        let left = self.sent.len() + self.resend.len();
        self.settings.health.abandoned(left);
    }
}

/// Takes a reply out of the input. Small replies are copied, so that they do not keep the buffer
/// alive.
pub(super) fn take(input: &mut BytesMut, len: usize) -> Bytes {
    if len < LINKED {
        let reply = Bytes::copy_from_slice(&input[..len]);
        input.advance(len);
        reply
    } else {
        input.split_to(len).freeze()
    }
}
