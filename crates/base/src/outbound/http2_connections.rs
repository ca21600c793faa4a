//! One core's HTTP/2 connections to one address. Each carries many requests at once.
use super::stream::Stream;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http2},
    rt::Executor,
};
use hyper_util::rt::TokioIo;
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    pin::Pin,
    rc::Rc,
};
use tokio::time::{Duration, Instant};

/// Requests that share a connection, unless the origin allows fewer. The next request gets another
/// connection.
const MAX_STREAMS: usize = 100;
/// Bytes of one response that may arrive before they are read.
const STREAM_WINDOW: u32 = 512 * 1024;
/// Like `STREAM_WINDOW`, for all responses on a connection. A response that is read slowly never
/// holds up the others.
const CONNECTION_WINDOW: u32 = MAX_STREAMS as u32 * STREAM_WINDOW;

/// The connections of one core to one address.
#[derive(Default)]
pub struct Http2Connections(RefCell<Vec<Rc<SharedConnection>>>);

struct SharedConnection {
    sender: http2::SendRequest<Full<Bytes>>,
    streams: Cell<usize>,
    /// As far as the origin allows.
    max_streams: Rc<Cell<usize>>,
    /// When the number of requests last changed.
    used: Cell<Instant>,
    /// A request on it got no answer: it takes no more.
    is_retired: Cell<bool>,
}

/// One request's place on a connection.
pub struct Http2Stream {
    connection: Rc<SharedConnection>,
    /// The connection has shown that it works, or it was not needed.
    is_answered: bool,
}

impl Http2Connections {
    /// A place on the oldest connection that has one: when there are fewer requests, the later ones
    /// become idle and end.
    pub fn take(&self, max_idle: Duration) -> Option<Http2Stream> {
        let mut connections = self.0.borrow_mut();
        connections.retain(|connection| connection.is_usable(max_idle));
        connections.iter().find(|connection| connection.has_room()).map(Http2Stream::on)
    }

    /// Speaks HTTP/2 on a stream, and shares the connection.
    ///
    /// # Errors
    /// hyper's.
    pub async fn open(&self, stream: Stream) -> hyper::Result<Http2Stream> {
        let mut builder = http2::Builder::new(LocalExecutor);
        builder.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
        let (sender, mut connection) = builder.handshake(TokioIo::new(stream)).await?;
        let max_streams = Rc::new(Cell::new(MAX_STREAMS));
        let known = max_streams.clone();
        tokio::task::spawn_local(poll_fn(move |context| {
            // The requests that are under way get the error, too.
            let end = Pin::new(&mut connection).poll(context).map(drop);
            known.set(connection.current_max_send_streams().clamp(1, MAX_STREAMS));
            end
        }));
        let shared = Rc::new(SharedConnection {
            sender,
            streams: Cell::new(0),
            max_streams,
            used: Cell::new(Instant::now()),
            is_retired: Cell::new(false),
        });
        let stream = Http2Stream::on(&shared);
        self.0.borrow_mut().push(shared);
        Ok(stream)
    }
}

impl SharedConnection {
    fn is_usable(&self, max_idle: Duration) -> bool {
        let was_idle_long = self.streams.get() == 0 && self.used.get().elapsed() >= max_idle;
        !(self.is_retired.get() || self.sender.is_closed() || was_idle_long)
    }
    fn has_room(&self) -> bool {
        self.streams.get() < self.max_streams.get()
    }
    fn count(&self, streams: usize) {
        self.streams.set(streams);
        self.used.set(Instant::now());
    }
}

impl Http2Stream {
    fn on(connection: &Rc<SharedConnection>) -> Http2Stream {
        connection.count(connection.streams.get() + 1);
        Http2Stream { connection: connection.clone(), is_answered: false }
    }

    /// Sends a request and waits for the head of its response.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        let response = self.connection.sender.clone().try_send_request(request).await;
        self.is_answered = response.is_ok();
        response
    }

    /// What sends the request, for who wants to do that itself. It is to say when an answer came.
    pub fn sender(&self) -> http2::SendRequest<Full<Bytes>> {
        self.connection.sender.clone()
    }
    /// The connection works.
    pub fn note_answered(&mut self) {
        self.is_answered = true;
    }

    /// Leaves the connection to others, though it was not used.
    pub fn leave(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Http2Stream {
    /// A connection on which a request failed, or waited in vain, may be dead without a word, as
    /// one that is not shared.
    fn drop(&mut self) {
        self.connection.count(self.connection.streams.get() - 1);
        if !self.is_answered {
            self.connection.is_retired.set(true);
        }
    }
}

/// Runs hyper's tasks on the core that they belong to.
#[derive(Clone)]
struct LocalExecutor;
impl<F: Future<Output = ()> + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}
