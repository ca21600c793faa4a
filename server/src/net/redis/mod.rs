//! The connection loop of the Redis protocol: read, process, write, wait.
//!
//! An unpipelined hit costs one read and one write: the write is tried as soon as the reply is there, and a read that did
//! not fill its buffer tells the runtime to wait for the socket instead of asking it again.
//!
//! Reading goes on while reads wait for the source, so a pipeline's misses overlap; it stops while too much is due to the
//! client or too many reads wait ([`Step::Full`]), so a client that does not read its replies stops itself.
pub mod buffer_pool;
pub mod conn;
pub mod input;

use crate::{
    app::Worker,
    buffers::{Holder, Protocol},
    clients::Closing,
    lifecycle::linger::linger,
    redis::CommandAccess,
    source::LocalFuture,
};
use buffer_pool::Spare;
use conn::{Conn, Step};
use larder_store::clock;
use larder_units::show_size;
use std::{
    future::{Future, pending, poll_fn},
    io::{self, IoSlice},
    mem,
    net::SocketAddr,
    pin::{Pin, pin},
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncWrite, Interest},
    net::TcpStream,
};

/// Pieces of output that leave in one write.
const PIECES: usize = 64;
/// Writes to one client in a row before the others get their turn.
const WRITES: usize = 8;
/// How long the client of a connection that we end may take to end its half.
const LINGER: Duration = Duration::from_secs(1);
/// The same when it was cut: it may be sending a great deal.
const LINGER_CUT: Duration = Duration::from_millis(250);

/// Serves a connection to its end.
pub(super) async fn serve(
    worker: Rc<Worker>,
    spare: Rc<Spare>,
    mut stream: TcpStream,
    peer: SocketAddr,
    access: Arc<CommandAccess>,
) {
    let Ok(local) = stream.local_addr() else {
        return; // reset before we got to it
    };
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let clients = &worker.app.clients;
    let holder = Holder::client(&worker.app.buffers, worker.id, Protocol::Redis, waker.clone());
    let listed = clients.register(peer, local, worker.id, clock::now(), waker);
    listed.client.inbox.show_on(holder.account().clone());
    if worker.app.drain.begun() {
        listed.client.finish(); // it came too late to be told with the others
    }
    let end = Loop {
        worker: &worker,
        conn: Conn::new(&worker, listed.client.clone(), access),
        holder: &holder,
        stream: &mut stream,
        spare: &spare,
        state: State::Reading { more: 1 },
        lent: false,
        input_ended: false,
        told_to_move: false,
        paused: None,
    }
    .run()
    .await;
    drop(listed);
    let cut = matches!(end, End::Cut { .. });
    if cut {
        holder.note_cut(peer);
    }
    // Before a client that may take its time to go: what it held has been given back.
    drop(holder);
    match end {
        // Its own connections to the source end before its client sees the end: what waited there (BLPOP) takes nothing afterwards.
        End::Gone | End::Cut { told: false } => tokio::task::yield_now().await,
        End::Cut { told: true } => {
            let limit = show_size(worker.app.buffers.limit() as u64);
            // A socket without room for this belongs to a client that does not listen.
            let _ = stream.try_write(format!("-ERR connection closed: it held the most when all buffers together reached {limit} (max-buffers)\r\n").as_bytes());
            linger(&mut stream, &worker.app.drain, LINGER_CUT).await;
        }
        End::Ours => linger(&mut stream, &worker.app.drain, LINGER).await,
    }
}

/// Who ended the connection.
enum End {
    /// The client, or somebody who wants it gone: just close.
    Gone,
    /// We do, and it should hear our last reply.
    Ours,
    /// We do, because it held too much; it can be told why if nothing else was due to it.
    Cut { told: bool },
}

/// What the connection does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Process the input.
    Processing,
    /// Wait for input; at least `more` bytes are missing.
    Reading { more: usize },
    /// Wait until less is due, then process on.
    Full,
    /// Wait until a pause is over, then process on.
    Paused,
    /// Wait until everything before it is answered, then process on.
    Behind,
    /// Wait until everything before it is answered, then run the next command.
    Alone,
    /// Wait until everything is sent, then close.
    Closing,
}

struct Loop<'c> {
    worker: &'c Worker,
    conn: Conn,
    holder: &'c Holder,
    stream: &'c mut TcpStream,
    spare: &'c Spare,
    state: State,
    /// `conn.out` is lent by `spare`.
    lent: bool,
    /// Nothing more will be read: the client ended its half, or we are to end.
    input_ended: bool,
    told_to_move: bool,
    /// The end of a pause.
    paused: Option<LocalFuture<'static, ()>>,
}

impl Loop<'_> {
    async fn run(&mut self) -> End {
        loop {
            match poll_fn(|cx| self.poll_event(cx)).await {
                Err(_reset_by_client) => return End::Gone,
                Ok(Event::End(end)) => return end,
                Ok(Event::Progress) if self.state != State::Full => {}
                Ok(Event::Input | Event::Progress) => self.state = State::Processing,
            }
            if self.act().await.is_err() {
                return End::Gone;
            }
        }
    }

    /// Does what can be done without waiting for the client or for a flight.
    async fn act(&mut self) -> io::Result<()> {
        loop {
            match self.state {
                State::Processing => {
                    self.process();
                    if self.state == State::Processing {
                        self.flush()?;
                        self.holder.set(self.conn.holding());
                        tokio::task::yield_now().await;
                    }
                }
                State::Behind if !self.conn.is_waiting() => self.state = State::Processing,
                State::Alone if !self.conn.is_waiting() => {
                    self.flush()?;
                    let step = self.run_alone().await?;
                    self.follow(step);
                }
                _ => return self.flush(),
            }
        }
    }

    /// Runs the next command to its end. One that waits for something to happen ends with its client.
    async fn run_alone(&mut self) -> io::Result<Step> {
        let (client, stream) = (self.conn.client.clone(), &*self.stream);
        let mut run = pin!(self.conn.run_alone(self.worker));
        let mut gone = pin!(gone(stream));
        poll_fn(|cx| {
            if let Poll::Ready(step) = run.as_mut().poll(cx) {
                return Poll::Ready(Ok(step));
            }
            let closing = client.closing().is_some_and(|closing| closing != Closing::Moving);
            if client.blocked.load(Relaxed) && (closing || gone.as_mut().poll(cx).is_ready()) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            Poll::Pending
        })
        .await
    }

    /// Processes what has been read, up to a turn's worth.
    fn process(&mut self) {
        self.borrow_output();
        // What the first key's look-up waits for, its bucket and then its record, comes from memory while other things are done.
        let cache = &self.worker.groups[0].cache;
        let first = self.conn.first_key(self.worker);
        first.inspect(|key| cache.prefetch_bucket(*key));
        // One reading of the clock for all the commands of the turn.
        let now = clock::now();
        first.inspect(|key| cache.prefetch_record(*key));
        self.conn.client.touch(now);
        let step = self.conn.process(self.worker, self.spare, now);
        self.follow(step);
    }

    fn follow(&mut self, step: Step) {
        self.state = match step {
            Step::Input { more } => State::Reading { more },
            Step::Turn => State::Processing,
            Step::Full => State::Full,
            Step::Paused => State::Paused,
            Step::Behind => State::Behind,
            Step::Alone => State::Alone,
            Step::Close => State::Closing,
        };
    }

    /// Waits for whatever comes first of: a request to end, a flight's end, room in the socket, input.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Event>> {
        if self.holder.is_cut() {
            return Poll::Ready(Ok(Event::End(End::Cut { told: self.conn.owes_nothing() })));
        }
        let event = self.poll_next(cx);
        if event.is_pending() {
            self.holder.set(self.conn.holding());
        }
        event
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Event>> {
        let closing = match self.conn.client.closing() {
            Some(Closing::Now) => return Poll::Ready(Ok(Event::End(End::Gone))),
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
                return Poll::Ready(Ok(Event::Progress));
            }
        }
        if self.conn.is_attached() {
            self.borrow_output();
            let unasked = self.conn.poll_unasked(cx);
            self.return_output();
            match unasked {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(Event::Progress)),
                Poll::Ready(Err(_lost)) => {
                    if self.conn.left_too_much() {
                        self.worker.app.backlog.note_cut_off();
                    }
                    return Poll::Ready(Ok(Event::End(End::Ours)));
                }
                Poll::Pending => {}
            }
        }
        if self.conn.has_mail() && !self.conn.is_full() {
            self.borrow_output();
            self.conn.take_mail();
            self.return_output();
            return Poll::Ready(Ok(Event::Progress));
        }
        if !self.conn.out.is_empty() && self.poll_write(cx)?.is_ready() {
            return Poll::Ready(Ok(Event::Progress));
        }
        let answered = !self.conn.is_waiting() && self.conn.out.is_empty();
        match self.state {
            State::Reading { more } => {
                if !self.input_ended && self.poll_read(more, closing.is_some(), cx)?.is_ready() {
                    return Poll::Ready(Ok(Event::Input));
                }
                if self.input_ended && answered {
                    let end = if closing.is_some() { End::Ours } else { End::Gone };
                    return Poll::Ready(Ok(Event::End(end)));
                }
            }
            State::Full if !self.conn.is_full() => return Poll::Ready(Ok(Event::Progress)),
            State::Closing if answered => return Poll::Ready(Ok(Event::End(End::Ours))),
            State::Paused => {
                let app = self.worker.app.clone();
                let over = self.paused.get_or_insert_with(|| Box::pin(async move { app.pause.over().await }));
                self.conn.client.blocked.store(true, Relaxed);
                if over.as_mut().poll(cx).is_ready() {
                    self.paused = None;
                    self.conn.client.blocked.store(false, Relaxed);
                    return Poll::Ready(Ok(Event::Input));
                }
            }
            State::Full | State::Behind | State::Alone | State::Closing | State::Processing => {}
        }
        Poll::Pending
    }

    /// Tells the client to move, once. Where it stands among the replies is all the same.
    fn tell_to_move(&mut self) {
        if !self.told_to_move {
            self.told_to_move = true;
            self.borrow_output();
            self.conn.tell_to_move(self.worker);
        }
    }

    /// Reads once; ready if something came. When we are to end (`last`), this is the last look at what the client has sent.
    fn poll_read(&mut self, more: usize, last: bool, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.conn.input.is_large() {
            // What it grew for may have been carried out.
            self.conn.input.rest(self.spare);
            self.holder.set(self.conn.holding());
        }
        if !self.holder.poll_room(cx) {
            return Poll::Pending;
        }
        let read = self.conn.input.poll_read(self.stream, more, self.spare, cx);
        self.input_ended |= last;
        match read? {
            Poll::Ready(0) => {
                self.input_ended = true;
                self.conn.input.rest(self.spare);
                Poll::Pending
            }
            Poll::Ready(bytes) => {
                self.worker.counters.redis_bytes_in.add(bytes as u64);
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                self.conn.input.rest(self.spare);
                Poll::Pending
            }
        }
    }

    /// Writes when the socket has room again; ready if something was taken.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let used = self.conn.out.io_slices(&mut pieces);
        let written = Pin::new(&mut *self.stream).poll_write_vectored(cx, &pieces[..used]);
        let Poll::Ready(written) = written? else {
            return Poll::Pending;
        };
        self.sent(written);
        self.return_output();
        // A client that takes a large reply slowly is not idle.
        self.conn.client.touch(clock::now());
        Poll::Ready(Ok(()))
    }

    /// Writes what is due, as far as the socket takes it.
    fn flush(&mut self) -> io::Result<()> {
        for _ in 0..WRITES {
            if self.conn.out.is_empty() {
                break;
            }
            match self.try_write() {
                Ok(written) => self.sent(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.return_output();
        Ok(())
    }

    fn try_write(&self) -> io::Result<usize> {
        let out = &self.conn.out;
        let mut first = [IoSlice::new(&[])];
        out.io_slices(&mut first);
        if first[0].len() == out.len() {
            return self.stream.try_write(&first[0]);
        }
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let used = out.io_slices(&mut pieces);
        self.stream.try_write_vectored(&pieces[..used])
    }

    fn sent(&mut self, bytes: usize) {
        self.conn.out.advance(bytes);
        self.worker.counters.redis_bytes_out.add(bytes as u64);
    }

    /// Before replies are written: an output that holds nothing is exchanged for the worker's, which has room.
    fn borrow_output(&mut self) {
        if !self.lent && self.conn.out.is_empty() {
            self.conn.out = self.spare.take_output();
            self.lent = true;
        }
    }

    /// Once everything is sent.
    fn return_output(&mut self) {
        if self.lent && self.conn.out.is_empty() {
            self.spare.put_output(mem::take(&mut self.conn.out));
            self.lent = false;
        }
    }
}

/// Ends when the client has ended the connection, even if there is input to read before that. Interest in input would hear of the input first;
/// this interest hears of nothing else, because no urgent data is asked for.
async fn gone(stream: &TcpStream) {
    match stream.ready(Interest::PRIORITY).await {
        Ok(ready) if !ready.is_read_closed() => pending().await,
        Ok(_) | Err(_) => {}
    }
}

/// What woke the connection.
enum Event {
    /// Input was read.
    Input,
    /// Replies became ready, or output was taken.
    Progress,
    /// It is over.
    End(End),
}
