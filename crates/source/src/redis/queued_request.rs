//! Requests in the queue of a connection: fetches, and relayed commands.
use crate::{
    admission::FetchEnd, busy_server::BusyCommand, fetch::Fetch, fetch_result::FetchedReply, raw_replies::RawReplies,
    source_error::SourceError, source_health::SourceHealth, source_limits::SourceLimits, upstream_commands::BusyFor,
};
use bytes::Bytes;
use larder_engine::Millis;
use larder_store::StoredValue;
use std::{rc::Weak, time::Duration};
use tokio::{sync::oneshot, time::Instant};

/// PTTL's answer for a key that never expires (-2: there is no key).
pub(super) const NO_EXPIRY: i64 = -1;
/// The count of a command with unknown replies: they end with the reply to a `PING`.
pub(super) const UNTIL_PONG: usize = usize::MAX;

/// A request that waits to be sent.
pub(super) enum QueuedRequest {
    Fetch(QueuedFetch),
    Relay(QueuedRelay),
}
impl QueuedRequest {
    pub(super) fn deadline(&self) -> Instant {
        match self {
            QueuedRequest::Fetch(queued) => queued.deadline,
            QueuedRequest::Relay(relay) => relay.deadline,
        }
    }
}

/// A fetch that waits for its answer.
pub(super) struct QueuedFetch {
    pub(super) fetch: Fetch,
    /// The number of its queue.
    pub(super) queue: u32,
    /// When it was queued; earlier, if an ordered fault has held it back.
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    /// Whether it was sent before, on a connection that was lost.
    pub(super) retried: bool,
}
impl QueuedFetch {
    pub(super) fn new(fetch: Fetch, queue: u32, since: Instant, deadline: Instant) -> QueuedFetch {
        let since = since.checked_sub(fetch.held_back()).unwrap_or(since);
        QueuedFetch { fetch, queue, since, deadline, retried: false }
    }
    pub(super) fn finish_reply(self, found: FetchedReply, (now, at): (Millis, Instant), health: &SourceHealth) {
        let end = if found.is_error() { FetchEnd::Refused } else { FetchEnd::Answered };
        health.finished_at(end, at.saturating_duration_since(self.since), at.into_std());
        self.fetch.finish_reply(found, now);
    }
    pub(super) fn finish(self, answer: Result<Option<StoredValue>, SourceError>, now: Millis, health: &SourceHealth) {
        let at = Instant::now();
        health.finished_at(FetchEnd::of(&answer), at.saturating_duration_since(self.since), at.into_std());
        self.fetch.finish_at(answer, now, at.into_std());
    }
}

/// Encoded commands that wait for their replies.
pub(super) struct QueuedRelay {
    pub(super) commands: Bytes,
    pub(super) count: usize,
    pub(super) deadline: Instant,
    /// The time limit behind `deadline`.
    pub(super) limit: Duration,
    /// Whether a reply may break the protocol. A marker then follows the commands.
    pub(super) may_break: bool,
    /// How long they may keep the server busy.
    pub(super) busy: Option<BusyFor>,
    /// That they do so, once they are written.
    pub(super) running: Option<BusyCommand>,
    /// `None` for a probe.
    pub(super) answer: Option<oneshot::Sender<RelayResult>>,
}
pub(super) type RelayResult = Result<RawReplies, SourceError>;
impl QueuedRelay {
    /// One command of Larder's own, whose reply only shows that the server answers.
    pub(super) fn probe(commands: Bytes, deadline: Instant, limit: Duration) -> QueuedRelay {
        QueuedRelay { commands, count: 1, deadline, limit, may_break: false, busy: None, running: None, answer: None }
    }
    /// Whether it may take longer than `source-timeout`.
    pub(super) fn is_slow(&self, limits: &SourceLimits) -> bool {
        self.limit > limits.timeout
    }
    pub(super) fn finish(self, answer: RelayResult) {
        if let Some(running) = self.running.filter(|_| answer.is_ok()) {
            running.end(std::time::Instant::now());
        }
        if let Some(sender) = self.answer {
            // The client may be gone.
            let _ = sender.send(answer);
        }
    }
}

/// Takes over fetches that a node of a cluster did not answer.
pub(super) trait FetchRedirector {
    /// Fetches at another node, or finishes the fetch with `error`.
    fn redirect(&self, fetch: QueuedFetch, error: SourceError);
}

/// Fails a fetch; in a cluster it may be redirected to another node.
pub(super) fn fail(
    queued: QueuedFetch,
    error: SourceError,
    redirector: Option<&Weak<dyn FetchRedirector>>,
    now: Millis,
    health: &SourceHealth,
) {
    match redirector.and_then(Weak::upgrade) {
        Some(cluster) => cluster.redirect(queued, error),
        None => queued.finish(Err(error), now, health),
    }
}
