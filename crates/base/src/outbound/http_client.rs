//! HTTP/1.1 with connections that are kept: a request, and the whole of its answer.
use super::{
    http1::{speak_http1, with_cause},
    stream::connect_tcp,
};
use crate::{
    buffers::{BufferKind, Buffers, GrowingBuffer},
    tls::ClientTls,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Body, Incoming},
    client::conn::http1::SendRequest,
};
use std::{cell::RefCell, collections::HashMap, io, rc::Rc, sync::Arc, time::Duration};
use thiserror::Error;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

/// Connections that a core has to a server; what needs one more waits.
const MAX_CONNECTIONS: usize = 64;
/// A connection that was idle for longer is not used again.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);

/// Host and port.
type Address = (Box<str>, u16);

type Connection = SendRequest<Full<Bytes>>;

/// One core's connections to the servers that it sends requests to.
#[derive(Debug, Default)]
pub struct HttpClient(RefCell<HashMap<Address, Rc<Pool>>>);

/// One core's connections to a server.
#[derive(Debug)]
struct Pool {
    /// With the moment since when they are idle; the latest is last.
    idle: RefCell<Vec<(Connection, Instant)>>,
    under_way: Semaphore,
}
impl Default for Pool {
    fn default() -> Pool {
        Pool { idle: RefCell::default(), under_way: Semaphore::new(MAX_CONNECTIONS) }
    }
}
impl Pool {
    async fn take_idle(&self) -> Option<Connection> {
        loop {
            let (mut connection, since) = self.idle.borrow_mut().pop()?;
            if since.elapsed() < MAX_IDLE_TIME && connection.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }
}

/// Where a request goes, and what its answer may take.
pub struct HttpServer<'s> {
    pub host: &'s str,
    pub port: u16,
    /// Asked for each connection, since files may have changed; `None`: without TLS.
    pub tls: &'s dyn Fn() -> Result<Option<ClientTls>, String>,
    pub connect_timeout: Duration,
    pub deadline: Instant,
    /// Bytes of an answer's body.
    pub largest: usize,
    pub buffers: &'s Arc<Buffers>,
}

/// Whether a request may be made twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// A connection that was idle may have been closed: the request is sent on another one.
    IfUnanswered,
    /// Only if nothing of it has left.
    IfUnsent,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpFailure {
    /// Nothing was sent. `None`: there was no connection in time.
    #[error("cannot connect: {}", .0.as_deref().unwrap_or("no connection in time"))]
    NotConnected(Option<String>),
    /// The server may be working on it.
    #[error("{0}")]
    Broken(String),
    /// The server took the request, and closed the connection without an answer.
    #[error("{0}")]
    Closed(String),
    #[error("no answer in time")]
    Late,
    #[error("its answer broke off: {0}")]
    BrokeOff(String),
    #[error("no room for its answer (max-buffers)")]
    NoRoom,
    #[error("an answer of {0} bytes is larger than max-value allows")]
    TooLarge(usize),
}

impl HttpClient {
    /// Sends a request, on a connection that is idle or a new one.
    ///
    /// # Errors
    /// See [`HttpFailure`].
    pub async fn exchange(
        &self,
        server: &HttpServer<'_>,
        request: impl Fn() -> Request<Full<Bytes>>,
        resend: Resend,
    ) -> Result<Response<Bytes>, HttpFailure> {
        let pool = self.0.borrow_mut().entry((server.host.into(), server.port)).or_default().clone();
        let broken = |error: hyper::Error| match error.is_incomplete_message() {
            // It took the request: that it cannot be connected to was known before.
            true => HttpFailure::Closed(with_cause(&error)),
            false => HttpFailure::Broken(with_cause(&error)),
        };
        let exchange = async {
            // Never closed.
            let _under_way = pool.under_way.acquire().await;
            if let Some(mut connection) = pool.take_idle().await {
                match connection.try_send_request(request()).await {
                    Ok(response) => return server.finish(&pool, connection, response).await,
                    Err(mut error) => {
                        let is_unsent = error.take_message().is_some();
                        let error = error.into_error();
                        if error.is_timeout() || !is_unsent && resend == Resend::IfUnsent {
                            return Err(broken(error));
                        }
                    }
                }
            }
            let mut connection = server.connect().await?;
            let response = connection.send_request(request()).await.map_err(broken)?;
            server.finish(&pool, connection, response).await
        };
        timeout_at(server.deadline, exchange).await.unwrap_or(Err(HttpFailure::Late))
    }
}

impl HttpServer<'_> {
    async fn connect(&self) -> Result<Connection, HttpFailure> {
        let connecting = async {
            let tls = (self.tls)().map_err(io::Error::other)?;
            let stream = connect_tcp(self.host, self.port, tls.as_ref()).await?;
            speak_http1(stream).await.map_err(io::Error::other)
        };
        let until = self.deadline.min(Instant::now() + self.connect_timeout);
        let connected = timeout_at(until, connecting).await.map_err(|_| HttpFailure::NotConnected(None))?;
        connected.map_err(|error| HttpFailure::NotConnected(Some(error.to_string())))
    }

    /// Reads the body.
    async fn finish(
        &self,
        pool: &Pool,
        connection: Connection,
        response: Response<Incoming>,
    ) -> Result<Response<Bytes>, HttpFailure> {
        let (head, mut body) = response.into_parts();
        let announced = body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if let Some(size) = announced.filter(|size| *size > self.largest) {
            return Err(HttpFailure::TooLarge(size));
        }
        let mut all = GrowingBuffer::default();
        let mut charge = self.buffers.charge(BufferKind::Fetched);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| HttpFailure::BrokeOff(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            let size = all.len() + data.len();
            if size > self.largest {
                return Err(HttpFailure::TooLarge(size));
            }
            if !charge.try_resize(size) {
                return Err(HttpFailure::NoRoom);
            }
            all.extend(&data, announced.unwrap_or(size));
        }
        drop(charge);
        if !connection.is_closed() {
            pool.idle.borrow_mut().push((connection, Instant::now()));
        }
        Ok(Response::from_parts(head, self.buffers.count(BufferKind::Fetched, all)))
    }
}
