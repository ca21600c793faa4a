//! One core's connections to one address of the origin: those that can take a request, and how new
//! ones are made.
use super::{
    origin_connection::Connection,
    origin_settings::{OriginSettings, SharedAddress},
    request_deadline::RequestDeadline,
};
use crate::{source_error::SourceError, source_health::AddressInLogs};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use larder_base::outbound::{Http2Connections, Stream, connect_tcp, speak_http1, with_cause};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::{Notify, watch},
    time::{Instant, timeout_at},
};

/// Idle HTTP/1.1 connections that a core keeps to an address. Those beyond it, left over from a
/// burst, are closed.
const MAX_IDLE: usize = 64;
/// A connection that was idle for longer is not used again: origins and what is between close such
/// connections, some without a word.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);

/// The connections of one core to one address.
pub(super) struct ConnectionPool {
    settings: Arc<OriginSettings>,
    index: usize,
    /// HTTP/1.1, with the moment since when they are idle; the latest is at the back.
    idle: RefCell<VecDeque<(http1::SendRequest<Full<Bytes>>, Instant)>>,
    /// Like `idle`, for those that hyper does not have.
    idle_streams: RefCell<VecDeque<(Stream, Instant)>>,
    /// Where responses are read; nothing is kept in it.
    pub(super) scratch: RefCell<Vec<u8>>,
    shared: Http2Connections,
    /// Whether the next connection may be one that many requests share.
    may_share: Cell<bool>,
    /// The end of the attempt to connect that all wait for, if one is being made.
    attempt: RefCell<Option<watch::Receiver<Option<Attempted>>>>,
    /// Requests under way.
    pub(super) under_way: Cell<usize>,
    /// The latest attempt to connect failed.
    pub(super) is_out: Cell<bool>,
    pub(super) in_logs: RefCell<AddressInLogs>,
    pub(super) went_out: Notify,
}

/// How an attempt to connect ended.
type Attempted = Result<(), SourceError>;

/// A request under way, for as long as this exists.
pub(super) struct UnderWay<'p>(&'p Cell<usize>);
impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.update(|count| count - 1);
    }
}

impl ConnectionPool {
    pub(super) fn new(settings: Arc<OriginSettings>, index: usize) -> ConnectionPool {
        let name = settings.addresses[index].name.clone();
        let in_logs = RefCell::new(AddressInLogs::new(settings.health.clone(), name));
        ConnectionPool {
            may_share: Cell::new(settings.addresses[index].http2.is_some()),
            settings,
            index,
            idle: RefCell::default(),
            idle_streams: RefCell::default(),
            scratch: RefCell::default(),
            shared: Http2Connections::default(),
            attempt: RefCell::default(),
            under_way: Cell::new(0),
            is_out: Cell::new(false),
            in_logs,
            went_out: Notify::new(),
        }
    }

    /// Its place among the pools.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn address(&self) -> &SharedAddress {
        &self.settings.addresses[self.index]
    }

    /// Counts a request.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        self.under_way.update(|count| count + 1);
        UnderWay(&self.under_way)
    }

    /// A place on an HTTP/2 connection, or the HTTP/1.1 connection that became idle last, if it is
    /// still open as far as is known here.
    pub(super) async fn take_open(&self) -> Option<Connection> {
        if let Some(stream) = self.shared.take(MAX_IDLE_TIME) {
            return Some(Connection::Http2(stream));
        }
        loop {
            let (mut connection, since) = self.idle.borrow_mut().pop_back()?;
            // It is ready once hyper's task has seen the end of the last response.
            if since.elapsed() < MAX_IDLE_TIME && connection.ready().await.is_ok() {
                return Some(Connection::Http1(connection));
            }
        }
    }

    pub(super) fn has_idle(&self) -> bool {
        !self.idle.borrow().is_empty()
    }

    /// The connection without hyper that became idle last, if it is still open as far as is known
    /// here.
    pub(super) fn take_idle_stream(&self) -> Option<Stream> {
        loop {
            let (mut stream, since) = self.idle_streams.borrow_mut().pop_back()?;
            let mut unasked = [0];
            // Whatever can be read, an end too, is none of an answer. This makes a system call only if
            // something has come.
            let has_come = Pin::new(&mut stream)
                .poll_read(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut unasked))
                .is_ready();
            if since.elapsed() < MAX_IDLE_TIME && !has_come {
                return Some(stream);
            }
        }
    }

    /// Takes back a connection without hyper whose response has been read to its end.
    pub(super) fn give_back_stream(&self, stream: Stream) {
        keep(&mut self.idle_streams.borrow_mut(), stream);
    }

    /// Takes back a connection whose response has been read, or will not be: hyper then closes it,
    /// or resets the stream.
    pub(super) fn give_back(&self, connection: Connection) {
        let connection = match connection {
            Connection::Http1(connection) => connection,
            Connection::Http2(stream) => return stream.leave(),
        };
        if !connection.is_closed() {
            keep(&mut self.idle.borrow_mut(), connection);
        }
    }

    /// Makes a connection. Where it can be shared, all who need one wait for the same attempt.
    ///
    /// # Errors
    /// `Unavailable`: the address is not reached by the deadline, or within
    /// the connect timeout of the options.
    pub(super) async fn connect(&self, deadline: RequestDeadline) -> Result<Connection, SourceError> {
        while self.may_share.get() {
            if let Some(stream) = self.shared.take(MAX_IDLE_TIME) {
                return Ok(Connection::Http2(stream));
            }
            // One whose task is gone has no end.
            let attempt = self.attempt.borrow().clone().filter(|attempt| attempt.has_changed().is_ok());
            let Some(mut attempt) = attempt else { return self.connect_for_all(deadline).await };
            if let Ok(end) = attempt.wait_for(Option::is_some).await
                && let Some(Err(error)) = &*end
            {
                return Err(error.clone());
            }
        }
        self.connect_alone(deadline).await
    }

    async fn connect_for_all(&self, deadline: RequestDeadline) -> Result<Connection, SourceError> {
        let (end, attempt) = watch::channel(None);
        *self.attempt.borrow_mut() = Some(attempt);
        let connected = self.connect_alone(deadline).await;
        *self.attempt.borrow_mut() = None;
        // Who waits may have more time than this request had: then one of them tries again.
        if connected.is_ok() || Instant::now() < deadline.at {
            end.send_replace(Some(connected.as_ref().map(drop).map_err(Clone::clone)));
        }
        connected
    }

    async fn connect_alone(&self, deadline: RequestDeadline) -> Result<Connection, SourceError> {
        self.in_time(deadline, self.open()).await
    }

    /// Makes a connection without hyper.
    ///
    /// # Errors
    /// As [`connect`](ConnectionPool::connect).
    pub(super) async fn connect_stream(&self, deadline: RequestDeadline) -> Result<Stream, SourceError> {
        self.in_time(deadline, self.open_stream()).await
    }

    async fn in_time<T>(
        &self,
        deadline: RequestDeadline,
        opening: impl Future<Output = Result<T, String>>,
    ) -> Result<T, SourceError> {
        let address = self.address();
        let own = self.settings.url.options.connect_timeout.map(|limit| (Instant::now() + limit, limit));
        let (until, limit, setting) = match own {
            Some((until, limit)) if until < deadline.at => (until, limit, "half of source-timeout"),
            _ => (deadline.at, deadline.limit, "source-timeout"),
        };
        let reason = match timeout_at(until, opening).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(reason)) => reason,
            Err(_) => format!("timed out after {limit:?} ({setting})"),
        };
        Err(address.unavailable(format_args!("cannot connect: {reason}")))
    }

    async fn open_stream(&self) -> Result<Stream, String> {
        let address = self.address();
        connect_tcp(&address.host, address.port, address.tls.as_ref()).await.map_err(|error| error.to_string())
    }

    async fn open(&self) -> Result<Connection, String> {
        let address = self.address();
        let stream = self.open_stream().await?;
        // The origin may have been exchanged for another since the last connection.
        self.may_share.set(address.http2.is_some() && stream.speaks_http2());
        let opened = match self.may_share.get() {
            true => self.shared.open(stream).await.map(Connection::Http2),
            false => speak_http1(stream).await.map(Connection::Http1),
        };
        opened.map_err(|error| with_cause(&error))
    }
}

/// Adds what became idle now.
fn keep<T>(idle: &mut VecDeque<(T, Instant)>, connection: T) {
    while idle.len() >= MAX_IDLE || idle.front().is_some_and(|(_, since)| since.elapsed() >= MAX_IDLE_TIME) {
        idle.pop_front();
    }
    idle.push_back((connection, Instant::now()));
}
