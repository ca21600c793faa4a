//! One core's connections to the origin: those that are idle, and how new ones are made.
use super::{origin_settings::OriginSettings, response_body::broken_off};
use crate::source::{
    fetch_refusals::timeout_reason,
    source_error::SourceError,
    source_health::{ConnectionHealth, ConnectionState},
    upstream_stream::connect_tcp,
};
use bytes::Bytes;
use http_body_util::Empty;
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
    time::{Instant, sleep, timeout_at},
};

/// Idle connections that a core keeps. Those beyond it, left over from a burst, are closed.
const MAX_IDLE: usize = 64;
/// A connection that was idle for longer is not used again: origins and what is between close such connections, some without a word.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);
/// Between two attempts to reach an origin that is down.
const RETRY_EVERY: Duration = Duration::from_millis(500);

/// A connection that can carry one request at a time. hyper's task behind it ends when this is dropped.
pub(super) type Connection = SendRequest<Empty<Bytes>>;

/// The connections of one core.
pub(super) struct ConnectionPool {
    pub(super) settings: Arc<OriginSettings>,
    /// With the moment since when they are idle; the latest is at the back.
    idle: RefCell<VecDeque<(Connection, Instant)>>,
    health: RefCell<ConnectionHealth>,
    was_up: Cell<bool>,
    went_down: Notify,
}

impl ConnectionPool {
    pub(super) fn new(settings: Arc<OriginSettings>) -> ConnectionPool {
        ConnectionPool {
            idle: RefCell::default(),
            health: RefCell::new(ConnectionHealth::new(settings.health.clone())),
            was_up: Cell::new(false),
            went_down: Notify::new(),
            settings,
        }
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
    /// `Unavailable`: the origin is not reached by the deadline.
    pub(super) async fn connect(&self, deadline: Instant) -> Result<Connection, SourceError> {
        let settings = &self.settings;
        let connecting = async {
            let stream = connect_tcp(&settings.url.host, settings.url.port, settings.tls.as_ref());
            let stream = stream.await.map_err(|error| error.to_string())?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| broken_off(&error))?;
            Ok::<_, String>((sender, connection))
        };
        match timeout_at(deadline, connecting).await {
            Ok(Ok((sender, connection))) => {
                tokio::task::spawn_local(async move {
                    // The request that is under way gets the error, too.
                    let _ = connection.await;
                });
                if self.health.borrow_mut().set(ConnectionState::Up) {
                    tracing::info!(source = %settings.origin, "source connected");
                    if self.was_up.replace(true) {
                        settings.health.note_reconnect();
                    }
                }
                Ok(sender)
            }
            Ok(Err(reason)) => Err(self.down(&reason)),
            Err(_) => Err(self.down(&timeout_reason(settings.limits.timeout, &settings.limits))),
        }
    }

    fn down(&self, reason: &str) -> SourceError {
        let error = self.settings.unavailable(format_args!("cannot connect: {reason}"));
        if let SourceError::Unavailable(reason) = &error {
            self.settings.health.note_error(reason);
        }
        if self.health.borrow_mut().set(ConnectionState::Down) {
            tracing::warn!(source = %self.settings.origin, %reason, "source is down");
            self.went_down.notify_one();
        }
        error
    }

    /// Connects at the start, and again and again while the origin is down: so that its health does not depend on clients that ask.
    pub(super) async fn watch(&self) {
        loop {
            match self.connect(Instant::now() + self.settings.limits.timeout).await {
                Ok(connection) => {
                    self.give_back(connection);
                    self.went_down.notified().await;
                }
                Err(_) => sleep(RETRY_EVERY).await,
            }
        }
    }
}
