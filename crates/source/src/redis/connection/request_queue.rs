//! The queue of one connection: requests wait here while the connection is made, and fail here
//! while the server is down.
use super::reconnect_backoff::DeadlineTimer;
use crate::{
    fetch_refusals::timeout_reason,
    push_queue::PushQueue,
    redis::{
        connection_settings::ConnectionSettings,
        queued_request::{FetchRedirector, QueuedFetch, QueuedRequest, fail},
        upstream_handshake::{ConnectionMode, ConnectionPurpose},
    },
    source_error::SourceError,
};
use larder_store::clock;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::pin,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Poll, Waker},
};
use tokio::time::Instant;

/// The state of one connection that outlives its socket.
pub(super) struct RequestQueue {
    pub(super) settings: Arc<ConnectionSettings>,
    pub(super) mode: ConnectionMode,
    pub(super) purpose: ConnectionPurpose,
    /// Takes over fetches that fail here, in a cluster.
    pub(super) redirector: Option<Weak<dyn FetchRedirector>>,
    /// The number of the queue; see [`Fetch::sent_through`](crate::Fetch::sent_through).
    pub(super) number: u32,
    pub(super) requests: RefCell<VecDeque<QueuedRequest>>,
    /// Push messages, if the connection is dedicated.
    pub(super) pushes: Rc<PushQueue>,
    /// Wakes the connection's task.
    pub(super) waker: Cell<Option<Waker>>,
    /// Why there is no connection, after a failed attempt.
    pub(super) down: RefCell<Option<Arc<str>>>,
}

impl RequestQueue {
    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Fails all queued requests, and new ones until [`go_up`](RequestQueue::go_up).
    pub(super) fn go_down(&self, reason: &Arc<str>) {
        *self.down.borrow_mut() = Some(reason.clone());
        self.settings.health.note_error(reason);
        let now = clock::now();
        let queue = std::mem::take(&mut *self.requests.borrow_mut());
        for request in queue {
            self.fail(request, reason, now);
        }
    }
    pub(super) fn go_up(&self) {
        *self.down.borrow_mut() = None;
    }

    /// Fails a request that was not sent.
    pub(super) fn fail(&self, request: QueuedRequest, reason: &Arc<str>, now: u64) {
        let error = SourceError::Unavailable(reason.clone());
        match request {
            QueuedRequest::Fetch(queued) => self.fail_fetch(queued, error, now),
            QueuedRequest::Relay(relay) => relay.finish(Err(error)),
        }
    }
    pub(super) fn fail_fetch(&self, queued: QueuedFetch, error: SourceError, now: u64) {
        fail(queued, error, self.redirector.as_ref(), now, &self.settings.health);
    }

    /// Fails queued requests that are past their deadline; `hint` follows the reason.
    pub(super) fn expire(&self, now: Instant, hint: &str) {
        let overdue = |queue: &mut VecDeque<QueuedRequest>| {
            let due = queue.front()?.deadline() <= now;
            due.then(|| queue.pop_front()).flatten()
        };
        let limits = &self.settings.limits;
        // Not `while let`: the queue must not stay borrowed while a request is failed.
        loop {
            let request = overdue(&mut self.requests.borrow_mut());
            let Some(request) = request else { return };
            let limit = if let QueuedRequest::Relay(relay) = &request { relay.limit } else { limits.timeout };
            let reason = format!("{}{hint}", timeout_reason(limit, limits));
            self.fail(request, &reason.into(), clock::now());
        }
    }

    /// The earliest deadline in the queue: the queue is in order of deadlines.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.requests.borrow().front().map(QueuedRequest::deadline)
    }

    /// Runs `work`, and fails queued requests at their deadlines meanwhile; `hint` follows the
    /// reason.
    pub(super) async fn meanwhile<F: Future>(&self, work: F, hint: &str) -> F::Output {
        let mut work = pin!(work);
        let mut timer = DeadlineTimer::new();
        poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            self.waker.set(Some(cx.waker().clone()));
            while timer.poll(cx, self.deadline()).is_ready() {
                self.expire(Instant::now(), hint);
            }
            Poll::Pending
        })
        .await
    }
}
impl Drop for RequestQueue {
    fn drop(&mut self) {
        let queue = self.requests.get_mut();
        let fetches = queue.iter().filter(|r| matches!(r, QueuedRequest::Fetch(_)));
        self.settings.health.abandoned(fetches.count());
    }
}
