//! A core's idle HTTP connections to the primary.
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use std::{cell::RefCell, time::Duration};
use tokio::time::Instant;

/// Idle connections that a core keeps, and for how long.
const KEPT: usize = 16;
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);

pub(crate) type Connection = SendRequest<Full<Bytes>>;

/// One core's idle connections to the primary, with the moment since when; the latest is last.
#[derive(Debug, Default)]
pub(crate) struct PrimaryConnections(RefCell<Vec<(Connection, Instant)>>);

impl PrimaryConnections {
    pub(crate) fn take(&self) -> Option<Connection> {
        let mut idle = self.0.borrow_mut();
        idle.retain(|(connection, since)| connection.is_ready() && since.elapsed() < MAX_IDLE_TIME);
        idle.pop().map(|(connection, _)| connection)
    }
    pub(crate) fn put(&self, connection: Connection) {
        let mut idle = self.0.borrow_mut();
        if idle.len() < KEPT && !connection.is_closed() {
            idle.push((connection, Instant::now()));
        }
    }
}
