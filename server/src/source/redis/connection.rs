//! A connection and the task that owns it: queue, deadlines, and coming back after a loss.
//!
//! ```text
//!            ┌──────────── lost: fetches owed go again ───────────┐
//!            ▼                                                    │
//!   ( connecting: requests queue ) ── success ──► ( talking: requests are sent )
//!            │ failed: all that is queued fails
//!            ▼
//!   ( down: requests fail at once; tries again, 50 ms to 2 s apart ) ── success ──► talking
//! ```
//!
//! Where one connection gets through, all others of the source try at once: a client that has read again can write.
mod io;
mod timing;

use super::{
    Settings,
    cluster::Elsewhere,
    connect::{Stream, connect},
    handshake::{Hello, Purpose, Shaken, Unshaken, reason, shake_hands},
    password,
    pipeline::{Pipeline, Protocol},
    request::{Answer, Call, Request, Waiting, fail, timed_out},
    sentinel::Master,
};
use crate::{
    buffers::BufferKind,
    config::Secret,
    source::{
        Fetch, PushQueue, RawReplies, SourceError,
        health::{Stand, Standing, Vouching},
    },
};
use bytes::Bytes;
use io::ConnectionIo;
use larder_proto::output::Output;
use larder_store::clock;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};
use timing::{Alarm, PAUSE, Pauses};
use tokio::{
    sync::oneshot,
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

/// An attempt may take this long even if `source-timeout` is shorter: names must be resolved and TLS takes round trips.
const ATTEMPT: Duration = Duration::from_secs(1);
/// After so much silence the server is asked whether it is there, so that readiness does not depend on traffic, and the server does not take the
/// connection for idle (its `timeout`, of whole seconds). Where it announces changes, in a network that has gone silent nothing is announced, and what
/// was fetched may be served for so long and `source-timeout`, the probe's deadline. docs/coherence.md promises it.
const PROBE: Duration = Duration::from_secs(1);
/// How long the answer to a probe may take where nothing is announced: a server that is busy for some seconds (a slow command, a fork) is still
/// there, and reconnecting to it would only add to its work.
const UNTRACKED_PATIENCE: Duration = Duration::from_secs(5);

/// A connection that is ready.
struct Connected {
    stream: Stream,
    shaken: Shaken,
    /// Where Sentinels name the master: tells when it is another.
    master: Option<Master>,
}

/// One core's handle on a connection; dropping it ends the connection.
pub(super) struct UpstreamConnection {
    inner: Rc<Inner>,
    task: AbortHandle,
}
struct Inner {
    settings: Arc<Settings>,
    hello: Hello,
    purpose: Purpose,
    /// Takes over fetches that fail here.
    elsewhere: Option<Weak<dyn Elsewhere>>,
    /// Its name as a queue; see [`Fetch::sent_through`].
    number: u32,
    queue: RefCell<VecDeque<Request>>,
    /// On the connection of a single client.
    unasked: Rc<PushQueue>,
    /// The task, when it has seen the queue empty.
    waker: Cell<Option<Waker>>,
    /// Why there is no connection, once an attempt has failed.
    down: RefCell<Option<Arc<str>>>,
}

impl UpstreamConnection {
    /// A connection that is made now and made again whenever it is lost, for fetches: these make up the source's health.
    pub(super) fn fetching(
        settings: Arc<Settings>,
        hello: Hello,
        keeps_replies: bool,
        elsewhere: Option<Weak<dyn Elsewhere>>,
    ) -> UpstreamConnection {
        let standing = Some(Standing::new(settings.health.clone()));
        let purpose = Purpose { fetches: true, keeps_replies, of_user: false };
        UpstreamConnection::spawn(settings, hello, purpose, elsewhere, move |inner| keep(inner, standing))
    }
    /// The same for anything else.
    pub(super) fn shared(settings: Arc<Settings>, resp3: bool) -> UpstreamConnection {
        UpstreamConnection::spawn(settings, untracked(resp3), Purpose::default(), None, |inner| keep(inner, None))
    }
    /// A connection that is made once.
    pub(super) fn single(settings: Arc<Settings>, resp3: bool) -> UpstreamConnection {
        UpstreamConnection::spawn(settings, untracked(resp3), Purpose::default(), None, once)
    }
    /// The same as the user that the settings name, for a client that has logged in.
    pub(super) fn of_user(settings: Arc<Settings>, resp3: bool) -> UpstreamConnection {
        let purpose = Purpose { of_user: true, ..Purpose::default() };
        UpstreamConnection::spawn(settings, untracked(resp3), purpose, None, once)
    }
    /// What the server says unasked there.
    pub(super) fn unasked(&self) -> &PushQueue {
        &self.inner.unasked
    }
    fn spawn<F: Future<Output = ()> + 'static>(
        settings: Arc<Settings>,
        hello: Hello,
        purpose: Purpose,
        elsewhere: Option<Weak<dyn Elsewhere>>,
        run: impl FnOnce(Rc<Inner>) -> F,
    ) -> UpstreamConnection {
        let inner = Rc::new(Inner {
            number: settings.queue(),
            unasked: Rc::new(PushQueue::new(settings.limits.max_backlog)),
            settings,
            hello,
            purpose,
            elsewhere,
            queue: RefCell::default(),
            waker: Cell::default(),
            down: RefCell::default(),
        });
        let task = tokio::task::spawn_local(run(inner.clone())).abort_handle();
        UpstreamConnection { inner, task }
    }

    /// Fails while the source is down.
    pub(super) fn check(&self) -> Result<(), SourceError> {
        match &*self.inner.down.borrow() {
            Some(reason) => Err(SourceError::Unavailable(reason.clone())),
            None => Ok(()),
        }
    }

    /// Takes over fetches that the health has admitted.
    pub(super) fn fetch(&self, batch: impl Iterator<Item = Fetch>) {
        let deadline = Instant::now() + self.inner.settings.limits.timeout;
        let waiting = batch.map(|fetch| Waiting::new(fetch, self.inner.number, deadline));
        if let Err(error) = self.check() {
            let now = clock::now();
            for waiting in waiting {
                self.inner.fail_fetch(waiting, error.clone(), now);
            }
            return;
        }
        self.inner.queue.borrow_mut().extend(waiting.map(Request::Fetch));
        self.inner.wake();
    }

    /// Queues `count` encoded commands, now, whatever becomes of the future that awaits their replies.
    pub(super) fn relay(&self, commands: Bytes, count: usize) -> impl Future<Output = Answer> + use<> {
        self.relay_within(commands, count, self.inner.settings.limits.timeout)
    }
    /// The same with another deadline than `source-timeout`.
    pub(super) fn relay_within(
        &self,
        commands: Bytes,
        count: usize,
        limit: Duration,
    ) -> impl Future<Output = Answer> + use<> {
        let (sender, answer) = oneshot::channel();
        // They may outlive the client that sent them.
        let commands = self.inner.settings.buffers.count(BufferKind::Relayed, commands);
        let call = Call { commands, count, deadline: Instant::now() + limit, limit, answer: Some(sender) };
        match self.check() {
            Err(error) => call.finish(Err(error)),
            Ok(()) if count == 0 => call.finish(Ok(RawReplies::default())),
            Ok(()) => {
                self.inner.queue.borrow_mut().push_back(Request::Call(call));
                self.inner.wake();
            }
        }
        async {
            let gone = |_| Err(SourceError::Lost("connection abandoned".into()));
            answer.await.unwrap_or_else(gone)
        }
    }
}
fn untracked(resp3: bool) -> Hello {
    if resp3 { Hello::Resp3 } else { Hello::Resp2 }
}
impl Drop for UpstreamConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Inner {
    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Fails what is queued and whatever comes until [`go_up`](Inner::go_up).
    fn go_down(&self, reason: &Arc<str>) {
        *self.down.borrow_mut() = Some(reason.clone());
        self.settings.health.note_error(reason);
        let now = clock::now();
        let queue = std::mem::take(&mut *self.queue.borrow_mut());
        for request in queue {
            self.fail(request, reason, now);
        }
    }
    fn go_up(&self) {
        *self.down.borrow_mut() = None;
    }

    /// A request that was not sent has failed.
    fn fail(&self, request: Request, reason: &Arc<str>, now: u64) {
        let error = SourceError::Unavailable(reason.clone());
        match request {
            Request::Fetch(waiting) => self.fail_fetch(waiting, error, now),
            Request::Call(call) => call.finish(Err(error)),
        }
    }
    fn fail_fetch(&self, waiting: Waiting, error: SourceError, now: u64) {
        fail(waiting, error, self.elsewhere.as_ref(), now, &self.settings.health);
    }

    /// Fails what waits in the queue past its deadline.
    fn expire(&self, now: Instant) {
        let overdue = |queue: &mut VecDeque<Request>| {
            let due = queue.front()?.deadline() <= now;
            due.then(|| queue.pop_front()).flatten()
        };
        let limits = &self.settings.limits;
        // Not `while let`: the queue must not stay borrowed while a request is failed.
        loop {
            let request = overdue(&mut self.queue.borrow_mut());
            let Some(request) = request else { return };
            let limit = if let Request::Call(call) = &request { call.limit } else { limits.timeout };
            self.fail(request, &timed_out(limit, limits), clock::now());
        }
    }

    /// The earliest deadline in the queue: requests queue in the order of their deadlines.
    fn deadline(&self) -> Option<Instant> {
        self.queue.borrow().front().map(Request::deadline)
    }

    /// Runs `work` while requests that queue meanwhile still meet their deadlines.
    async fn meanwhile<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        let mut alarm = Alarm::new();
        poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            self.waker.set(Some(cx.waker().clone()));
            while alarm.poll(cx, self.deadline()).is_ready() {
                self.expire(Instant::now());
            }
            Poll::Pending
        })
        .await
    }

    async fn attempt(&self) -> Result<Connected, Arc<str>> {
        let mut master = self.settings.sentinels.as_ref().map(|sentinels| sentinels.master());
        let limit = self.settings.limits.timeout.max(ATTEMPT);
        let attempt = timeout(limit, async {
            let password = &self.settings.password;
            let said = password.current();
            let refusal = match self.reach(said.as_ref(), master.as_mut()).await {
                // A client's user is told what the server says: its password is not Larder's business.
                Err(reason) if password::is_wanted(&reason) && !self.purpose.of_user => reason,
                outcome => return outcome,
            };
            match password.renew(said.as_ref()).await {
                Ok(true) => match self.reach(password.current().as_ref(), master.as_mut()).await {
                    Err(reason) if password::is_wanted(&reason) => Err(password.explain(&reason, None)),
                    outcome => outcome,
                },
                Ok(false) => Err(password.explain(&refusal, None)),
                Err(unread) => Err(password.explain(&refusal, Some(unread))),
            }
        });
        match self.meanwhile(attempt).await {
            Ok(Ok((stream, shaken))) => Ok(Connected { stream, shaken, master }),
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err(format!("could not connect within {limit:?}").into()),
        }
    }

    /// Connects and says this password.
    async fn reach(
        &self,
        password: Option<&Secret>,
        mut master: Option<&mut Master>,
    ) -> Result<(Stream, Shaken), Arc<str>> {
        let outcome = match self.connect(&self.hello, password, master.as_deref_mut()).await {
            // A server from before RESP3 announces nothing, yet it can be read.
            Err(Unshaken::NoHello(refusal)) => match self.connect(&Hello::Resp2, password, master).await {
                Ok((stream, shaken)) => Ok((stream, Shaken { untracked: Some(refusal), ..shaken })),
                Err(error) => Err(error),
            },
            outcome => outcome,
        };
        outcome.map_err(|(Unshaken::Failed(reason) | Unshaken::NoHello(reason))| reason)
    }

    async fn connect(
        &self,
        hello: &Hello,
        password: Option<&Secret>,
        master: Option<&mut Master>,
    ) -> Result<(Stream, Shaken), Unshaken> {
        let mut stream = connect(&self.settings, master).await.map_err(reason)?;
        let shaken = shake_hands(&mut stream, &self.settings, hello, self.purpose, password).await?;
        Ok((stream, shaken))
    }

    /// Talks until the connection is lost, and says why. A panic on the way ends the connection, not the task.
    async fn talk(&self, connected: Connected) -> Arc<str> {
        let Connected { stream, shaken, master } = connected;
        let watch = match &self.hello {
            Hello::Tracking(watch) if shaken.untracked.is_none() => Some(watch.clone()),
            _ => None,
        };
        let tracking_wanted = matches!(self.hello, Hello::Tracking(_));
        if self.purpose.keeps_replies {
            // Where changes ought to be announced and are not, there is nothing to be kept.
            let any = watch.is_some() || !tracking_wanted;
            let form = |resp3| any && (shaken.switches || shaken.resp3 == resp3);
            self.settings.forms.set(form(false), form(true), shaken.informs);
        }
        let vouching = tracking_wanted.then(|| Vouching::new(self.settings.health.clone(), watch.clone()));
        let timeout = self.settings.limits.timeout;
        let probe_limit = if watch.is_some() { timeout } else { timeout.max(UNTRACKED_PATIENCE) };
        let mut talk = ConnectionIo {
            link: self,
            stream,
            input: shaken.input,
            out: Output::default(),
            unflushed: false,
            pipeline: Pipeline::new(
                self.settings.clone(),
                watch,
                self.unasked.clone(),
                Protocol { resp3: shaken.resp3, switches: shaken.switches },
                self.elsewhere.clone(),
            ),
            alarm: Alarm::new(),
            heard: Instant::now(),
            probe_limit,
            charge: self.settings.buffers.charge(BufferKind::Fetched),
        };
        let mut replaced = pin!(async {
            match master {
                Some(mut master) => drop(master.changed().await),
                None => pending().await,
            }
        });
        let reason = poll_fn(|cx| {
            if replaced.as_mut().poll(cx).is_ready() {
                return Poll::Ready("the Sentinels name another master".into());
            }
            catch_unwind(AssertUnwindSafe(|| talk.poll(cx))).unwrap_or_else(|_| {
                tracing::error!(source = %self.settings.name(), "panic in a source connection");
                Poll::Ready("internal error".into())
            })
        })
        .await;
        // Before anybody hears of the loss, and before anything else is fetched.
        drop(vouching);
        self.settings.sentinels.iter().for_each(|sentinels| sentinels.doubt());
        self.settings.health.note_error(&reason);
        let mut queue = self.queue.borrow_mut();
        talk.pipeline.lost(&reason, Instant::now(), &mut queue);
        reason
    }
}
impl Drop for Inner {
    fn drop(&mut self) {
        let queue = self.queue.get_mut();
        let fetches = queue.iter().filter(|r| matches!(r, Request::Fetch(_)));
        self.settings.health.abandoned(fetches.count());
    }
}

/// Connects, talks, connects again, for ever.
async fn keep(link: Rc<Inner>, mut standing: Option<Standing>) {
    let name = link.settings.name();
    let mut stand = |next| standing.as_mut().is_some_and(|standing| standing.set(next));
    let mut pauses = Pauses::default();
    let mut connections = 0u64;
    let mut refused = false;
    let mut others = link.settings.connected.subscribe();
    loop {
        others.mark_unchanged();
        match link.attempt().await {
            Ok(connected) => {
                let shaken = &connected.shaken;
                if let Some(identity) = &shaken.identity {
                    *link.settings.identity.lock() = Some(Arc::new(identity.clone()));
                }
                link.settings.connected.send_modify(|count| *count += 1);
                connections += 1;
                if connections > 1 {
                    link.settings.health.note_reconnect();
                }
                link.go_up();
                if stand(Stand::Up) {
                    tracing::info!(source = %name, "source connected");
                }
                if let (Some(refusal), false) = (&shaken.untracked, refused) {
                    tracing::warn!(
                        source = %name, %refusal,
                        "the source does not announce changes (CLIENT TRACKING): nothing is kept; coherence = ttl keeps copies for their lifetimes"
                    );
                }
                refused = shaken.untracked.is_some();
                let since = Instant::now();
                let reason = link.talk(connected).await;
                tracing::warn!(source = %name, %reason, "source connection lost");
                stand(Stand::Unknown);
                if since.elapsed() > PAUSE.1 {
                    pauses = Pauses::default();
                } else {
                    // Accepted and dropped, perhaps over and over: not without a pause.
                    link.meanwhile(sleep(pauses.next())).await;
                }
            }
            Err(reason) => {
                link.go_down(&reason);
                link.settings.sentinels.iter().for_each(|sentinels| sentinels.doubt());
                if stand(Stand::Down) {
                    tracing::warn!(source = %name, %reason, "source is down");
                }
                if timeout(pauses.next(), others.changed()).await.is_ok() {
                    link.go_up();
                }
            }
        }
    }
}

/// Connects and talks, once.
async fn once(link: Rc<Inner>) {
    let reason = match link.attempt().await {
        Ok(connected) => link.talk(connected).await,
        Err(reason) => reason,
    };
    link.go_down(&reason);
    link.unasked.note_loss();
}
