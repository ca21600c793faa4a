//! Dedicated connections of clients, and the pool of those that can be reused.
use super::{connection::UpstreamConnection, queued_request::UNTIL_PONG};
use crate::{
    local_future::LocalFuture,
    push_queue::PushQueue,
    raw_replies::RawReplies,
    redis_server_trait::{DedicatedConnection, Pace, Relay},
    source_error::SourceError,
};
use bytes::Bytes;
use larder_proto::resp;
use std::{cell::RefCell, rc::Rc, time::Duration};

/// The time limit of commands without one: longer than any process runs.
pub(super) const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 10);

/// Dedicated connections without state that can be reused, by protocol.
#[derive(Default)]
pub(super) struct ConnectionPool([RefCell<Vec<UpstreamConnection>>; 2]);
impl ConnectionPool {
    /// Maximum per protocol; others are closed.
    const MAX: usize = 16;
    pub(super) fn take(&self, resp3: bool) -> Option<UpstreamConnection> {
        let mut connections = self.0[usize::from(resp3)].borrow_mut();
        // Connections that were lost meanwhile are dropped.
        std::iter::from_fn(|| connections.pop()).find(|connection| connection.check().is_ok())
    }
    pub(super) fn put(&self, connection: UpstreamConnection, resp3: bool) {
        let mut connections = self.0[usize::from(resp3)].borrow_mut();
        if connections.len() < ConnectionPool::MAX {
            connections.push(connection);
        }
    }
}

/// A dedicated connection, from the pool if possible.
pub(super) struct PooledConnection {
    pub(super) connection: UpstreamConnection,
    pub(super) resp3: bool,
    pub(super) timeout: Duration,
    pub(super) slow_timeout: Duration,
    pub(super) pool: Rc<ConnectionPool>,
}
impl Relay for PooledConnection {
    fn relay_at(
        &self,
        pace: Pace,
        commands: Bytes,
        count: usize,
        _resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.connection.pushes().note_request(count);
        let limit = if pace.slow { self.slow_timeout } else { self.timeout };
        Box::pin(self.connection.relay_busy(commands, count, limit, pace.busy))
    }
}
impl DedicatedConnection for PooledConnection {
    fn relay_blocking(&self, command: Bytes) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.connection.pushes().note_request(1);
        Box::pin(self.connection.relay_within(command, 1, FOREVER))
    }
    fn ask(&self, mut command: Vec<u8>, marked: bool) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        if marked {
            command.extend_from_slice(&resp::encode(&[b"PING"]));
        }
        Box::pin(self.connection.relay(command.into(), if marked { UNTIL_PONG } else { 1 }))
    }
    fn pushes(&self) -> &PushQueue {
        self.connection.pushes()
    }
    fn note_protocol(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }
    fn release(self: Box<Self>) {
        if !self.connection.is_doubtful() {
            self.pool.put(self.connection, self.resp3);
        }
    }
}
