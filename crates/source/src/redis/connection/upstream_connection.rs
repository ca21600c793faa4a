//! One core's handle on a connection to a Redis server.
use super::{
    reconnect::{connect_once, keep_connected},
    request_queue::RequestQueue,
};
use crate::{
    fetch::Fetch,
    push_queue::PushQueue,
    raw_replies::RawReplies,
    redis::{
        connection_settings::ConnectionSettings,
        queued_request::{FetchRedirector, QueuedFetch, QueuedRelay, QueuedRequest, RelayResult, UNTIL_PONG},
        upstream_handshake::{ConnectionMode, ConnectionPurpose},
    },
    source_error::SourceError,
    source_health::ConnectionHealth,
    upstream_commands::{BusyFor, framed_replies::may_break},
};
use bytes::Bytes;
use larder_base::buffers::{BufferKind, OpenFile};
use larder_store::clock;
use std::{
    cell::{Cell, RefCell},
    future::Future,
    rc::{Rc, Weak},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{sync::oneshot, task::AbortHandle, time::Instant};

/// One core's handle on a connection; dropping it ends the connection.
pub(crate) struct UpstreamConnection {
    inner: Rc<RequestQueue>,
    /// A reply may have broken the protocol, and no marker followed it.
    is_doubtful: Cell<bool>,
    /// Of a dedicated connection.
    file: Option<OpenFile>,
    task: AbortHandle,
}
impl UpstreamConnection {
    /// A connection for fetches. It connects now and reconnects after a loss, and counts for the
    /// source's health.
    pub(crate) fn fetching(
        settings: Arc<ConnectionSettings>,
        mode: ConnectionMode,
        keeps_replies: bool,
        redirector: Option<Weak<dyn FetchRedirector>>,
    ) -> UpstreamConnection {
        let health = Some(ConnectionHealth::new(settings.health.clone()));
        let purpose = ConnectionPurpose { fetches: true, keeps_replies };
        UpstreamConnection::spawn(settings, mode, purpose, redirector, move |inner| keep_connected(inner, health))
    }
    /// A shared connection for other commands. It reconnects, but does not count for the health.
    pub(crate) fn shared(settings: Arc<ConnectionSettings>, resp3: bool) -> UpstreamConnection {
        UpstreamConnection::spawn(settings, untracked(resp3), ConnectionPurpose::default(), None, |inner| {
            keep_connected(inner, None)
        })
    }
    /// A dedicated connection, which does not reconnect.
    ///
    /// # Errors
    /// The limit on open files leaves no room for it.
    pub(crate) fn dedicated(settings: Arc<ConnectionSettings>, resp3: bool) -> Result<UpstreamConnection, SourceError> {
        let file = settings.buffers.open_files().take_dedicated();
        let file = file.map_err(|reason| SourceError::Unavailable(reason.into()))?;
        let mut connection =
            UpstreamConnection::spawn(settings, untracked(resp3), ConnectionPurpose::default(), None, connect_once);
        connection.inner.pushes.note_client();
        connection.file = Some(file);
        Ok(connection)
    }
    /// The push messages of this connection.
    pub(crate) fn pushes(&self) -> &PushQueue {
        &self.inner.pushes
    }
    fn spawn<F: Future<Output = ()> + 'static>(
        settings: Arc<ConnectionSettings>,
        mode: ConnectionMode,
        purpose: ConnectionPurpose,
        redirector: Option<Weak<dyn FetchRedirector>>,
        run: impl FnOnce(Rc<RequestQueue>) -> F,
    ) -> UpstreamConnection {
        let inner = Rc::new(RequestQueue {
            number: settings.queue_number(),
            pushes: Rc::new(PushQueue::new(settings.limits.max_backlog)),
            settings,
            mode,
            purpose,
            redirector,
            requests: RefCell::default(),
            waker: Cell::default(),
            down: RefCell::default(),
        });
        let task = tokio::task::spawn_local(run(inner.clone())).abort_handle();
        UpstreamConnection { inner, is_doubtful: Cell::new(false), file: None, task }
    }

    /// Fails while the source is down.
    pub(crate) fn check(&self) -> Result<(), SourceError> {
        match &*self.inner.down.borrow() {
            Some(reason) => Err(SourceError::Unavailable(reason.clone())),
            None => Ok(()),
        }
    }

    /// Whether its next reply may be something else.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful.get()
    }

    /// Takes over admitted fetches.
    pub(crate) fn fetch(&self, batch: impl Iterator<Item = Fetch>) {
        let since = Instant::now();
        let deadline = since + self.inner.settings.limits.timeout;
        let queued = batch.map(|fetch| QueuedFetch::new(fetch, self.inner.number, since, deadline));
        if let Err(error) = self.check() {
            let now = clock::now();
            for queued in queued {
                self.inner.fail_fetch(queued, error.clone(), now);
            }
            return;
        }
        self.inner.requests.borrow_mut().extend(queued.map(QueuedRequest::Fetch));
        self.inner.wake();
    }

    /// Queues `count` encoded commands at once. Dropping the future does not withdraw them.
    pub(crate) fn relay(&self, commands: Bytes, count: usize) -> impl Future<Output = RelayResult> + use<> {
        self.relay_within(commands, count, self.inner.settings.limits.timeout)
    }
    /// Like [`relay`](UpstreamConnection::relay), with another limit than `source-timeout`.
    pub(crate) fn relay_within(
        &self,
        commands: Bytes,
        count: usize,
        limit: Duration,
    ) -> impl Future<Output = RelayResult> + use<> {
        self.relay_busy(commands, count, limit, None)
    }
    /// Like [`relay_within`](UpstreamConnection::relay_within), for commands that may keep the server
    /// busy.
    pub(crate) fn relay_busy(
        &self,
        commands: Bytes,
        count: usize,
        limit: Duration,
        busy: Option<BusyFor>,
    ) -> impl Future<Output = RelayResult> + use<> {
        let (sender, answer) = oneshot::channel();
        let settings = &self.inner.settings;
        let breaks = count != UNTIL_PONG && may_break(&commands);
        let may_break = breaks && settings.can_mark.load(Relaxed);
        self.is_doubtful.set(self.is_doubtful.get() || breaks && !may_break);
        // The commands may outlive the client that sent them.
        let commands = self.inner.settings.buffers.count(BufferKind::Relayed, commands);
        let deadline = Instant::now() + limit;
        let relay =
            QueuedRelay { commands, count, deadline, limit, may_break, busy, running: None, answer: Some(sender) };
        match self.check() {
            Err(error) => relay.finish(Err(error)),
            Ok(()) if count == 0 => relay.finish(Ok(RawReplies::default())),
            Ok(()) => {
                self.inner.requests.borrow_mut().push_back(QueuedRequest::Relay(relay));
                self.inner.wake();
            }
        }
        let inner = self.inner.clone();
        async move {
            let gone = |_| Err(SourceError::Lost("connection abandoned".into()));
            let answer = answer.await.unwrap_or_else(gone);
            if answer.is_err() {
                inner.settings.health.note_failed(count);
            }
            answer
        }
    }
}
fn untracked(resp3: bool) -> ConnectionMode {
    if resp3 { ConnectionMode::Resp3 } else { ConnectionMode::Resp2 }
}
impl Drop for UpstreamConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_limits::SourceLimits;
    use larder_base::buffers::Buffers;
    use larder_config::SourceUrl;

    /// Only a client's own connection stops to receive for the turns of the client.
    #[tokio::test]
    async fn a_dedicated_connection_is_known_to_be_a_clients_own() {
        let run = async {
            let Ok(SourceUrl::Redis(url)) = "unix:///nowhere".parse() else { panic!("a URL") };
            let limits = SourceLimits::SMALLEST;
            let settings = ConnectionSettings::new(&url, limits, Arc::default(), Buffers::unbounded());
            let settings = Arc::new(settings.expect("settings"));
            let own = UpstreamConnection::dedicated(settings.clone(), true).expect("a connection");
            assert!(own.pushes().is_of_client());
            assert!(!UpstreamConnection::shared(settings, true).pushes().is_of_client());
        };
        tokio::task::LocalSet::new().run_until(run).await;
    }
}
