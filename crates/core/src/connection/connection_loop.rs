//! The loop of one connection: reads, processes, writes and waits until the client, a limit or the
//! drain ends it.
use super::{
    command_input::BufferPool,
    protocol::{Flow, Protocol},
};
use crate::{
    app::Worker,
    clients::{Client, Closing},
    gate,
};
use larder_base::{
    buffers::{BufferAccount, HeldBytes},
    lifecycle::linger::linger,
    special::Special,
    tls::ClientStream,
};
use larder_config::Address;
use larder_ring::replica::{self, ReplicaRequest};
use larder_source::LocalFuture;
use larder_store::clock;
use larder_units::show_size;
use std::{
    future::{Future, poll_fn},
    io::{self, IoSlice},
    pin::pin,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll},
    time::Duration,
};

/// How long a client may take to close its side after Larder has closed the connection.
const LINGER: Duration = Duration::from_secs(1);
/// Like `LINGER`, for a connection that was cut because buffers were short: the client may be
/// sending much.
const LINGER_CUT: Duration = Duration::from_millis(250);

/// Serves a connection until it ends. `begin` makes its state, for a client that may have shown a
/// certificate of the user with this name.
pub async fn serve<P: Protocol, S: ClientStream>(
    worker: Rc<Worker>,
    pool: Rc<BufferPool>,
    mut stream: S,
    (peer, local): (Address, Address),
    begin: impl FnOnce(Arc<Client>, Option<&str>) -> P,
) {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let clients = &worker.app.clients;
    let holder = BufferAccount::client(&worker.app.buffers, worker.id, P::BUFFERS, waker.clone());
    let listed = clients.register(peer.clone(), local, worker.id, clock::now(), waker);
    tracing::debug!(%peer, id = listed.client.id, "{} client connected", P::NAME);
    listed.client.push_inbox.show_on(holder.account().clone());
    if worker.app.drain.begun() {
        listed.client.finish(); // it came too late to be told with the others
    }
    let mut connection = ConnectionLoop {
        worker: &worker,
        conn: begin(listed.client.clone(), stream.certificate_user()),
        holder: &holder,
        stream: &mut stream,
        pool: &pool,
        next: Flow::Input { more: 1 },
        lent: false,
        input_ended: false,
        told_to_move: false,
        paused: None,
        is_delayed: false,
    };
    let end = connection.run().await;
    let request = connection.conn.take_replica();
    drop(connection);
    if let (End::Replica, Some(request)) = (&end, request) {
        // The stream has none of the connection's buffers.
        holder.set(HeldBytes::default());
        serve_replica(&worker, &listed.client, &mut stream, *request).await;
    }
    drop(listed);
    let cut = matches!(end, End::Cut { .. });
    tracing::debug!(%peer, by = end.side(), "{} client disconnected", P::NAME);
    if cut {
        holder.note_cut(&peer);
    }
    // The connection's memory is released before waiting for a client that may be slow to close.
    drop(holder);
    match end {
        // The dedicated connections to the source end before the client sees the end, so that a blocking command
        // (BLPOP) takes nothing afterwards.
        End::Gone | End::Cut { told: false } => tokio::task::yield_now().await,
        End::Cut { told: true } => {
            tokio::task::yield_now().await;
            let limit = show_size(worker.app.buffers.limit() as u64);
            // If the socket has no room for this, the client is not reading.
            let reason = P::error(&format!(
                "connection closed: it held the most when all buffers together reached {limit} (max-buffers)"
            ));
            let _ = stream.try_write_vectored(&[IoSlice::new(reason.as_bytes())]);
            linger(&mut stream, &worker.app.drain, LINGER_CUT).await;
        }
        End::Ours => linger(&mut stream, &worker.app.drain, LINGER).await,
        End::Replica => {}
    }
}

/// Serves a replica, until CLIENT KILL or the drain ends it.
async fn serve_replica<S: ClientStream>(worker: &Worker, client: &Client, stream: &mut S, request: ReplicaRequest) {
    let end = poll_fn(|_| match client.closing() {
        None | Some(Closing::Moving) => Poll::Pending,
        Some(Closing::WhenIdle | Closing::Now) => Poll::Ready(()),
    });
    client.is_replica.store(true, Relaxed);
    let heard = || client.touch(clock::now());
    replica::serve_replica(&worker.app.replication, stream, client.peer.clone(), request, heard, end).await;
}

enum End {
    /// The client closed it, or CLIENT KILL did: just close.
    Gone,
    /// Larder closes it, after its last reply is sent.
    Ours,
    /// Larder closes it because it held too much. It can be told why if nothing else was due to it.
    Cut { told: bool },
    /// The rest of the connection is a replica's stream.
    Replica,
}

impl From<io::Error> for End {
    /// The client has reset the connection.
    fn from(_: io::Error) -> End {
        End::Gone
    }
}
impl End {
    /// Who ends it, for the log.
    fn side(&self) -> &'static str {
        match self {
            End::Gone => "client",
            End::Ours => "larder",
            End::Cut { .. } => "max-buffers",
            End::Replica => "replica",
        }
    }
}

pub(super) struct ConnectionLoop<'c, P: Protocol, S> {
    pub(super) worker: &'c Worker,
    pub(super) conn: P,
    pub(super) holder: &'c BufferAccount,
    pub(super) stream: &'c mut S,
    pub(super) pool: &'c BufferPool,
    /// What it does next. `Done`: process the input.
    next: Flow<P::Alone>,
    /// `conn.out` is lent by `pool`.
    pub(super) lent: bool,
    /// No more input will be read: the client closed its side, or Larder is closing.
    pub(super) input_ended: bool,
    pub(super) told_to_move: bool,
    /// The end of a pause.
    pub(super) paused: Option<LocalFuture<'static, ()>>,
    /// A fault has delayed the input.
    pub(super) is_delayed: bool,
}

impl<P: Protocol, S: ClientStream> ConnectionLoop<'_, P, S> {
    async fn run(&mut self) -> End {
        loop {
            if let Err(end) = poll_fn(|cx| self.poll_event(cx)).await {
                return end;
            }
            // Does what needs no waiting for the client or for a flight. Not a function of its own: its
            // state would have room for every command that runs alone, and be copied at each turn.
            let acted = loop {
                match self.next {
                    Flow::Done => {
                        self.process();
                        if self.next == Flow::Done {
                            if let Err(error) = self.end_turn() {
                                break Err(error);
                            }
                            tokio::task::yield_now().await;
                        }
                    }
                    Flow::Behind if !self.conn.is_waiting() => self.next = Flow::Done,
                    Flow::Alone(command) if !self.conn.is_waiting() => {
                        if let Err(error) = self.end_turn() {
                            break Err(error);
                        }
                        match self.run_alone(command).await {
                            Ok(next) => self.next = next,
                            Err(error) => break Err(error),
                        }
                    }
                    _ => break self.flush(),
                }
            };
            if acted.is_err() {
                return if self.holder.is_cut() { self.cut() } else { End::Gone };
            }
        }
    }

    /// Sends the replies of the turn: something else comes first now.
    fn end_turn(&mut self) -> io::Result<()> {
        self.flush()?;
        self.account();
        Ok(())
    }

    /// The connection held too much.
    fn cut(&self) -> End {
        End::Cut { told: self.conn.owes_nothing() }
    }

    /// Runs the next command. A blocking command ends when its client disconnects, or holds too
    /// much.
    async fn run_alone(&mut self, command: P::Alone) -> io::Result<Flow<P::Alone>> {
        let (client, stream, holder) = (self.conn.client().clone(), &*self.stream, self.holder);
        let mut run = pin!(self.conn.run_alone(self.worker, command));
        let mut gone = pin!(stream.gone());
        poll_fn(|cx| {
            if let Poll::Ready(next) = run.as_mut().poll(cx) {
                return Poll::Ready(Ok(next));
            }
            let closing = client.closing().is_some_and(|closing| closing != Closing::Moving);
            let ends = closing || holder.is_cut();
            if client.blocked.load(Relaxed) && (ends || gone.as_mut().poll(cx).is_ready()) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            Poll::Pending
        })
        .await
    }

    /// Processes the input that was read, for one turn at most.
    fn process(&mut self) {
        if self.worker.is_on(Special::Faults) && self.is_struck() {
            return;
        }
        self.borrow_output();
        // All commands of the turn share one reading of the clock.
        let now = clock::now();
        self.worker.begin_turn(now);
        self.conn.client().touch(now);
        self.next = self.conn.process(self.worker, self.pool, now);
    }

    /// Whether a fault that was ordered delays the input, once.
    #[cold]
    fn is_struck(&mut self) -> bool {
        if std::mem::take(&mut self.is_delayed) {
            return false;
        }
        let delay = gate::delay(self.worker, P::DOOR);
        if let Some(delay) = delay {
            self.is_delayed = true;
            self.paused = Some(Box::pin(tokio::time::sleep(delay)));
            self.next = Flow::Paused;
        }
        delay.is_some()
    }

    /// Waits for the first of these: the end, a flight, room in the socket, input.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        if self.holder.is_cut() {
            return Poll::Ready(Err(self.cut()));
        }
        let event = self.poll_next(cx);
        if event.is_pending() {
            self.account();
        }
        event
    }

    /// Replies became ready, or output was sent.
    fn progress(&mut self) -> Poll<Result<(), End>> {
        if self.next == Flow::Full {
            self.next = Flow::Done;
        }
        Poll::Ready(Ok(()))
    }

    /// Brings the connection's account up to date.
    #[inline]
    pub(super) fn account(&self) {
        let mut holding = self.conn.holding();
        holding.output += self.stream.buffered();
        self.holder.set(holding);
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let closing = match self.conn.client().closing() {
            Some(Closing::Now) => return Poll::Ready(Err(End::Gone)),
            Some(Closing::Moving) => {
                self.tell_to_move();
                None
            }
            other => other,
        };
        if self.conn.is_waiting() {
            self.borrow_output();
            let progress = self.conn.poll_waiting(self.worker, cx);
            self.return_output();
            if progress.is_ready() {
                return self.progress();
            }
        }
        if self.conn.has_upstream_state() {
            self.borrow_output();
            let pushes = self.conn.poll_upstream(self.worker, cx);
            self.return_output();
            match pushes {
                Poll::Ready(true) => return self.progress(),
                Poll::Ready(false) => return Poll::Ready(Err(End::Ours)),
                Poll::Pending => {}
            }
        }
        if self.conn.client().push_inbox.has_messages() && !self.conn.is_full() {
            self.borrow_output();
            self.conn.take_pushes(self.worker);
            self.return_output();
            return self.progress();
        }
        if !self.conn.out().is_empty() && self.poll_write(cx)?.is_ready() {
            return self.progress();
        }
        if self.stream.is_unflushed() && self.poll_flush(cx)?.is_ready() {
            return self.progress();
        }
        let mut answered = !self.conn.is_waiting() && self.conn.out().is_empty() && !self.stream.is_unflushed();
        let ends = self.input_ended || matches!(self.next, Flow::Close | Flow::Replicate);
        if answered && ends {
            // A stream may have taken replies and not sent them yet.
            answered = self.stream.poll_sent(cx)?.is_ready();
        }
        match self.next {
            Flow::Input { more } => {
                if !self.input_ended && self.poll_read(more, closing.is_some(), cx)?.is_ready() {
                    self.next = Flow::Done;
                    return Poll::Ready(Ok(()));
                }
                if self.input_ended && answered {
                    let end = if closing.is_some() { End::Ours } else { End::Gone };
                    return Poll::Ready(Err(end));
                }
            }
            Flow::Full if !self.conn.is_full() => return self.progress(),
            Flow::Close if answered => return Poll::Ready(Err(End::Ours)),
            Flow::Replicate if answered => return Poll::Ready(Err(End::Replica)),
            Flow::Paused => {
                let app = self.worker.app.clone();
                let over = self.paused.get_or_insert_with(|| Box::pin(async move { app.gate.pause.over().await }));
                self.conn.client().blocked.store(true, Relaxed);
                if over.as_mut().poll(cx).is_ready() {
                    self.paused = None;
                    self.conn.client().blocked.store(false, Relaxed);
                    self.next = Flow::Done;
                    return Poll::Ready(Ok(()));
                }
            }
            _ => {}
        }
        Poll::Pending
    }

    /// Writes the push that asks the client to move, once. Any place among the replies is right.
    fn tell_to_move(&mut self) {
        if !self.told_to_move {
            self.told_to_move = true;
            self.borrow_output();
            self.conn.tell_to_move(self.worker);
        }
    }
}
