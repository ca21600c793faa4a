//! One core's connections to one address of the origin: those that are idle, and how new ones are made.
use super::{
    origin_settings::{OriginSettings, SharedAddress},
    response_body::broken_off,
};
use crate::source::{source_error::SourceError, upstream_stream::connect_tcp};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

/// Idle connections that a core keeps to an address. Those beyond it, left over from a burst, are closed.
const MAX_IDLE: usize = 64;
/// A connection that was idle for longer is not used again: origins and what is between close such connections, some without a word.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);

/// A connection that can carry one request at a time. hyper's task behind it ends when this is dropped.
pub(super) type Connection = SendRequest<Full<Bytes>>;

/// The connections of one core to one address.
pub(super) struct ConnectionPool {
    settings: Arc<OriginSettings>,
    index: usize,
    /// With the moment since when they are idle; the latest is at the back.
    idle: RefCell<VecDeque<(Connection, Instant)>>,
    /// Requests under way.
    pub(super) under_way: Cell<usize>,
    /// The latest attempt to connect failed.
    pub(super) is_out: Cell<bool>,
    pub(super) went_out: Notify,
}

/// A request under way, for as long as this exists.
pub(super) struct UnderWay<'p>(&'p Cell<usize>);
impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.update(|count| count - 1);
    }
}

impl ConnectionPool {
    pub(super) fn new(settings: Arc<OriginSettings>, index: usize) -> ConnectionPool {
        ConnectionPool {
            settings,
            index,
            idle: RefCell::default(),
            under_way: Cell::new(0),
            is_out: Cell::new(false),
            went_out: Notify::new(),
        }
    }

    pub(super) fn address(&self) -> &SharedAddress {
        &self.settings.addresses[self.index]
    }

    /// Counts a request.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        self.under_way.update(|count| count + 1);
        UnderWay(&self.under_way)
    }

    /// The connection that became idle last, if it is still open as far as is known here.
    pub(super) async fn take_idle(&self) -> Option<Connection> {
        loop {
            let (mut connection, since) = self.idle.borrow_mut().pop_back()?;
            // It is ready once hyper's task has seen the end of the last response.
            if since.elapsed() < MAX_IDLE_TIME && connection.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    /// Takes back a connection whose response has been read, or will not be: hyper then closes it.
    pub(super) fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.borrow_mut();
        while idle.len() >= MAX_IDLE || idle.front().is_some_and(|(_, since)| since.elapsed() >= MAX_IDLE_TIME) {
            idle.pop_front();
        }
        if !connection.is_closed() {
            idle.push_back((connection, Instant::now()));
        }
    }

    /// Makes a connection.
    ///
    /// # Errors
    /// `Unavailable`: the address is not reached by the deadline, or within `source-connect-timeout`.
    pub(super) async fn connect(&self, deadline: Instant) -> Result<Connection, SourceError> {
        let address = self.address();
        let connecting = async {
            let stream = connect_tcp(&address.host, address.port, address.tls.as_ref());
            let stream = stream.await.map_err(|error| error.to_string())?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| broken_off(&error))?;
            Ok::<_, String>((sender, connection))
        };
        let own = self.settings.url.options.connect_timeout.map(|limit| (Instant::now() + limit, limit));
        let (until, limit, setting) = match own {
            Some((until, limit)) if until < deadline => (until, limit, "source-connect-timeout"),
            _ => (deadline, self.settings.limits.timeout, "source-timeout"),
        };
        let reason = match timeout_at(until, connecting).await {
            Ok(Ok((sender, connection))) => {
                tokio::task::spawn_local(async move {
                    // The request that is under way gets the error, too.
                    let _ = connection.await;
                });
                return Ok(sender);
            }
            Ok(Err(reason)) => reason,
            Err(_) => format!("timed out after {limit:?} ({setting})"),
        };
        Err(address.unavailable(format_args!("cannot connect: {reason}")))
    }
}
