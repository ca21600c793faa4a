//! One core's HTTP/1.1 connections to the other nodes: a request, and the whole of its response.
use super::{
    member::Member,
    peer_answers::{no_room, not_reached},
    transport::PeerError,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Body, Incoming},
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use larder_base::{
    buffers::{BufferKind, Buffers, GrowingBuffer},
    tls::{NodeProtocol, ServerTls},
};
use larder_config::PeerAddress;
use larder_source::connect_tcp;
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

/// Connections that a core has to a node; what needs one more waits.
const MAX_CONNECTIONS: usize = 64;
/// A connection that was idle for longer is not used again.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);
/// What a message holds at most besides the value.
const LARGEST_REST: usize = 1 << 20;

type Connection = SendRequest<Full<Bytes>>;

/// How often a request may have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    AsOftenAsNeeded,
    No,
    Once,
}
impl Sent {
    fn again(self) -> Sent {
        if self == Sent::No { Sent::Once } else { self }
    }
}

/// One core's connections to the other nodes.
pub(super) struct HttpConnections {
    connect_timeout: Duration,
    max_value: usize,
    buffers: Arc<Buffers>,
    /// `None`: the nodes speak plain HTTP.
    tls: Option<Arc<ServerTls>>,
    pools: RefCell<HashMap<PeerAddress, Rc<Pool>>>,
}

/// One core's connections to a node.
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
    fn give_back(&self, connection: Connection) {
        if !connection.is_closed() {
            self.idle.borrow_mut().push((connection, Instant::now()));
        }
    }
}

impl HttpConnections {
    pub(super) fn new(
        connect_timeout: Duration,
        max_value: usize,
        buffers: Arc<Buffers>,
        tls: Option<Arc<ServerTls>>,
    ) -> HttpConnections {
        HttpConnections { connect_timeout, max_value, buffers, tls, pools: RefCell::default() }
    }

    fn pool(&self, address: &PeerAddress) -> Rc<Pool> {
        if let Some(pool) = self.pools.borrow().get(address) {
            return pool.clone();
        }
        self.pools.borrow_mut().entry(address.clone()).or_default().clone()
    }

    async fn connect(&self, member: &Member, deadline: Instant) -> Result<Connection, PeerError> {
        let PeerAddress { host, port } = &member.address;
        let connecting = async {
            let tls = match &self.tls {
                Some(tls) => tls.towards_node(host, NodeProtocol::Http1)?,
                None => None,
            };
            let stream = connect_tcp(host, *port, tls.as_ref()).await.map_err(|error| error.to_string())?;
            handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())
        };
        let until = deadline.min(Instant::now() + self.connect_timeout);
        let reason = match timeout_at(until, connecting).await {
            Ok(Ok((sender, connection))) => {
                tokio::task::spawn_local(async move {
                    // The request that is under way gets the error, too.
                    let _ = connection.await;
                });
                return Ok(sender);
            }
            Ok(Err(reason)) => reason,
            Err(_) => format!("timed out after {:?} (a quarter of source-timeout)", self.connect_timeout),
        };
        Err(PeerError::NotReached(format!("peer {}: cannot connect: {reason}", member.name).into()))
    }

    /// Sends a request, twice if need be, and gives the head and the body of the response.
    pub(super) async fn exchange(
        &self,
        member: &Member,
        request: impl Fn() -> Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<(Response<()>, Bytes), PeerError> {
        self.exchange_sent(member, request, deadline, &Cell::new(Sent::AsOftenAsNeeded)).await
    }

    /// The same for a request that must not arrive twice: `NoAnswer` if it may have arrived.
    pub(super) async fn exchange_once(
        &self,
        member: &Member,
        request: impl Fn() -> Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<(Response<()>, Bytes), PeerError> {
        let sent = Cell::new(Sent::No);
        self.exchange_sent(member, request, deadline, &sent).await.map_err(|error| match error {
            PeerError::NotReached(reason) if sent.get() == Sent::Once => PeerError::NoAnswer(reason),
            error => error,
        })
    }

    async fn exchange_sent(
        &self,
        member: &Member,
        request: impl Fn() -> Request<Full<Bytes>>,
        deadline: Instant,
        sent: &Cell<Sent>,
    ) -> Result<(Response<()>, Bytes), PeerError> {
        let pool = self.pool(&member.address);
        let exchange = async {
            // Never closed.
            let _under_way = pool.under_way.acquire().await;
            // An idle connection may have been closed by the other side. Most requests may be sent twice.
            if let Some(mut connection) = pool.take_idle().await {
                match connection.try_send_request(request()).await {
                    Ok(response) => {
                        sent.set(sent.get().again());
                        return self.finish(member, &pool, connection, response).await;
                    }
                    Err(mut error) => {
                        let is_unsent = error.take_message().is_some();
                        let error = error.into_error();
                        if error.is_timeout() || !is_unsent && sent.get() != Sent::AsOftenAsNeeded {
                            sent.set(sent.get().again());
                            return Err(self.broken(member, &error));
                        }
                    }
                }
            }
            let mut connection = self.connect(member, deadline).await?;
            sent.set(sent.get().again());
            match connection.send_request(request()).await {
                Ok(response) => self.finish(member, &pool, connection, response).await,
                Err(error) => Err(self.broken(member, &error)),
            }
        };
        match timeout_at(deadline, exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(PeerError::NoAnswer(format!("peer {}: no answer in time (source-timeout)", member.name).into()))
            }
        }
    }

    fn broken(&self, member: &Member, error: &hyper::Error) -> PeerError {
        // The cause may be an alert: that the node takes no certificate of ours.
        let cause = std::error::Error::source(error).map_or(String::new(), |cause| format!(": {cause}"));
        // It took the request: that it cannot be connected to was known before.
        match error.is_incomplete_message() {
            true => PeerError::Closed(format!("peer {}: {error}{cause}", member.name).into()),
            false => not_reached(member, format_args!("{error}{cause}")),
        }
    }

    async fn finish(
        &self,
        member: &Member,
        pool: &Pool,
        connection: Connection,
        response: Response<Incoming>,
    ) -> Result<(Response<()>, Bytes), PeerError> {
        let (head, mut body) = response.into_parts();
        let largest = self.max_value + LARGEST_REST;
        let too_large = |size: usize| {
            let reason = format!("peer {}: an answer of {size} bytes is larger than max-value allows", member.name);
            PeerError::Refused(reason.into())
        };
        let announced = body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if let Some(size) = announced.filter(|size| *size > largest) {
            return Err(too_large(size));
        }
        let mut all = GrowingBuffer::default();
        let mut charge = self.buffers.charge(BufferKind::Fetched);
        while let Some(frame) = body.frame().await {
            // It may have closed the connection that held the most, because its buffers are full. If it is gone,
            // the next request shows that.
            let frame = frame.map_err(|error| no_room(member, format_args!("its answer broke off: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            let size = all.len() + data.len();
            if size > largest {
                return Err(too_large(size));
            }
            if !charge.try_resize(size) {
                return Err(no_room(member, "no room for its answer (max-buffers)"));
            }
            all.extend(&data, announced.unwrap_or(size));
        }
        drop(charge);
        pool.give_back(connection);
        Ok((Response::from_parts(head, ()), self.buffers.count(BufferKind::Fetched, all)))
    }
}
